"""What a run of the delivery did, counted by its senders and told once at its end."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID

    from postlease.model import FailureReason, Status

_PROMISED_MILLISECONDS = 10_000.0
"""Mail is to be with the provider so soon after it is due."""

_UNPREPARED = ("render_error", "attachment_missing", "attachment_changed")
_GONE_WRONG = ("rejected", "deferred", "unreachable", "blocked", "unknown", *_UNPREPARED)
_GONE_WELL = ("accepted", "accepted_unrecorded", "throttled")


@dataclass(slots=True)
class Tally:
    """Counts by word, and distributions in milliseconds. Shared by the senders of one run.

    Words: `claimed`; the outcome of each attempt (`accepted`, `rejected`, `deferred`,
    `unreachable`, `throttled`, `blocked`, `unknown`, `render_error`, ...); verdicts other than go
    (`expired`, `superseded`, `suppressed`, `no_room`); `handed_back`, `lease_lost`,
    `accepted_unrecorded`, `unexpected`; `gate_closed`; and the resulting `sent`, `failed` and
    `attempts_exhausted`.

    wait_milliseconds is from due to the call, latency_milliseconds from due to accepted. unseen
    are the ids that a run was given by name and could not look at.
    """

    counts: Counter[str] = field(default_factory=Counter)
    send_milliseconds: list[float] = field(default_factory=list)
    wait_milliseconds: list[float] = field(default_factory=list)
    latency_milliseconds: list[float] = field(default_factory=list)
    unseen: set[UUID] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def count(self, word: str, number: int = 1) -> None:
        """Add number to word."""
        with self._lock:
            self.counts[word] += number

    def end(self, status: Status, reason: FailureReason | None) -> None:
        """Note that a message ended."""
        self.count(status)
        if reason == "attempts_exhausted":  # the other reasons are words of their own
            self.count(reason)

    def time_send(self, milliseconds: float) -> None:
        """Note how long one call to the provider took."""
        self.send_milliseconds.append(milliseconds)

    def time_wait(self, milliseconds: float) -> None:
        """Note how long one message was due when its call began."""
        self.wait_milliseconds.append(milliseconds)

    def time_latency(self, milliseconds: float) -> None:
        """Note how long one message took from due to accepted."""
        self.latency_milliseconds.append(milliseconds)

    def metrics(self) -> dict[str, float]:
        """The counts by metric name, zeros included. FailedRate is a share from 0 to 1.

        Failed is the sum of the three that begin with it, Expired, Superseded and Suppressed.
        """
        count = self.counts
        ended = count["sent"] + count["failed"]
        return {
            "Claimed": count["claimed"],
            "Sent": count["sent"],
            "SentWithin10s": sum(
                waited <= _PROMISED_MILLISECONDS for waited in self.latency_milliseconds
            ),
            "Failed": count["failed"],
            "FailedRejected": count["rejected"],
            "FailedUnprepared": sum(count[word] for word in _UNPREPARED),
            "FailedExhausted": count["attempts_exhausted"],
            "Expired": count["expired"],
            "Superseded": count["superseded"],
            "Suppressed": count["suppressed"],
            "Deferred": count["deferred"],
            "Unreachable": count["unreachable"],
            "Throttled": count["throttled"],
            "Blocked": count["blocked"],
            "UnknownOutcomes": count["unknown"],
            "AcceptedUnrecorded": count["accepted_unrecorded"],
            "LeaseLost": count["lease_lost"],
            "Unexpected": count["unexpected"],
            "GatePauses": count["gate_closed"],
            "FailedRate": count["failed"] / ended if ended else 0.0,
        }

    def samples(self) -> dict[str, list[float]]:
        """For each attempt 1 if it says that something is wrong, 0 if not, by metric name.

        Wrong with the message, the provider or what we need: being throttled is not.
        """
        wrong = sum(self.counts[word] for word in _GONE_WRONG)
        well = sum(self.counts[word] for word in _GONE_WELL)
        return {"AttemptFailed": [1.0] * wrong + [0.0] * well}

    def distributions(self) -> dict[str, list[float]]:
        """Milliseconds by metric name."""
        return {
            "SendDuration": self.send_milliseconds,
            "EnqueueToCall": self.wait_milliseconds,
            "EnqueueToSent": self.latency_milliseconds,
        }
