"""Group commit: shared statements, repeated until answered, and nobody pays for another."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from psycopg.conninfo import make_conninfo

from postlease import outbox
from postlease.database import Database, connect, translated_errors
from postlease.delivery import outcomes
from postlease.delivery.calls import Calls
from postlease.delivery.connections import Connections
from postlease.delivery.writer import Writer
from postlease.errors import DatabaseError, UnavailableError
from postlease.model import Claim, Settlement
from tests import arrange
from tests.integration.delivery.test_time import wait_for_lock_wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postlease.database import Connection


TERMS = outbox.Terms("ses", keeps_keys=False, needed=arrange.NEEDED, max_attempts=5)
NOWHERE = "host=127.0.0.1 port=1 user=nobody dbname=none"


def soon() -> float:
    return time.monotonic() + 10


def late() -> float:
    return time.monotonic() + 60


@pytest.fixture
def writer(connections: Connections) -> Iterator[Writer]:
    with Writer(connections, TERMS, Calls(100)) as running:
        yield running


def test_a_lone_request_is_written_at_once(
    writer: Writer, owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.claim(application)
    verdict = writer.authorize(outbox.Asked(message.claim, ()), until=soon())
    assert verdict == outbox.Verdict("go", frozenset())
    assert writer.record(arrange.sent(message.claim), until=soon())
    assert arrange.row(owner, message_id)["status"] == "sent"


def test_a_lost_lease_is_told_apart(
    writer: Writer, owner: Connection, application: Connection
) -> None:
    arrange.enqueue(owner)
    [message] = arrange.claim(application)
    stranger = Claim(message.claim.message_id, "worker-b", 1)
    assert writer.authorize(outbox.Asked(stranger, ()), until=soon()) is None
    assert not writer.record(arrange.sent(stranger), until=soon())


def test_requests_that_arrive_during_a_commit_share_the_next(
    writer: Writer, owner: Connection, application: Connection, owner_url: str
) -> None:
    arrange.enqueue(owner, 40)
    claimed = arrange.dispatch(application, 40)
    with ThreadPoolExecutor(40) as threads:
        with connect(owner_url) as blocker, blocker.transaction():
            blocker.execute(
                "SELECT FROM postlease.email_messages WHERE id = %s FOR UPDATE",
                [claimed[0].claim.message_id],
            )
            first = threads.submit(writer.record, arrange.sent(claimed[0].claim), until=soon())
            wait_for_lock_wait(owner)
            rest = [
                threads.submit(writer.record, arrange.sent(message.claim), until=soon())
                for message in claimed[1:]
            ]
            while len(writer._records) < len(rest):
                time.sleep(0.001)
        assert all(answer.result() for answer in [first, *rest])
    ends = owner.execute("SELECT DISTINCT finished_at FROM postlease.email_messages").fetchall()
    assert len(ends) == 2


def test_one_bad_row_in_a_batch_costs_only_itself(
    writer: Writer, owner: Connection, application: Connection, owner_url: str
) -> None:
    arrange.enqueue(owner, 4)
    claimed = arrange.dispatch(application, 4)
    nameless = Settlement(claimed[2].claim, "sent", "accepted")
    settlements = [arrange.sent(message.claim) for message in claimed]
    settlements[2] = nameless
    with ThreadPoolExecutor(4) as threads:
        with connect(owner_url) as blocker, blocker.transaction():
            blocker.execute("LOCK TABLE postlease.email_messages IN SHARE MODE")
            answers = [
                threads.submit(writer.record, settlement, until=soon())
                for settlement in settlements
            ]
            wait_for_lock_wait(owner)
        errors = [answer.exception() for answer in answers]
    assert [type(error) for error in errors] == [
        type(None),
        type(None),
        DatabaseError,
        type(None),
    ]
    assert str(errors[2]) == "sqlstate 23514, constraint email_messages_sent_is_named"
    assert arrange.statuses(owner) == {"sent": 3, "sending": 1}


def test_a_broken_connection_is_replaced_and_the_record_repeated(
    writer: Writer, owner: Connection, application: Connection, owner_url: str
) -> None:
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.dispatch(application)
    with ThreadPoolExecutor(1) as threads, connect(owner_url) as blocker:
        blocker.execute("BEGIN")
        blocker.execute("SELECT FROM postlease.email_messages FOR UPDATE")
        answer = threads.submit(writer.record, arrange.sent(message.claim), until=soon())
        wait_for_lock_wait(owner)
        owner.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        wait_for_lock_wait(owner)
        blocker.execute("ROLLBACK")
        assert answer.result()
    assert arrange.row(owner, message_id)["status"] == "sent"


def test_a_commit_whose_answer_was_lost_is_not_a_lost_lease(
    writer: Writer, owner: Connection, application: Connection
) -> None:
    """What the first call wrote counts when the second finds it written."""
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.dispatch(application)
    outbox.record(application, [arrange.sent(message.claim)])
    assert writer.record(arrange.sent(message.claim), until=soon())
    assert arrange.row(owner, message_id)["attempt_count"] == 1


def test_a_database_that_stays_away_ends_the_waiting_with_the_lease(owner: Connection) -> None:
    away = Connections.new(lambda *, refresh: NOWHERE)
    with Writer(away, TERMS, Calls(100)) as writer:
        until = time.monotonic() + 0.2
        with pytest.raises(UnavailableError):
            writer.record(arrange.sent(Claim(UUID(int=1), "worker-a", 1)), until=until)
        assert time.monotonic() >= until


class Reach:
    """Where records find the database: away, until it is back."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self.is_away = True

    def __call__(self, *, refresh: bool) -> str:
        del refresh
        return NOWHERE if self.is_away else self._conninfo


