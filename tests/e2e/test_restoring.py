"""docs/operations.md, restoring the database: followed by its own words, on a real dump.

What was sent after the backup is not sent again, what had not left leaves once, and so does what is
asked for afterwards.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from local.binaries import find_binaries
from postlease import gate, outbox
from postlease.database import connect
from postlease.model import event_id
from tests import arrange

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from uuid import UUID

    from local.stack import Stack
    from postlease.database import Connection

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")
SECTION = PAGE.partition("\n## Restoring the database\n")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"^```(sh|sql)\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)
HERE = [(language, text) for language, text in BLOCKS if "aws " not in text]
"""What is done at the databases and over the API; the rest is AWS's."""

ROLES, RESTORE = HERE[0][1], HERE[1][1]

SETTINGS = """
SELECT unnest(s.setconfig) AS setting FROM pg_db_role_setting AS s
WHERE s.setrole = 'postlease_application'::regrole
  AND s.setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
OF_A_SUPERUSER = {"log_error_verbosity=terse", "log_min_error_statement=panic"}

WAITING = "SELECT FROM postlease.email_messages WHERE status = 'pending' AND available_at < now()"


class Desk:
    """A folder with a shell in it, as the page asks for one."""

    def __init__(self, folder: Path, stack: Stack, old_url: str) -> None:
        self._folder = folder
        self._stack = stack
        self._ops = f"{sys.executable} -m ops --local --endpoint {stack.url}"
        self._environment = {
            **os.environ,
            "RESTORED_URL": stack.database_url,
            "OLD_URL": old_url,
            "PATH": f"{find_binaries()}:{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT}:{ROOT / 'layers/postlease/python'}",
        }

    def run(self, script: str, **environment: str) -> None:
        """Do what the script says; none of its commands fails."""
        ended = subprocess.run(
            ["bash", "-c", f'set -euo pipefail\nops() {{ {self._ops} "$@"; }}\n{script}'],
            cwd=self._folder,
            env=self._environment | environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr

    def ask(self, statements: str, **environment: str) -> None:
        """Run a block of SQL as the page says: all of it or nothing."""
        (self._folder / "block.sql").write_text(statements)
        alone = "psql -q --single-transaction -v ON_ERROR_STOP=1 -f block.sql"
        self.run(f'{alone} "$RESTORED_URL"', **environment)

    def sweep(self, owner: Connection) -> None:
        """Sweeps and reapers, until nothing waits that is due."""
        for _ in range(20):
            self._stack.invoke("sweep")
            self._stack.invoke("reaper")
            if owner.execute(WAITING).fetchone() is None:
                return


@pytest.fixture
def old_url(empty_database: Callable[[], str]) -> str:
    """A place for what the database was when it was lost."""
    return empty_database()


@pytest.fixture
def desk(tmp_path: Path, swept_by_hand: Stack, emptied: Connection, old_url: str) -> Iterator[Desk]:
    """The shell; afterwards the stack has its database as it was."""
    made = Desk(tmp_path, swept_by_hand, old_url)
    made.run('pg_dump -Fc -n postlease -f safe.dump "$RESTORED_URL"')
    yield made
    emptied.execute("DROP SCHEMA IF EXISTS postlease CASCADE")
    made.run('pg_restore --exit-on-error -d "$RESTORED_URL" safe.dump')


def mailed(stack: Stack) -> Counter[str]:
    """How many mails of each message were accepted."""
    return Counter(mail["message_id"] for mail in stack.inbox())


def states(owner: Connection, ids: Collection[UUID]) -> set[tuple[str, str | None]]:
    rows = owner.execute(
        "SELECT status, failure_reason FROM postlease.email_messages WHERE id = ANY (%s)",
        [list(ids)],
    )
    return {(row["status"], row["failure_reason"]) for row in rows}


def test_a_restored_backup_sends_nothing_twice_and_once_what_had_not_left(
    desk: Desk, swept_by_hand: Stack, emptied: Connection, old_url: str
) -> None:
    swept_by_hand.set_faults("lose_response", times=1)
    unanswered = arrange.enqueue(emptied)
    desk.sweep(emptied)
    sent_before, refused_before = arrange.enqueue(emptied, 2)
    outbox.cancel(emptied, refused_before)
    desk.sweep(emptied)
    sent_since = [*arrange.enqueue(emptied, 3), *arrange.enqueue(emptied, delivery="at_most_once")]
    cancelled_since = arrange.enqueue(emptied)
    had_not_left = arrange.enqueue(emptied, 2)
    of_later = arrange.enqueue(emptied)
    replaced_since = arrange.enqueue(emptied, cancel_scope="cart 7")
    taken_back_since = arrange.enqueue(emptied)
    for one in (*of_later, *replaced_since, *taken_back_since):
        arrange.age(emptied, one, -timedelta(hours=1), "available_at")
    desk.run('pg_dump -Fc -n postlease -f postlease.dump "$RESTORED_URL"')

    for one in had_not_left:
        arrange.age(emptied, one, -timedelta(hours=1), "available_at")
    for one in (*cancelled_since, *taken_back_since):
        outbox.cancel(emptied, one)
    lost = arrange.enqueue(emptied, cancel_scope="cart 7")
    desk.sweep(emptied)
    desk.run('pg_dump -Fc -n postlease -f lost.dump "$RESTORED_URL"')
    desk.ask(ROLES, RESTORED_URL=old_url)
    desk.run(RESTORE.replace("postlease.dump", "lost.dump"), RESTORED_URL=old_url)
    emptied.execute("DROP SCHEMA postlease CASCADE")
    with connect(old_url) as old:
        settings = {row["setting"] for row in old.execute(SETTINGS)}
    made = {row["setting"] for row in emptied.execute(SETTINGS)}
    assert settings == made - OF_A_SUPERUSER

    (_, roles), (_, restore), (_, hold), *following, (_, opening) = HERE
    desk.ask(roles)
    desk.run(restore)
    desk.ask(hold)
    asked_since = arrange.enqueue(emptied, 2)
    for _, block in following:
        swept_by_hand.invoke("sweep")
        desk.run(block)
    swept_by_hand.invoke("sweep")
    before = mailed(swept_by_hand)
    assert before.keys() == set(map(event_id, (*unanswered, sent_before, *sent_since, *lost)))

    assert states(emptied, sent_since) == {("sent", None)}
    assert states(emptied, had_not_left) == states(emptied, of_later) == {("pending", None)}
    assert states(emptied, [*replaced_since, *taken_back_since]) == {("failed", "cancelled")}
    assert states(emptied, unanswered) == {("failed", "outcome_unknown")}
    assert states(emptied, cancelled_since) == {("failed", "outcome_unknown")}
    assert states(emptied, [refused_before]) == {("failed", "cancelled")}
    desk.run(f"{opening.strip()} --yes")
    desk.sweep(emptied)
    leaves_now = {event_id(one): 1 for one in (*had_not_left, *asked_since)}
    assert mailed(swept_by_hand) == before | Counter(leaves_now)
    assert set(mailed(swept_by_hand).values()) == {1}
    assert event_id(of_later[0]) not in mailed(swept_by_hand)


def test_a_restore_in_which_nothing_was_held_and_one_of_every_state_lose_and_double_nothing(
    desk: Desk, swept_by_hand: Stack, emptied: Connection, old_url: str
) -> None:
    """First with an empty outbox, then with workers in the middle of it all."""
    (_, roles), (_, restore), (_, hold), *following, _ = HERE

    def lose_and_restore() -> None:
        desk.run('pg_dump -Fc -n postlease -f lost.dump "$RESTORED_URL"')
        with connect(old_url) as old:
            old.execute("DROP SCHEMA IF EXISTS postlease CASCADE")
        desk.ask(roles, RESTORED_URL=old_url)
        desk.run(restore.replace("postlease.dump", "lost.dump"), RESTORED_URL=old_url)
        emptied.execute("DROP SCHEMA postlease CASCADE")
        desk.ask(roles)
        desk.run(restore)
        desk.ask(hold)
        for _, block in following:
            desk.run(block)

    dump = 'pg_dump -Fc -n postlease -f postlease.dump "$RESTORED_URL"'
    desk.run(dump)
    lose_and_restore()
    assert arrange.statuses(emptied) == {}
    gate.release(emptied, "ses", by="somebody", because="a test")

    claimed, called, over = arrange.enqueue(emptied, 3)
    suspect = arrange.enqueue(emptied)
    tried_often = arrange.enqueue(emptied)
    link, _ = arrange.auth_message(emptied)
    late = arrange.enqueue(emptied)
    keyed = arrange.enqueue(emptied, idempotency_key="order 7")
    arrange.claim(emptied, 3)
    arrange.age(emptied, over, timedelta(minutes=5), "claimed_at", "lease_expires_at")
    emptied.execute(
        "UPDATE postlease.email_messages SET dispatched_at = now(), provider = 'ses' WHERE id = %s",
        [called],
    )
    emptied.execute(
        "UPDATE postlease.email_messages SET reaped_count = 2 WHERE id = %s", [suspect[0]]
    )
    emptied.execute(
        "UPDATE postlease.email_messages SET attempt_count = 30 WHERE id = %s", [tried_often[0]]
    )
    emptied.execute(
        "UPDATE postlease.email_messages SET expires_at = now() WHERE id = %s", [late[0]]
    )
    desk.run(dump)
    everything = {claimed, called, over, *suspect, *tried_often, *late, *keyed}
    desk.sweep(emptied)
    before = mailed(swept_by_hand)
    lose_and_restore()
    assert arrange.enqueue(emptied, idempotency_key="order 7") == keyed
    gate.release(emptied, "ses", by="somebody", because="a test")
    desk.sweep(emptied)
    # Whoever held that one was stopped before the call.
    assert mailed(swept_by_hand) == before | Counter([event_id(claimed)])
    assert set(mailed(swept_by_hand).values()) == {1}
    assert states(emptied, [link]) == {("pending", None)}, "its token's key is not there"
    assert states(emptied, everything) == {("sent", None), ("failed", "outcome_unknown")}
