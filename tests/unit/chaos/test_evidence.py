"""What counts as lost, doubled, flagged or astray: one made-up row for each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from tests.chaos.evidence import Figures, count, wrong
from tests.chaos.ledger import Call, Ledger
from tests.chaos.plan import Policy, Provider, make_plan

if TYPE_CHECKING:
    from collections.abc import Sequence

START = datetime(2026, 1, 1, tzinfo=UTC)
LEASE = timedelta(seconds=6)


class Story:
    """One message: what the provider saw, and what its row says."""

    def __init__(self) -> None:
        self.id: UUID = uuid4()
        self.ledger = Ledger()
        self.attempts: list[dict[str, Any]] = []

    def call(self, attempt: int, *, second: float, accepted: bool = True) -> str:
        """A call at that second of its attempt; the provider's id, if it was accepted."""
        begins = START + timedelta(seconds=20 * attempt)
        call = Call(self.id, 0, attempt, 1, (begins + timedelta(seconds=second)).timestamp())
        self.ledger.arrive(call)
        return self.ledger.accept(call).provider_id if accepted else ""

    def entry(self, attempt: int, outcome: str, *, name: str = "", marked: bool = True) -> None:
        """An attempt in the row; it was marked at its second 0."""
        begins = START + timedelta(seconds=20 * attempt)
        self.attempts.append(
            {
                "attempt": attempt,
                "outcome": outcome,
                "dispatched_at": begins.isoformat() if marked else None,
                "lease_expires_at": (begins + LEASE).isoformat(),
                "provider_message_id": name or None,
            }
        )

    def figures(
        self,
        status: str,
        *,
        reason: str | None = None,
        name: str = "",
        policy: Policy = "at_least_once",
        in_client: Sequence[UUID] = (),
        in_time: Sequence[int] = (),
    ) -> Figures:
        """The figures of this one row."""
        row = {
            "id": self.id,
            "status": status,
            "failure_reason": reason,
            "provider_message_id": name or None,
            "attempts": self.attempts,
        }
        return count(
            [row],
            self.ledger,
            policy=policy,
            in_client=frozenset(in_client),
            in_time=frozenset(in_time),
        )


@pytest.fixture
def story() -> Story:
    """A message of which nothing is known yet."""
    return Story()


def sent_twice(story: Story, first: str = "unknown") -> str:
    """Two attempts, two mails; what became of the first is given."""
    story.call(1, second=1)
    story.entry(1, first)
    name = story.call(2, second=1)
    story.entry(2, "accepted", name=name)
    return name


def test_a_message_that_was_sent_once_is_counted_as_that_and_nothing_else(story: Story) -> None:
    name = story.call(1, second=1)
    story.entry(1, "accepted", name=name)
    assert story.figures("sent", name=name) == Figures(messages=1, sent=1)


@pytest.mark.parametrize("status", ["pending", "sending"])
def test_a_message_without_an_end_is_lost(story: Story, status: str) -> None:
    assert story.figures(status).lost == 1


def test_sent_without_a_mail_is_lost(story: Story) -> None:
    story.entry(1, "accepted", name="made-up")
    assert story.figures("sent", name="made-up").lost == 1


def test_a_failure_that_nothing_explains_is_lost(story: Story) -> None:
    assert story.figures("failed", reason="rejected").lost == 1
    assert story.figures("failed", reason="attempts_exhausted").lost == 1
    assert story.figures("failed", reason="worker_lost").lost == 1


def test_one_unknown_outcome_is_no_reason_to_give_up_at_least_once(story: Story) -> None:
    story.call(1, second=1, accepted=False)
    story.entry(1, "unknown")
    assert story.figures("failed", reason="outcome_unknown").lost == 1
    told = story.figures("failed", reason="outcome_unknown", policy="at_most_once")
    assert (told.lost, told.stated_loss, told.unknown) == (0, 1, 1)


