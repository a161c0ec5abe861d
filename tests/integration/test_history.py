"""A message's attempts: twenty are kept, and an unknown one is not dropped for the others."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, LiteralString, cast

from psycopg.types.json import Jsonb

from postlease import outbox
from postlease.delivery import outcomes
from tests import arrange

if TYPE_CHECKING:
    from postlease.database import Connection

SECOND = timedelta(seconds=1)


def entries(outcomes_in_order: list[str]) -> list[dict[str, Any]]:
    """A history of these outcomes, numbered from 1."""
    return [
        {"attempt": number, "outcome": outcome}
        for number, outcome in enumerate(outcomes_in_order, 1)
    ]


def kept(owner: Connection, *outcomes_in_order: str) -> list[int]:
    """The numbers of the attempts that are kept of a history of these outcomes."""
    row = owner.execute(
        "SELECT postlease.attempts_kept(%s) AS kept", [Jsonb(entries(list(outcomes_in_order)))]
    ).fetchone()
    assert row
    return [entry["attempt"] for entry in row["kept"]]


def test_an_unknown_attempt_is_still_known_after_twenty_others(
    owner: Connection, application: Connection
) -> None:
    """And its event still settles it."""
    [message_id] = arrange.enqueue(owner)
    arrange.dispatch(application)
    arrange.end_lease(owner, message_id, ago=arrange.GRACE + SECOND)
    arrange.reap(application)
    for number in range(2, 25):
        [message] = arrange.claim(application, owner=f"worker-{number}")
        outbox.record(application, [outcomes.handed_back(message.claim)])
    attempts = arrange.row(owner, message_id)["attempts"]
    assert [entry["attempt"] for entry in attempts] == [1, *range(6, 25)]
    assert attempts[0]["outcome"] == "unknown"
    assert outbox.settle_accepted(
        application, message_id=message_id, attempt=1, provider_message_id="ses-1"
    )
    attempts = arrange.row(owner, message_id)["attempts"]
    assert [entry["attempt"] for entry in attempts] == [1, *range(7, 25), 1]


def test_below_twenty_nothing_is_dropped_or_moved(owner: Connection) -> None:
    assert kept(owner) == []
    assert kept(owner, *["deferred"] * 18, "unknown") == list(range(1, 20))


def test_the_oldest_that_is_not_unknown_is_dropped_and_unknown_ones_keep_their_order(
    owner: Connection,
) -> None:
    assert kept(owner, *["deferred"] * 20) == list(range(2, 21))
    mixed = ["deferred", "unknown", "deferred", "unknown", *["deferred"] * 16]
    assert kept(owner, *mixed) == [2, 4, 3, *range(5, 21)]


def test_the_last_entry_stays_last(owner: Connection) -> None:
    """Whoever counts what happened twice in a row reads it next to the one that comes behind."""
    assert kept(owner, *["no_room"] * 19, "unknown") == list(range(2, 21))
    assert kept(owner, *["unknown"] * 19, "no_room")[-1] == 20


def test_of_nineteen_unknown_the_oldest_is_dropped(owner: Connection) -> None:
    assert kept(owner, *["unknown"] * 18, "deferred", "unknown") == [*range(1, 19), 20]
    assert kept(owner, *["unknown"] * 19, "deferred") == list(range(2, 21))
    assert kept(owner, *["unknown"] * 20) == list(range(2, 21))


def test_a_history_that_is_longer_than_it_may_be_becomes_short(owner: Connection) -> None:
    assert len(kept(owner, *["deferred"] * 30)) == 19
    assert len(kept(owner, *["unknown"] * 30)) == 19


class Reading:
    """Stands in for a connection: keeps what each statement would compute, and runs none."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.plans: list[str] = []

    def cursor(self, **_: Any) -> Reading:
        return self

    def execute(self, statement: LiteralString, parameters: Any = None) -> Reading:
        explained = cast("LiteralString", "EXPLAIN (VERBOSE, COSTS OFF)\n" + statement)
        rows = self._connection.execute(explained, parameters).fetchall()
        self.plans.append("\n".join(row["QUERY PLAN"] for row in rows))
        return self

    def fetchall(self) -> list[Any]:
        return []

    def fetchone(self) -> None:
        return None

    def __iter__(self) -> Any:
        return iter(())


def test_the_history_is_written_by_the_statement_itself(
    owner: Connection, application: Connection
) -> None:
    """The functions are inlined: a call for each row would make each record slower."""
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.dispatch(application)
    reading: Any = Reading(application)
    outbox.record(reading, [arrange.sent(message.claim)])
    arrange.authorize(reading, message.claim)
    arrange.reap(reading)
    outbox.settle_accepted(reading, message_id=message_id, attempt=1, provider_message_id="ses-1")
    plans = "\n".join(reading.plans)
    assert "jsonb_path_query_array" in plans
    assert "attempts_with" not in plans
    assert "attempts_kept" not in plans
