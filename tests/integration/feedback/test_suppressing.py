"""Bounces and complaints fill the suppression list, whatever their order, and no more than once."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from postlease import suppression
from tests.integration.feedback.conftest import key, told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from postlease.database import Connection
    from tests.integration.feedback.conftest import Feedback

ADDRESS = "reader0@example.com"
DAY = timedelta(days=1)


def soft(number: int, *addresses: str) -> dict[str, Any]:
    """The bounce of one message of several."""
    return told("TransientBounce", *addresses, provider_message_id=f"soft-{number}")


def at(event: dict[str, Any], part: str, ago: timedelta) -> dict[str, Any]:
    """The same event, which happened ago."""
    event["detail"][part]["timestamp"] = (datetime.now(UTC) - ago).isoformat()
    return event


def test_a_hard_bounce_suppresses_at_once_whom_it_names(told_us: Feedback) -> None:
    [taken] = told_us.take(told("PermanentBounce", ADDRESS))
    assert (taken.bounced, taken.suppressed) == (True, 1)
    entry = told_us.entry()
    assert entry
    assert entry["reason"] == "bounce"
    left = entry["expires_at"] - datetime.now(UTC)
    assert suppression.HARD_LIFETIME - DAY < left <= suppression.HARD_LIFETIME
    assert len(told_us.suppressed()) == 1


def test_the_spelling_of_an_address_does_not_matter(told_us: Feedback) -> None:
    told_us.take(told("PermanentBounce", "Reader0@Example.COM"))
    assert told_us.reason() == "bounce"


def test_the_fifth_soft_bounce_suppresses(told_us: Feedback) -> None:
    told_us.take(*(soft(number) for number in range(suppression.SOFT_LIMIT - 1)))
    assert told_us.reason() is None
    [taken] = told_us.take(soft(99))
    assert (taken.suppressed, told_us.reason()) == (1, "bounce")
    entry = told_us.entry()
    assert entry
    left = entry["expires_at"] - datetime.now(UTC)
    assert suppression.SOFT_LIFETIME - DAY < left <= suppression.SOFT_LIFETIME


def test_one_event_suppresses_nobody_whom_it_does_not_name(
    told_us: Feedback, owner: Connection
) -> None:
    told_us.take(*(soft(number) for number in range(suppression.SOFT_LIMIT)))
    owner.execute("DELETE FROM postlease.suppressions")
    told_us.take(soft(99, "another@example.com"))
    assert told_us.suppressed() == []


def test_a_doubled_soft_bounce_counts_once(told_us: Feedback) -> None:
    told_us.take(*(soft(number) for number in range(suppression.SOFT_LIMIT - 1) for _ in range(3)))
    assert (told_us.reason(), told_us.bounces()) == (None, suppression.SOFT_LIMIT - 1)


def test_soft_bounces_of_different_addresses_are_counted_apart(told_us: Feedback) -> None:
    told_us.take(*(soft(n, f"reader{n}@example.com") for n in range(suppression.SOFT_LIMIT)))
    assert told_us.suppressed() == []


def test_soft_bounces_out_of_the_window_do_not_count(told_us: Feedback) -> None:
    old = suppression.SOFT_WINDOW + DAY
    told_us.take(*(at(soft(number), "bounce", old) for number in range(suppression.SOFT_LIMIT)))
    assert told_us.suppressed() == []
    told_us.take(*(soft(10 + number) for number in range(suppression.SOFT_LIMIT - 1)))
    assert told_us.suppressed() == []


def test_a_delivery_forgets_the_soft_bounces_before_it(told_us: Feedback) -> None:
    told_us.take(*(soft(number) for number in range(suppression.SOFT_LIMIT - 1)))
    told_us.take(told("Delivery", "another@example.com"))
    assert told_us.bounces() == suppression.SOFT_LIMIT - 1
    told_us.take(at(told("Delivery"), "delivery", DAY))
    assert told_us.bounces() == suppression.SOFT_LIMIT - 1
    told_us.take(told("Delivery"))
    assert told_us.bounces() == 0
    told_us.take(soft(99))
    assert told_us.reason() is None


def test_a_delivery_takes_nobody_off_the_list(told_us: Feedback) -> None:
    told_us.take(told("PermanentBounce"), told("Delivery"))
    assert told_us.reason() == "bounce"


def test_a_complaint_suppresses_for_good(told_us: Feedback) -> None:
    [taken] = told_us.take(told("Complaint"))
    assert (taken.complained, taken.suppressed) == (True, 1)
    entry = told_us.entry()
    assert entry
    assert (entry["reason"], entry["expires_at"]) == ("complaint", None)


@pytest.mark.parametrize(
    "order", list(itertools.permutations(("PermanentBounce", "Complaint", "soft")))
)
def test_neither_order_nor_repetition_matters_and_no_event_hides_another(
    told_us: Feedback, order: Sequence[Any]
) -> None:
    """Auth mail passes a complaint, but no bounce: the list must know of both."""
    for kind in order:
        for _ in range(2):
            if kind == "soft":
                told_us.take(*(soft(number) for number in range(suppression.SOFT_LIMIT)))
            else:
                told_us.take(told(kind))
    entries = told_us.entries()
    assert entries.keys() == {"bounce", "complaint"}
    assert entries["complaint"]["expires_at"] is None
    left = entries["bounce"]["expires_at"] - datetime.now(UTC)
    assert suppression.HARD_LIFETIME - DAY < left <= suppression.HARD_LIFETIME


@pytest.mark.parametrize("order", list(itertools.permutations((DAY, 2 * DAY, 3 * DAY))))
def test_of_several_bounces_the_latest_decides_how_long(
    told_us: Feedback, order: Sequence[timedelta]
) -> None:
    told_us.take(*(at(told("PermanentBounce"), "bounce", ago) for ago in order))
    entry = told_us.entry()
    assert entry
    left = entry["expires_at"] - (datetime.now(UTC) + suppression.HARD_LIFETIME - DAY)
    assert abs(left) < timedelta(minutes=1)


def test_a_doubled_bounce_changes_nothing(told_us: Feedback) -> None:
    event = told("PermanentBounce")
    told_us.take(event)
    before = told_us.entry()
    [taken] = told_us.take(event)
    assert (taken.suppressed, told_us.entry()) == (0, before)


def test_soft_bounces_do_not_shorten_what_a_hard_one_began(told_us: Feedback) -> None:
    told_us.take(told("PermanentBounce"))
    before = told_us.entry()
    told_us.take(*(soft(number) for number in range(suppression.SOFT_LIMIT)))
    assert told_us.entry() == before


def test_a_bounce_of_long_ago_suppresses_nobody(told_us: Feedback) -> None:
    told_us.take(at(told("PermanentBounce"), "bounce", suppression.HARD_LIFETIME + DAY))
    assert told_us.suppressed() == []


@pytest.mark.parametrize("stamp", [None, "2999-01-01T00:00:00Z"])
def test_a_time_that_is_none_or_to_come_counts_as_now(told_us: Feedback, stamp: str | None) -> None:
    event = told("PermanentBounce")
    event["detail"]["bounce"]["timestamp"] = stamp
    told_us.take(event)
    entry = told_us.entry()
    assert entry
    left = entry["expires_at"] - datetime.now(UTC)
    assert suppression.HARD_LIFETIME - DAY < left <= suppression.HARD_LIFETIME


def test_events_stand_beside_an_operator_s_entry_and_change_nothing_of_it(
    told_us: Feedback, owner: Connection
) -> None:
    owner.execute(
        "INSERT INTO postlease.suppressions VALUES (%s, 'manual', now(), now() + interval '1 day')",
        [key(ADDRESS)],
    )
    before = told_us.entry()
    told_us.take(told("PermanentBounce"), told("Complaint"))
    entries = told_us.entries()
    assert entries.keys() == {"manual", "bounce", "complaint"}
    assert entries["manual"] == before


@pytest.mark.parametrize("ends_in", [-DAY, DAY])
@pytest.mark.parametrize(
    ("kind", "reason"), [("PermanentBounce", "bounce"), ("Complaint", "complaint")]
)
def test_an_entry_that_ended_or_ends_earlier_is_replaced_by_one_of_its_reason(
    told_us: Feedback, owner: Connection, kind: Any, reason: str, ends_in: timedelta
) -> None:
    owner.execute(
        "INSERT INTO postlease.suppressions VALUES (%s, %s, now(), now() + %s)",
        [key(ADDRESS), reason, ends_in],
    )
    [taken] = told_us.take(told(kind))
    entry = told_us.entry()
    assert entry
    assert (taken.suppressed, entry["reason"]) == (1, reason)
    if kind == "Complaint":
        assert entry["expires_at"] is None
    else:
        assert entry["expires_at"] > datetime.now(UTC) + suppression.HARD_LIFETIME - DAY


def test_an_entry_without_an_end_is_not_shortened(told_us: Feedback, owner: Connection) -> None:
    owner.execute(
        "INSERT INTO postlease.suppressions VALUES (%s, 'bounce', now(), NULL)", [key(ADDRESS)]
    )
    before = told_us.entry()
    [taken] = told_us.take(told("PermanentBounce"))
    assert (taken.suppressed, told_us.entry()) == (0, before)


@pytest.mark.parametrize("kind", ["Send", "DeliveryDelay", "Reject", "Delivery"])
def test_other_events_suppress_nobody(told_us: Feedback, kind: Any) -> None:
    told_us.take(told(kind))
    assert (told_us.suppressed(), told_us.bounces()) == ([], 0)


def test_the_tables_hold_no_address(told_us: Feedback, owner: Connection) -> None:
    told_us.take(told("PermanentBounce"), soft(1), told("Complaint", "b@example.com"))
    rows = owner.execute(
        "SELECT s::text AS text FROM postlease.suppressions AS s"
        " UNION ALL SELECT b::text FROM postlease.bounces AS b"
    ).fetchall()
    assert len(rows) == 3
    assert not any("@" in row["text"] or "example" in row["text"] for row in rows)
