"""Messages that the API's signed callers ask for, born in the name of each caller."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, LiteralString

from psycopg import errors as refusals
from psycopg.types.json import Jsonb

from postlease.database import translated_errors
from postlease.errors import RuleError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from postlease.database import Connection

ENQUEUE_FOR: LiteralString = """-- outbox.enqueue_for
SELECT f.id, f.is_new FROM postlease.enqueue_for(%(producer)s, %(messages)s) AS f
ORDER BY f."position"
"""

_POSITION = re.compile("message ([0-9]{1,9}): ")


@dataclass(frozen=True, slots=True)
class Accepted:
    """A message's id; is_new: it was not there before under its idempotency key."""

    id: UUID
    is_new: bool


def enqueue_for(
    connection: Connection, producer: str, messages: Sequence[dict[str, Any]]
) -> list[Accepted]:
    """Ask for messages in producer's name, all or none; does not commit.

    The members of one are the arguments of `postlease.enqueue_email`. RuleError names the first one
    that the schema refuses, and by which rule.
    """
    parameters = {"producer": producer, "messages": Jsonb(list(messages))}
    with translated_errors():
        try:
            return [Accepted(**row) for row in connection.execute(ENQUEUE_FOR, parameters)]
        except refusals.IntegrityError as error:
            # The text is the function's own; nothing else of it is kept.
            place = _POSITION.match(error.diag.message_primary or "")
            if place is None:
                raise
            constraint = error.diag.constraint_name or error.diag.column_name
            raise RuleError(error.sqlstate, constraint, int(place[1])) from None
