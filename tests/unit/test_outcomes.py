"""What each outcome means for its message: a row a class."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from postlease import backoff
from postlease.delivery import outcomes
from postlease.errors import DatabaseError, PostleaseError, UnavailableError
from postlease.gate import Closing
from postlease.model import (
    Accepted,
    Blocked,
    Claim,
    ClaimedMessage,
    Deferred,
    Outcome,
    Rejected,
    Settlement,
    Throttled,
    Unknown,
    Unreachable,
)

CLAIM = Claim(UUID(int=1), "worker-a", 1)
FIRST_STEP = timedelta(seconds=30)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def message(*, attempts_left: int = 4, attempt: int = 1) -> ClaimedMessage:
    return ClaimedMessage(
        claim=Claim(CLAIM.message_id, CLAIM.owner, attempt),
        priority=50,
        available_at=NOW,
        created_at=NOW,
        lease_expires_at=NOW,
        template="receipt",
        locale="en",
        delivery="at_least_once",
        attempts_left=attempts_left,
        counted_attempts=5 - attempts_left,
        retry_count=0,
        parameters_json="{}",
        to_addresses=("reader@example.com",),
        cc_addresses=(),
        bcc_addresses=(),
        recipient_names={},
        from_address=None,
        reply_to=None,
        tags={},
        token=None,
        attachments=(),
    )


def settle(outcome: Outcome, **facts: int) -> Settlement | None:
    return outcomes.settle(message(**facts), outcome, template_version="v1", chance=0.5)


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (
            Accepted("p-1"),
            Settlement(CLAIM, "sent", "accepted", provider_message_id="p-1", template_version="v1"),
        ),
        (
            Rejected("content"),
            Settlement(CLAIM, "failed", "rejected", code="content", failure_reason="rejected"),
        ),
        (
            Deferred("busy"),
            Settlement(CLAIM, "pending", "deferred", code="busy", delay=FIRST_STEP),
        ),
        (
            Unreachable("dns"),
            Settlement(
                CLAIM, "pending", "unreachable", code="dns", delay=FIRST_STEP, refunded=True
            ),
        ),
        (
            Throttled("rate"),
            Settlement(
                CLAIM,
                "pending",
                "throttled",
                code="rate",
                delay=outcomes.THROTTLE_DELAY,
                refunded=True,
            ),
        ),
        (
            Blocked("paused"),
            Settlement(CLAIM, "pending", "blocked", code="paused", delay=FIRST_STEP, refunded=True),
        ),
        (Unknown("timeout"), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_outcome_settles_its_message(outcome: Outcome, expected: Settlement | None) -> None:
    assert settle(outcome) == expected


@pytest.mark.parametrize("odd", ["\x00", "\ud800"])
def test_a_name_that_the_database_cannot_keep_is_recorded_all_the_same(odd: str) -> None:
    settled = settle(Accepted(f"p{odd}1"))
    assert settled is not None
    assert (settled.status, settled.provider_message_id) == ("sent", "p\ufffd1")


def test_a_deferral_of_the_last_attempt_ends_the_message() -> None:
    assert settle(Deferred("busy"), attempts_left=0) == Settlement(
        CLAIM, "failed", "deferred", code="busy", failure_reason="attempts_exhausted"
    )


@pytest.mark.parametrize("outcome", [Unreachable("dns"), Throttled("rate"), Blocked("paused")])
def test_what_is_not_the_message_s_fault_never_ends_it(outcome: Outcome) -> None:
    settlement = settle(outcome, attempts_left=0)
    assert settlement is not None
    assert (settlement.status, settlement.refunded) == ("pending", True)


@pytest.mark.parametrize("outcome", [Unreachable("dns"), Blocked("paused")])
def test_what_the_gate_waits_for_waits_the_first_step_however_often(outcome: Outcome) -> None:
    settlement = settle(outcome, attempt=9)
    assert settlement is not None
    assert settlement.delay == FIRST_STEP


def test_what_closes_the_gate_while_others_pass_is_rejected() -> None:
    closing = Closing(others_pass=True)
    assert outcomes.judge(Blocked("identity"), closing) == Rejected("identity")


@pytest.mark.parametrize(
    ("outcome", "closing"),
    [
        pytest.param(Blocked("identity"), Closing(others_pass=False), id="nobody passes"),
        pytest.param(Blocked("identity"), None, id="the gate was closed already"),
        pytest.param(Blocked("daily_quota"), Closing(others_pass=True), id="much for today"),
        pytest.param(Blocked("monthly_quota"), Closing(others_pass=True), id="much for a month"),
        pytest.param(Unreachable("dns"), Closing(others_pass=True), id="nobody was there"),
    ],
)
def test_what_may_not_be_the_message_s_own_trouble_is_left_as_it_is(
    outcome: Outcome, closing: Closing | None
) -> None:
    assert outcomes.judge(outcome, closing) == outcome


@pytest.mark.parametrize("closing", [Closing(others_pass=False), None])
def test_who_closed_the_gate_is_noted(closing: Closing | None) -> None:
    settlement = outcomes.settle(
        message(), Blocked("identity"), template_version=None, chance=0.5, closing=closing
    )
    assert settlement is not None
    assert settlement.closed_gate is (closing is not None)
    assert settlement.delay == FIRST_STEP


def test_what_is_too_much_for_a_quota_while_others_pass_waits_long() -> None:
    settlement = outcomes.settle(
        message(),
        Blocked("daily_quota"),
        template_version=None,
        chance=0.5,
        closing=Closing(others_pass=True),
    )
    assert settlement is not None
    assert (settlement.status, settlement.refunded) == ("pending", True)
    assert settlement.delay == outcomes.QUOTA_DELAY


def test_what_is_refused_for_speed_again_and_again_comes_less_and_less_often() -> None:
    waits = []
    for refunded in range(7):
        settlement = settle(Throttled("rate"), attempt=1 + refunded)
        assert settlement is not None
        assert settlement.delay is not None
        waits.append(settlement.delay.total_seconds())
    assert waits == [2, 4, 8, 16, 32, 32, 32]


@pytest.mark.parametrize(
    ("error", "word", "refunded"),
    [
        (UnavailableError("away"), "handed_back", True),
        (DatabaseError("42501", None), "handed_back", True),
        (DatabaseError("23514", "some_rule"), "deferred", False),
        (DatabaseError(None, None), "deferred", False),
    ],
    ids=["away", "refused to all", "refused for its row", "refused by the driver"],
)
def test_a_dispatch_check_that_fails_costs_only_what_is_its_message_s_fault(
    error: PostleaseError, word: str, *, refunded: bool
) -> None:
    settlement = outcomes.unauthorized(message(), error, chance=0.5)
    assert (settlement.status, settlement.outcome) == ("pending", word)
    assert settlement.refunded is refunded


def test_retries_wait_longer_each_time_and_then_the_same() -> None:
    waits = [backoff.delay_after(failures, chance=0.5) for failures in range(1, 7)]
    assert waits == [*backoff.STEPS, backoff.STEPS[-1], backoff.STEPS[-1]]
    assert waits == sorted(waits)


def test_what_failed_together_does_not_come_back_together() -> None:
    """PSN-07: the first step of 500 messages is spread over thirty seconds."""
    waits = [backoff.delay_after(1, chance=place / 500).total_seconds() for place in range(500)]
    assert (min(waits), max(waits)) == (15, pytest.approx(45, abs=0.1))
    buckets = [int(wait) for wait in waits]
    assert max(buckets.count(bucket) for bucket in set(buckets)) <= 0.08 * 500
