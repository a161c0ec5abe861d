"""The product itself: its functions as processes under the runtime client, killed for real."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.rows import dict_row

from local import postgres
from local.stack import Stack
from postlease.model import event_id
from tests import arrange
from tests.emptying import emptied

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from local.provider import Counts
    from postlease.database import Connection

TIMES = {
    "CALL_BUDGET_SECONDS": "20",
    "CONNECT_TIMEOUT_SECONDS": "4",
    "READ_TIMEOUT_SECONDS": "14",
    "START_MARGIN_SECONDS": "1",
    "CALLER_MARGIN_SECONDS": "2",
    "LEASE_SECONDS": "40",
    "UNKNOWN_GRACE_SECONDS": "40",
    "SWEEP_TIMEOUT_SECONDS": "60",
    "SWEEP_LINGER_SECONDS": "0",
}
"""A machine that stands still for seconds loses no call: what is unknown here was made so."""

HURRIED = TIMES | {
    "CALL_BUDGET_SECONDS": "2",
    "CONNECT_TIMEOUT_SECONDS": "0.5",
    "READ_TIMEOUT_SECONDS": "1.4",
    "LEASE_SECONDS": "6",
    "UNKNOWN_GRACE_SECONDS": "8",
    "SWEEP_TIMEOUT_SECONDS": "10",
}
"""For what must be waited out."""


@pytest.fixture(scope="module")
def product(server_url: str) -> Iterator[Stack]:
    """The product, with times that outlast a slow machine."""
    with Stack(database_url=server_url, settings=TIMES, timeouts={"sweep": 60}) as stack:
        yield stack


@pytest.fixture
def rows(product: Stack) -> Iterator[Connection]:
    """The owner's connection to the product's database, with nothing left of an earlier test."""
    with emptied(product) as owner:
        yield owner


def pass_time(owner: Connection, seconds: int = 100) -> None:
    """Move every lease into the past, as if so much time had gone by; all of it, unless told."""
    owner.execute(
        "UPDATE postlease.email_messages SET claimed_at = claimed_at - %(by)s::interval,"
        " lease_expires_at = lease_expires_at - %(by)s::interval,"
        " dispatched_at = dispatched_at - %(by)s::interval WHERE status = 'sending'",
        {"by": f"{seconds} seconds"},
    )


def has_accepted(wanted: int, counts: Counts) -> bool:
    """Whether the provider has accepted so many mails."""
    return counts.accepted >= wanted


def test_two_sweeps_started_together_send_each_due_message_exactly_once(
    product: Stack, rows: Connection
) -> None:
    """QUE-01, SCH-01: the same schedule event twice, in two processes, over 500 messages."""
    ids = arrange.enqueue(rows, 500)
    event = product.trigger_event("sweep")
    with ThreadPoolExecutor(2) as threads:
        results = list(threads.map(product.invoke, ["sweep", "sweep"], [event, event]))
    while arrange.statuses(rows).get("pending"):
        results.append(product.invoke("sweep"))
    assert arrange.statuses(rows) == {"sent": 500}, results
    assert sum(result.get("sent", 0) for result in results) == 500
    assert all(result.get("sent") for result in results[:2]), "the two did not share the work"
    mails = [mail["message_id"] for mail in product.inbox()]
    assert len(mails) == len(set(mails)) == len(ids)


def test_the_reaper_gives_back_what_a_killed_sweep_held(product: Stack, rows: Connection) -> None:
    """LSE-03: killed before acceptance, recovered by the next reaper and sweep, sent once."""
    arrange.enqueue(rows, 5)
    product.set_faults("stall")
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(product.run, "sweep")
        assert product.provider.wait_for(lambda counts: counts.held == 5, seconds=10)
        assert product.kill("sweep")
        assert running.result().error is not None
    assert arrange.statuses(rows) == {"sending": 5}
    product.set_faults("accept")
    assert sum(product.invoke("reaper").values()) == 0, "the grace is not over"
    pass_time(rows)
    assert product.invoke("reaper")["unknown_returned"] == 5
    assert product.invoke("sweep")["sent"] == 5
    mails = [mail["message_id"] for mail in product.inbox()]
    assert len(mails) == len(set(mails)) == 5


def sending(rows: Connection) -> set[str]:
    """The events of the messages that may be leaving, or that were never heard of again."""
    held = rows.execute(
        "SELECT id FROM postlease.email_messages"
        " WHERE status = 'sending' AND dispatched_at IS NOT NULL"
    )
    return {event_id(row["id"]) for row in held}


def test_a_sweep_killed_half_way_is_gone_on_with_from_there(
    product: Stack, rows: Connection
) -> None:
    """QUE-05: killed three times in 150 mails; only what was under way may leave again."""
    # What a killed sweep had claimed ahead stays its own until the reaper comes: there are more.
    arrange.enqueue(rows, 150)
    product.set_faults("slow", seconds=0.1)
    begun = product.provider.counts.accepted
    under_way: set[str] = set()
    for wanted in (begun + 20, begun + 50, begun + 80):
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(product.run, "sweep")
            accepted = partial(has_accepted, wanted)
            assert product.provider.wait_for(accepted, seconds=30)
            assert product.kill("sweep")
            assert running.result().error is not None
        under_way |= sending(rows)
    assert 0 < len(under_way) < 50
    product.set_faults("accept")
    while unfinished := {"pending", "sending"} & arrange.statuses(rows).keys():
        if "sending" in unfinished:
            # A call that a busy machine held up beyond its timeout is as unknown as a killed one's.
            under_way |= sending(rows)
            pass_time(rows)
            product.invoke("reaper")
        product.invoke("sweep")
    assert arrange.statuses(rows) == {"sent": 150}
    mails = Counter(mail["message_id"] for mail in product.inbox())
    assert len(mails) == 150
    assert {message_id for message_id, copies in mails.items() if copies > 1} <= under_way


def test_a_sweep_killed_after_acceptance_is_settled_by_the_policy(
    product: Stack, rows: Connection
) -> None:
    arrange.enqueue(rows, delivery="at_most_once")
    product.set_faults("lose_response", times=1)
    assert product.invoke("sweep")["unknown"] == 1
    pass_time(rows)
    assert product.invoke("reaper")["unknown_failed"] == 1
    assert product.invoke("sweep")["claimed"] == 0
    assert len(product.inbox()) == 1
    row = rows.execute("SELECT status, failure_reason FROM postlease.email_messages").fetchone()
    assert row == {"status": "failed", "failure_reason": "outcome_unknown"}


def test_a_lost_answer_is_settled_by_ses_s_events_through_rule_and_queue(
    product: Stack, rows: Connection
) -> None:
    arrange.enqueue(rows, delivery="at_most_once")
    product.set_faults("lose_response", times=1)
    product.set_events("Send", "Delivery", times=1)
    assert product.invoke("sweep")["unknown"] == 1
    assert product.invoke("feedback") == {"batchItemFailures": []}
    row = rows.execute(
        "SELECT status, provider_message_id FROM postlease.email_messages"
    ).fetchone()
    [mail] = product.inbox()
    assert row == {"status": "sent", "provider_message_id": mail["provider_message_id"]}
    pass_time(rows)
    assert product.invoke("reaper")["unknown_failed"] == 0
    assert product.invoke("sweep")["claimed"] == 0


def test_a_database_that_was_restarted_between_invocations_is_found_again(
    product: Stack, rows: Connection
) -> None:
    """DBL-01: every kept connection is dead, and the next invocation does not notice."""
    product.invoke("sweep")
    rows.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE usename = 'postlease_application' AND datname = current_database()"
    )
    arrange.enqueue(rows)
    assert product.invoke("sweep")["sent"] == 1


def test_a_database_that_crashes_during_a_sweep_is_found_again_by_the_same_process() -> None:
    """DBL-05: crashed while calls are under way, and once more while nobody asks it."""
    with (
        postgres.Server(durable=True) as server,
        Stack(database_url=server.url, settings=TIMES, timeouts={"sweep": 60}) as stack,
    ):
        stack.invoke("sweep")
        processes = stack.functions["sweep"].pids
        with psycopg.connect(stack.database_url, autocommit=True, row_factory=dict_row) as owner:
            arrange.enqueue(owner, 30)
        stack.set_faults("slow", seconds=1)
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(stack.run, "sweep")
            assert stack.provider.wait_for(lambda counts: counts.held > 0, seconds=10)
            server.restart(crash=True)
            running.result()
        stack.set_faults("accept")
        server.restart(crash=True)
        with psycopg.connect(stack.database_url, autocommit=True, row_factory=dict_row) as owner:
            pass_time(owner)
            stack.invoke("reaper")
            while arrange.statuses(owner).get("pending"):
                stack.invoke("sweep")
            assert arrange.statuses(owner) == {"sent": 30}
        assert len({mail["message_id"] for mail in stack.inbox()}) == 30
        assert stack.functions["sweep"].pids == processes


def test_a_message_that_kills_its_worker_ends_alone(server_url: str, tmp_path: Path) -> None:
    """A template that never ends costs its invocation three times; the others are sent."""
    folder = tmp_path / "endless" / "en"
    folder.mkdir(parents=True)
    (tmp_path / "endless" / "sample.json").write_text("{}")
    for name in ("subject.txt.j2", "body.txt.j2", "body.html.j2"):
        (folder / name).write_text(
            "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
        )
    settings = HURRIED | {"TEMPLATES_DIRECTORY": str(tmp_path)}
    with (
        Stack(database_url=server_url, settings=settings, timeouts={"sweep": 6}) as stack,
        psycopg.connect(stack.database_url, autocommit=True, row_factory=dict_row) as owner,
    ):
        arrange.enqueue(owner, 2)
        [poison] = arrange.enqueue(owner, template="endless", to=["poison@example.com"])
        arrange.enqueue(owner, 2, to=["later@example.com"])
        lost = 0
        deadline = time.monotonic() + 120
        while arrange.row(owner, poison)["status"] != "failed" and time.monotonic() < deadline:
            lost += stack.run("sweep").error is not None
            pass_time(owner, 7)
            stack.invoke("reaper")
        stored = arrange.row(owner, poison)
        assert (stored["status"], stored["failure_reason"]) == ("failed", "worker_lost")
        assert lost >= 3, "a slow machine may lose a sweep that held nothing"
        assert stored["attempt_count"] == stored["refunded_count"] == stored["reaped_count"] == 3
        stack.run("sweep")
        assert arrange.statuses(owner) == {"failed": 1, "sent": 4}
        assert len(stack.inbox()) == 4
