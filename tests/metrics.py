"""The metrics that the functions emit: one literal table, and how their lines are read.

Dashboard and alarms are held to the table by `tests/template`, the functions by
`tests/integration/watching`: so a widget or an alarm names what somebody emits, or a test fails.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TypeAlias

NAMESPACE = "Postlease"
DIMENSION = "service"
"""Its value is the stack's name."""

Units: TypeAlias = dict[str, str]


def _counts(*names: str) -> Units:
    return dict.fromkeys(names, "Count")


_BACKLOG = {
    **_counts("Queued", "Sending", "ExpiredLeases", "UnknownNow", "GatePaused"),
    "OldestDueSeconds": "Seconds",
}
_DELIVERED = {
    **_counts("Claimed", "Sent", "SentWithin10s"),
    **_counts("Failed", "FailedRejected", "FailedUnprepared", "FailedExhausted", "FailedRate"),
    **_counts("Expired", "Superseded", "Suppressed", "Deferred", "Unreachable", "Throttled"),
    **_counts("Blocked", "UnknownOutcomes", "AcceptedUnrecorded", "LeaseLost", "Unexpected"),
    **_counts("GatePauses"),
}

DISTRIBUTIONS = dict.fromkeys(("SendDuration", "EnqueueToCall", "EnqueueToSent"), "Milliseconds")
SAMPLES = _counts("AttemptFailed", "HardBounced", "Complained")
"""Ones and zeros, one for each attempt or mail: their average is a share."""

SILENT = frozenset((*DISTRIBUTIONS, *SAMPLES))
"""Of these an idle run has no values, and there is no zero for that."""

EMITTED: dict[str, Units] = {
    "sweep": {
        **_DELIVERED,
        **DISTRIBUTIONS,
        **_counts("AttemptFailed", "SweepHeartbeat"),
        **_BACKLOG,
    },
    "doorbell": {
        **_DELIVERED,
        **DISTRIBUTIONS,
        **_counts("AttemptFailed", "DoorbellHeard", "DoorbellMalformed", "DoorbellUnseen"),
    },
    "reaper": {
        **_BACKLOG,
        **_counts("WorkerLost", "UnknownAskedAgain", "UnknownSettled", "Expired", "Failed"),
        **_counts("FailedWorkerLost", "FailedUnknown", "ReaperHeartbeat"),
        "RetentionEndedSecondsAgo": "Seconds",
    },
    "retention": _counts(
        "PurgedMessages",
        "PurgedObjects",
        "PurgedOthers",
        "ArchivedMessages",
        "RedactedMessages",
        "OldPending",
        "RetentionUnfinished",
        "RetentionHeartbeat",
    ),
    "feedback": _counts(
        "EventsSettled",
        "EventsIgnored",
        "EventsFailed",
        "Bounces",
        "HardBounced",
        "Complaints",
        "Complained",
        "Suppressions",
    ),
    # The functions of the API, after a commit that made auth mail.
    "auth": _counts("DoorbellRung", "DoorbellFailed"),
}

NAMES = frozenset().union(*EMITTED.values())


@dataclass(frozen=True, slots=True)
class Emitted:
    """One metric of one line, as CloudWatch takes it."""

    namespace: str
    name: str
    unit: str
    dimensions: tuple[tuple[str, str], ...]
    values: tuple[float, ...]


def read(text: str) -> list[Emitted]:
    """The metrics in what a function wrote; its other lines are left out."""
    entries = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [
        Emitted(
            directive["Namespace"],
            metric["Name"],
            metric["Unit"],
            tuple((name, entry[name]) for name in sorted(dimensions)),
            tuple(entry[metric["Name"]]),
        )
        for entry in entries
        for directive in entry.get("_aws", {}).get("CloudWatchMetrics", ())
        for dimensions in directive["Dimensions"]
        for metric in directive["Metrics"]
    ]
