"""What a run does, and when: decided by a seed, before anything is started."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

Provider: TypeAlias = Literal["ses", "idempotent", "smtp"]
Policy: TypeAlias = Literal["at_least_once", "at_most_once"]
Kind: TypeAlias = Literal["kill", "freeze", "cut", "restart", "provider"]
Fault: TypeAlias = Literal["reject", "throttle", "unavailable", "lose_response", "stall", "slow"]
EventFate: TypeAlias = Literal["lost", "late"]

PROVIDERS: tuple[Provider, ...] = get_args(Provider)
POLICIES: tuple[Policy, ...] = get_args(Policy)

BUDGET, CONNECT, READ, START_MARGIN, CALLER_MARGIN = 2, 0.5, 1.4, 1, 2
LEASE, GRACE, SWEEP_TIMEOUT, LINGER = 6, 8, 10, 1
SLOTS = 8
SETTINGS = {
    "CALL_BUDGET_SECONDS": str(BUDGET),
    "CONNECT_TIMEOUT_SECONDS": str(CONNECT),
    "READ_TIMEOUT_SECONDS": str(READ),
    "START_MARGIN_SECONDS": str(START_MARGIN),
    "CALLER_MARGIN_SECONDS": str(CALLER_MARGIN),
    "SWEEP_TIMEOUT_SECONDS": str(SWEEP_TIMEOUT),
    "SWEEP_LINGER_SECONDS": str(LINGER),
    "LEASE_SECONDS": str(LEASE),
    "UNKNOWN_GRACE_SECONDS": str(GRACE),
    "SEND_SLOTS": str(SLOTS),
}

POINTS = (
    "before_claim_commits",
    "after_claim",
    "after_mark",
    "after_acceptance",
    "after_record",
)
"""Where a sweep is killed; the others are killed wherever they are."""

ANYWHERE = ("sweep", "reaper", "doorbell")
FREEZES = ("before_mark", "before_last_line", "in_client")
CUTS = tuple(
    f"{statement}_{side}"
    for statement in ("claim", "authorize", "record")
    for side in ("commit", "answer")
)
EPISODES = ("die", "pause", "throttle")
EPISODE_SECONDS = 0.8

LAST = 0.8
"""Past this share of the messages nothing more falls due."""

_POINT_SHARE = 0.14
# Of all messages; each is done to the first call for its message, but a refusal to every one.
_FAULTS: tuple[tuple[Fault, float], ...] = (
    ("reject", 0.005),
    ("throttle", 0.005),
    ("unavailable", 0.003),
    ("lose_response", 0.01),
    ("stall", 0.004),
    ("slow", 0.006),
)
_EVENTS: tuple[tuple[EventFate, float], ...] = (("lost", 0.25), ("late", 0.25))


@dataclass(frozen=True, slots=True)
class Action:
    """Something to do once so many messages have been accepted, at the next place that fits.

    All is due when the last fifth of the messages comes, however many were accepted.
    """

    due: int
    kind: Kind
    where: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is decided before the start. faults and events are by message number."""

    seed: int
    provider: Provider
    policy: Policy
    messages: int
    actions: tuple[Action, ...]
    faults: dict[int, Fault]
    events: dict[int, EventFate]

    @property
    def kills(self) -> int:
        """How many processes it kills."""
        return sum(action.kind == "kill" for action in self.actions)

    @property
    def messages_with_timely_event(self) -> frozenset[int]:
        """The numbers of the messages whose event the provider delivers soon."""
        return frozenset(range(self.messages)) - self.events.keys()

    @property
    def digest(self) -> str:
        """Short, and the same for the same plan."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:12]


def make_plan(
    seed: int,
    provider: Provider,
    policy: Policy,
    *,
    messages: int,
    kills: int,
    freezes: tuple[str, ...] | None = None,
) -> Plan:
    """The plan behind a seed: the same arguments give the same plan.

    kills are spread over the five points, at least one each, and over sweeps, reapers and
    doorbells at any moment. freezes are where workers are stopped; left out, a few of each kind.
    """
    chance = random.Random(f"{seed} {provider} {policy} {messages} {kills}")
    wheres = list(POINTS) * max(1, round(kills * _POINT_SHARE))
    while len(wheres) < kills:
        wheres += chance.choices(ANYWHERE, weights=(3, 2, 1))
    others = max(1, min(3, messages // 1_000))
    cuts = list(CUTS) * others if messages >= 500 else chance.sample(CUTS, 2)
    episodes = list(EPISODES) * min(others, 2) if messages >= 500 else [chance.choice(EPISODES)]
    actions = [
        *_spread(chance, messages, "kill", wheres),
        *_spread(chance, messages, "freeze", freezes or FREEZES * others),
        *_spread(chance, messages, "cut", cuts),
        *_spread(chance, messages, "restart", [""] * others),
        *_spread(chance, messages, "provider", episodes),
    ]
    numbers = list(range(messages))
    chance.shuffle(numbers)
    faults: dict[int, Fault] = {}
    for fault, share in _FAULTS:
        for _ in range(max(1, round(messages * share))):
            faults[numbers.pop()] = fault
    events: dict[int, EventFate] = {}
    for number in range(messages):
        drawn = chance.random()
        for fate, share in _EVENTS:
            if drawn < share:
                events[number] = fate
                break
            drawn -= share
    return Plan(
        seed,
        provider,
        policy,
        messages,
        tuple(sorted(actions, key=lambda action: action.due)),
        faults,
        events,
    )


def _spread(
    chance: random.Random, messages: int, kind: Kind, wheres: list[str] | tuple[str, ...]
) -> list[Action]:
    """One action for each of wheres, in a drawn order, evenly over the run but for its end."""
    drawn = list(wheres)
    chance.shuffle(drawn)
    room = messages * LAST
    return [
        Action(round((place + chance.random()) * room / len(drawn)), kind, where)
        for place, where in enumerate(drawn)
    ]
