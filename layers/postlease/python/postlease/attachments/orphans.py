"""Uploads that no message took in a day leave the storage."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, LiteralString

from postlease.attachments import versions
from postlease.database import translated_errors

if TYPE_CHECKING:
    from postlease.database import Connection

PREFIX = "attachments/uploads/"

ADOPTION = timedelta(days=1)
"""An upload that no message took for so long is nobody's."""

# A note is left to its own deletion: it names what a message owned until now.
ORPHANS: LiteralString = """-- attachments.orphans
SELECT s.key, s.version
FROM unnest(%(keys)s::text[], %(versions)s::text[], %(moments)s::timestamptz[])
    AS s (key, version, modified_at)
WHERE s.modified_at < now() - %(age)s::interval
  AND NOT EXISTS (
    SELECT FROM postlease.email_attachments AS a
    WHERE a.owned AND a.storage_ref = s.key AND a.version_id = s.version)
"""


@dataclass(frozen=True, slots=True)
class Swept:
    """One page of uploads. position: where to go on; None when none lies behind.

    refused: what the storage would not delete.
    """

    found: int
    refused: int
    position: str | None


def sweep_orphans(
    connection: Connection, *, after: str, age: timedelta = ADOPTION, is_rehearsal: bool = False
) -> Swept:
    """Delete the uploads of one page behind after that are older than age and belong to nobody.

    Every version by itself: what lies over or under an adopted one was adopted by nobody. With
    is_rehearsal they are counted and stay. Call it outside of a transaction. Raises
    UnavailableError when the storage does not answer.
    """
    page = versions.listed(PREFIX, after=after)
    parameters = {
        "keys": [one.key for one in page.versions],
        "versions": [one.version_id for one in page.versions],
        "moments": [one.modified_at for one in page.versions],
        "age": age,
    }
    with translated_errors():
        rows = connection.execute(ORPHANS, parameters).fetchall()
    orphans = [(row["key"], row["version"]) for row in rows]
    refused = set() if is_rehearsal else versions.delete(orphans)
    position = page.behind
    if position is not None and (gone := set() if is_rehearsal else {*orphans} - refused):
        # Behind what stays: a storage may go on wrongly behind what is gone. Where nothing stays,
        # the next page is the one from the same place.
        stays = [one.key for one in page.versions if (one.key, one.version_id) not in gone]
        position = max((key for key in stays if key <= position), default=after)
    return Swept(len(orphans) - len(refused), len(refused), position)