def test_a_second_mail_after_an_unknown_outcome_is_a_flagged_duplicate(story: Story) -> None:
    figures = story.figures("sent", name=sent_twice(story))
    assert (figures.duplicates, figures.flagged, figures.unexcused) == (1, 1, 0)


def test_a_second_mail_that_the_row_does_not_own_up_to_is_not_flagged(story: Story) -> None:
    figures = story.figures("sent", name=sent_twice(story, "deferred"))
    assert (figures.duplicates, figures.flagged) == (1, 0)


def test_no_duplicate_is_flagged_at_most_once(story: Story) -> None:
    figures = story.figures("sent", name=sent_twice(story), policy="at_most_once")
    assert (figures.duplicates, figures.flagged) == (1, 0)


def test_a_duplicate_whose_event_came_in_time_has_no_excuse(story: Story) -> None:
    assert story.figures("sent", name=sent_twice(story), in_time=[0]).unexcused == 1


@pytest.mark.parametrize(("outcome", "marked"), [("worker_lost", False), ("handed_back", True)])
def test_a_call_in_an_attempt_that_never_left_is_astray(
    story: Story, outcome: str, *, marked: bool
) -> None:
    story.call(1, second=1, accepted=False)
    story.entry(1, outcome, marked=marked)
    assert story.figures("pending").stray == 1


def test_a_call_after_its_lease_is_astray_unless_it_was_frozen_on_its_way(story: Story) -> None:
    name = story.call(1, second=7)
    story.entry(1, "accepted", name=name)
    assert story.figures("sent", name=name).stray == 1
    assert story.figures("sent", name=name, in_client=[story.id]).stray == 0


def test_two_calls_in_one_attempt_are_one_too_many(story: Story) -> None:
    story.call(1, second=1, accepted=False)
    name = story.call(1, second=2)
    story.entry(1, "accepted", name=name)
    assert story.figures("sent", name=name).stray == 1


def test_a_row_that_names_the_mail_of_another_attempt_is_wrong(story: Story) -> None:
    name = story.call(1, second=1)
    story.entry(1, "unknown")
    story.entry(2, "accepted", name=name)
    assert story.figures("sent", name=name).wrong_id == 1


@pytest.mark.parametrize(
    ("provider", "policy", "figures", "is_wrong"),
    [
        ("ses", "at_least_once", Figures(messages=9, duplicates=1, flagged=1), False),
        ("ses", "at_least_once", Figures(messages=9, duplicates=2, flagged=1), True),
        ("ses", "at_least_once", Figures(messages=9, duplicates=1, flagged=1, unexcused=1), True),
        ("ses", "at_most_once", Figures(messages=9, duplicates=1, flagged=1), True),
        ("idempotent", "at_least_once", Figures(messages=9, duplicates=1, flagged=1), True),
        ("smtp", "at_least_once", Figures(messages=9, stated_loss=1), False),
        ("smtp", "at_least_once", Figures(messages=8), True),
        ("smtp", "at_least_once", Figures(messages=9, unsettled=1), True),
        ("smtp", "at_least_once", Figures(messages=9, sent_without_mail=1), True),
        ("smtp", "at_least_once", Figures(messages=9, failed_without_cause=1), True),
        ("smtp", "at_least_once", Figures(messages=9, wrong_id=1), True),
        ("smtp", "at_least_once", Figures(messages=9, stray=1), True),
    ],
)
def test_what_is_held_against_a_run(
    provider: Provider, policy: Policy, figures: Figures, *, is_wrong: bool
) -> None:
    plan = make_plan(1, provider, policy, messages=9, kills=5)
    assert bool(wrong(figures, plan)) is is_wrong


def test_one_key_is_one_mail() -> None:
    ledger = Ledger()
    message = uuid4()
    calls = [Call(message, 0, None, 1, 0.0, key) for key in ("k", "k", "k-r1")]
    names = [ledger.accept(call).provider_id for call in calls]
    assert names[0] == names[1] != names[2]
    assert len(ledger.mails()[message]) == 2
