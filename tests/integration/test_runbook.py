"""docs/operations.md: every block of SQL runs on a migrated database with rows in it."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from postlease import gate, outbox
from postlease.database import connect
from postlease.model import Settlement
from tests import arrange

if TYPE_CHECKING:
    from uuid import UUID

    from postlease.database import Connection

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text("utf-8")
BLOCKS = re.findall(r"^```sql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
ALONE = ("VACUUM", "REINDEX")
"""What runs in no transaction."""


def block(word: str) -> bytes:
    """The one block of the page with that word in it."""
    [found] = [one for one in BLOCKS if word in one]
    return str(found).encode()


@pytest.fixture
def troubled(owner: Connection, application: Connection) -> Connection:
    """Messages of every kind: waiting, unknown, refused, held by workers that died; live links."""
    arrange.auth_message(owner)
    arrange.enqueue(owner, 4)
    refused, unknown = arrange.dispatch(application, 2)
    outbox.record(
        application,
        [Settlement(refused.claim, "failed", "rejected", code="c", failure_reason="rejected")],
    )
    arrange.end_lease(owner, unknown.claim.message_id)
    [dead] = arrange.claim(application)
    arrange.end_lease(owner, dead.claim.message_id)
    outbox.reap_undispatched(application, batch=10)
    return owner


def run(connection: Connection, statements: str) -> list[dict[str, Any]]:
    """What it found, and nothing changed of the rows."""
    if statements.startswith(ALONE):
        connection.execute(statements.encode())
        return []
    with connection.transaction(force_rollback=True):
        cursor = connection.execute(statements.encode())
        return cursor.fetchall() if cursor.description else []


def test_the_page_has_sql_for_many_things() -> None:
    assert len(BLOCKS) > 15


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_block_of_the_runbook_runs_and_shows_no_address(
    troubled: Connection, number: int
) -> None:
    for row in run(troubled, BLOCKS[number]):
        assert "@" not in str(row)


def test_who_was_held_by_a_dead_worker_is_shown(troubled: Connection) -> None:
    [suspect] = run(troubled, block("workers_lost").decode())
    assert suspect["workers_lost"] == 1


def test_the_links_that_still_work_are_counted_by_key_until_they_are_ended(
    troubled: Connection,
) -> None:
    counted = block("links_that_work")
    [key] = troubled.execute(counted).fetchall()
    assert (key["key_id"], key["links_that_work"]) == ("k1", 1)
    troubled.execute(block("key_id = 'k1'"))
    assert troubled.execute(counted).fetchall() == []


def test_who_waits_for_whom_is_told(owner: Connection, owner_url: str) -> None:
    """A migration that waits for a transaction that was left open."""
    with ThreadPoolExecutor(1) as threads, connect(owner_url) as other:
        holder, waiter = owner.info.backend_pid, other.info.backend_pid
        with owner.transaction(force_rollback=True):
            owner.execute("LOCK TABLE postlease.bounces IN ACCESS SHARE MODE")
            waiting = threads.submit(
                other.execute, "LOCK TABLE postlease.bounces IN ACCESS EXCLUSIVE MODE; COMMIT"
            )
            while not (found := owner.execute(block("pg_blocking_pids")).fetchall()):
                assert not waiting.done()
        assert [(row["waits"], row["holds"]) for row in found] == [(waiter, holder)]
        waiting.result(10)


def test_who_holds_the_migrators_lock_is_told(owner: Connection, owner_url: str) -> None:
    with connect(owner_url) as migrator:
        migrator.execute("SELECT pg_advisory_lock(1)")
        told = {row["pid"] for row in owner.execute(block("locktype = 'advisory'"))}
        assert migrator.info.backend_pid in told


def test_an_old_snapshot_is_named_by_its_session(owner: Connection, owner_url: str) -> None:
    with connect(owner_url) as other:
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT 1")
        told = {row["held_by"] for row in owner.execute(block("pg_prepared_xacts"))}
        assert f"session {other.info.backend_pid}" in told


def states(owner: Connection) -> dict[UUID, tuple[str, str | None]]:
    rows = owner.execute("SELECT id, status, failure_reason FROM postlease.email_messages")
    return {row["id"]: (row["status"], row["failure_reason"]) for row in rows}


def test_what_was_due_at_a_backup_is_held_and_nothing_leaves(
    troubled: Connection, application: Connection
) -> None:
    """Whoever is not due yet cannot have left. The gates were what they were at the backup."""
    gate.release(application, "ses", by="somebody", because="a test")
    gate.close_gate(application, "smtp", reason="sending_paused")
    [later] = arrange.enqueue(troubled)
    arrange.age(troubled, later, -arrange.GRACE, "available_at")
    finished = {one for one, (status, _) in states(troubled).items() if status == "failed"}
    troubled.execute(block("a backup was restored"))
    told = states(troubled)
    assert told.pop(later) == ("pending", None)
    assert {told.pop(one) for one in finished} == {("failed", "rejected")}
    assert set(told.values()) == {("failed", "outcome_unknown")}
    assert {one.state for one in gate.read(application)} == {"paused"}
    assert arrange.claim(application, 10) == []


def test_an_event_that_waited_settles_what_a_restore_holds(
    owner: Connection, application: Connection
) -> None:
    """The attempt that the database of before made next, or had begun."""
    waiting, begun = arrange.enqueue(owner, 2)
    arrange.age(owner, begun, arrange.GRACE, "available_at")
    [claimed] = arrange.dispatch(application)
    assert claimed.claim.message_id == begun
    owner.execute(block("a backup was restored"))
    for one in (waiting, begun):
        assert outbox.settle_accepted(
            application, message_id=one, attempt=1, provider_message_id="p"
        )
    assert set(states(owner).values()) == {("sent", None)}


def test_what_a_restore_holds_is_asked_for_again_by_a_word_and_under_a_new_number(
    owner: Connection, application: Connection
) -> None:
    """An event of the attempt before says nothing of the one after."""
    [message_id] = arrange.enqueue(owner)
    owner.execute(block("a backup was restored"))
    assert outbox.retry(application, message_id) == "retried"
    gate.release(application, "ses", by="somebody", because="a test")
    [claimed] = arrange.claim(application)
    assert claimed.claim.attempt == 2


def test_a_reset_s_link_does_not_work_after_a_restore(owner: Connection) -> None:
    user_id = arrange.user(owner)
    token_id = arrange.token(owner, user_id)
    owner.execute("UPDATE postlease.verification_tokens SET purpose = 'reset_password'")
    owner.execute(block("a backup was restored"))
    row = owner.execute(
        "SELECT superseded_at FROM postlease.verification_tokens WHERE id = %s", [token_id]
    ).fetchone()
    assert row
    assert row["superseded_at"]


def test_a_block_that_names_what_there_is_not_would_fail(owner: Connection) -> None:
    with pytest.raises(psycopg.errors.UndefinedColumn):
        run(owner, block("workers_lost").decode().replace("reaped_count", "died_count"))
