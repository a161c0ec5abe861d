"""What a run of the delivery did, counted by its senders and told once at its end."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID


@dataclass(slots=True)
class Tally:
    """Counts by word, and distributions in milliseconds. Shared by the senders of one run.

    Words: `claimed`; the outcome of each attempt (`accepted`, `rejected`, `deferred`,
    `unreachable`, `throttled`, `blocked`, `unknown`, `render_error`, ...); verdicts other than go
    (`expired`, `superseded`, `suppressed`, `no_room`); `handed_back`, `lease_lost`,
    `accepted_unrecorded`, `unexpected`; `gate_closed`; and the resulting `sent` and `failed`.

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
        """The counts by metric name, zeros included. FailedRate is a share from 0 to 1."""
        count = self.counts
        ended = count["sent"] + count["failed"]
        return {
            "Claimed": count["claimed"],
            "Sent": count["sent"],
            "Failed": count["failed"],
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

    def distributions(self) -> dict[str, list[float]]:
        """Milliseconds by metric name."""
        return {
            "SendDuration": self.send_milliseconds,
            "EnqueueToCall": self.wait_milliseconds,
            "EnqueueToSent": self.latency_milliseconds,
        }