@pytest.fixture
def reach(application_conninfo: str) -> Reach:
    return Reach(application_conninfo)


@pytest.fixture
def half_writer(connections: Connections, reach: Reach) -> Iterator[Writer]:
    """A writer whose records' connection may be the one too many."""
    records = Database(reach)
    with Writer(replace(connections, records=records), TERMS, Calls(100)) as running:
        yield running
    records.discard()


def test_nothing_is_authorized_that_could_not_be_recorded(
    half_writer: Writer, owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.claim(application)
    with pytest.raises(UnavailableError):
        half_writer.authorize(outbox.Asked(message.claim, ()), until=time.monotonic() + 0.5)
    assert arrange.row(owner, message_id)["dispatched_at"] is None


def test_it_is_as_soon_as_it_could(
    half_writer: Writer, reach: Reach, owner: Connection, application: Connection
) -> None:
    arrange.enqueue(owner)
    [message] = arrange.claim(application)
    with ThreadPoolExecutor(1) as threads:
        verdict = threads.submit(
            half_writer.authorize, outbox.Asked(message.claim, ()), until=soon()
        )
        while not half_writer._asks:
            time.sleep(0.001)
        reach.is_away = False
        assert verdict.result() == outbox.Verdict("go", frozenset())


def test_nor_while_the_records_connection_is_lost(
    half_writer: Writer, reach: Reach, owner: Connection, application: Connection
) -> None:
    """Even if the record that met with it has given up."""
    reach.is_away = False
    arrange.enqueue(owner, 2)
    lost, held = [message.claim for message in arrange.claim(application, 2)]
    assert half_writer.authorize(outbox.Asked(lost, ()), until=soon())
    reach.is_away = True
    half_writer._recorder._database.discard()
    with pytest.raises(UnavailableError):
        half_writer.record(arrange.sent(lost), until=time.monotonic())
    with pytest.raises(UnavailableError):
        half_writer.authorize(outbox.Asked(held, ()), until=time.monotonic() + 0.5)
    assert arrange.row(owner, held.message_id)["dispatched_at"] is None
    reach.is_away = False
    assert half_writer.authorize(outbox.Asked(held, ()), until=soon())


def test_a_writer_for_which_there_is_no_thread_leaves_none(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "records":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    before = threading.active_count()
    with pytest.raises(RuntimeError), Writer(connections, TERMS, Calls(1)):
        pass
    assert threading.active_count() == before


@contextmanager
def writer_with(application_conninfo: str, options: str) -> Iterator[Writer]:
    """A writer whose sessions have options."""
    conninfo = make_conninfo(application_conninfo, options=options)
    own = Connections.new(lambda *, refresh: conninfo)
    with Writer(own, TERMS, Calls(100)) as running:
        yield running
    own.discard()


@pytest.fixture
def hasty_writer(application_conninfo: str) -> Iterator[Writer]:
    """A writer whose statements wait a tenth of a second for a lock."""
    with writer_with(application_conninfo, "-c lock_timeout=100ms") as running:
        yield running


@pytest.fixture
def patient_writer(application_conninfo: str) -> Iterator[Writer]:
    """A writer whose statements wait as long as it takes."""
    options = "-c lock_timeout=0 -c statement_timeout=0"
    with writer_with(application_conninfo, options) as running:
        yield running


def test_a_record_does_not_wait_behind_an_authorization(
    patient_writer: Writer, owner: Connection, application: Connection, owner_url: str
) -> None:
    arrange.enqueue(owner, 2)
    asked, sent = [message.claim for message in arrange.claim(application, 2)]
    with ThreadPoolExecutor(1) as threads:
        with connect(owner_url) as blocker, blocker.transaction():
            blocker.execute(
                "SELECT FROM postlease.email_messages WHERE id = %s FOR UPDATE", [asked.message_id]
            )
            waiting = threads.submit(
                patient_writer.authorize, outbox.Asked(asked, ()), until=late()
            )
            wait_for_lock_wait(owner)
            assert patient_writer.record(outcomes.handed_back(sent), until=soon())
            assert not waiting.done()
        assert waiting.result() == outbox.Verdict("go", frozenset())


def test_a_record_that_waits_for_a_lock_holds_up_nobody_else(
    hasty_writer: Writer, owner: Connection, application: Connection, owner_url: str
) -> None:
    arrange.enqueue(owner, 4)
    held, *others = [message.claim for message in arrange.dispatch(application, 4)]
    with ThreadPoolExecutor(4) as threads:
        with connect(owner_url) as blocker, blocker.transaction():
            blocker.execute(
                "SELECT FROM postlease.email_messages WHERE id = %s FOR UPDATE", [held.message_id]
            )
            waiting = threads.submit(hasty_writer.record, arrange.sent(held), until=late())
            wait_for_lock_wait(owner)
            answers = [
                threads.submit(hasty_writer.record, arrange.sent(claim), until=late())
                for claim in others
            ]
            assert all(answer.result(timeout=30) for answer in answers)
            assert not waiting.done()
        assert waiting.result()
    assert arrange.statuses(owner) == {"sent": 4}


def test_two_gate_calls_that_wait_for_locks_leave_every_other_request_its_turn(
    hasty_writer: Writer, owner: Connection, application: Connection, owner_url: str
) -> None:
    """Each try waits as long as the other's pause: one of the two is always ready to go first."""
    arrange.enqueue(owner, 3)
    *held, other = [message.claim for message in arrange.claim(application, 3)]

    def locked(claim: Claim) -> str:
        def lock(connection: Connection) -> str:
            with translated_errors():
                connection.execute(
                    "SELECT FROM postlease.email_messages WHERE id = %s FOR UPDATE",
                    [claim.message_id],
                )
            return "locked"

        return hasty_writer.ask_gate(claim, lock, until=late())

    with ThreadPoolExecutor(2) as threads:
        with connect(owner_url) as blocker, blocker.transaction():
            blocker.execute(
                "SELECT FROM postlease.email_messages WHERE id = ANY (%s) FOR UPDATE",
                [[claim.message_id for claim in held]],
            )
            waiting = [threads.submit(locked, claim) for claim in held]
            wait_for_lock_wait(owner)
            verdict = hasty_writer.authorize(outbox.Asked(other, ()), until=late())
            assert verdict == outbox.Verdict("go", frozenset())
            assert hasty_writer.ask_gate(other, lambda _: "told", until=late()) == "told"
            assert not any(answer.done() for answer in waiting)
        assert [answer.result() for answer in waiting] == ["locked", "locked"]


def test_a_record_that_is_refused_again_and_again_holds_up_nobody_else(
    writer: Writer, owner: Connection, application: Connection
) -> None:
    """Nor what is less urgent: it is repeated in between."""
    arrange.enqueue(owner, 2)
    [refused, other] = [message.claim for message in arrange.claim(application, 2)]
    owner.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql"
        " AS $$ BEGIN RAISE EXCEPTION 'not now'; END $$"
    )
    owner.execute(
        "CREATE TRIGGER refuse BEFORE UPDATE ON postlease.email_messages FOR EACH ROW"
        f" WHEN (NEW.id = '{refused.message_id}') EXECUTE FUNCTION refuse()"
    )
    try:
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(writer.record, outcomes.handed_back(refused), until=late())
            for _ in range(3):
                verdict = writer.authorize(outbox.Asked(other, ()), until=soon())
                assert verdict == outbox.Verdict("go", frozenset())
            assert not waiting.done()
            owner.execute("DROP TRIGGER refuse ON postlease.email_messages")
            assert waiting.result()
    finally:
        owner.execute("DROP FUNCTION refuse CASCADE")


def test_two_claims_of_one_message_are_never_in_one_batch(
    writer: Writer, owner: Connection, application: Connection, owner_url: str
) -> None:
    """A stale claim beside the living one must not hide it."""
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.dispatch(application)
    stale = Claim(message_id, "worker-before", 1)
    started = threading.Barrier(2)

    def record(claim: Claim) -> bool:
        started.wait()
        return writer.record(arrange.sent(claim), until=soon())

    with ThreadPoolExecutor(2) as threads:
        with connect(owner_url) as blocker, blocker.transaction():
            blocker.execute("LOCK TABLE postlease.email_messages IN SHARE MODE")
            answers = [threads.submit(record, claim) for claim in (stale, message.claim)]
            wait_for_lock_wait(owner)
        assert [answer.result() for answer in answers] == [False, True]
