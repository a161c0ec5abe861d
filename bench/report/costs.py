"""What mail costs on AWS: arithmetic of list prices and of what the run measured. Pure.

What was not measured here stands as a constant below and is told on the page.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from bench.cases.queues import SLOW
from bench.report.prices import MILLION, PRICES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.measuring.findings import Finding

WHOLE_PROCESSOR_MB = 1_769
"""Memory with which a function has one virtual processor, as AWS's documentation says."""
SWEEP_MB = 1_024
MINUTES_A_MONTH = 730 * 60
DAY_SECONDS = 86_400

CALL_SECONDS = 0.1
"""A call of SES, assumed."""
DEFAULT_SLOTS, MOST_SLOTS = 10, 100
DOORBELL_SECONDS = CALL_SECONDS + 0.05
REAPER_SECONDS = 0.1
FEEDBACK_SECONDS = 0.02
EVENTS_A_MAIL = 2
"""Send and Delivery; each goes through EventBridge, and is put on the queue, fetched and deleted by
itself where mail is rare."""
REQUESTS_AN_ITEM = 3
LOG_KB_SIGN_UP, LOG_KB_MAIL = 2.0, 2.0
SECRETS, ALARMS, METRICS = 4, 23, 34
"""Of an idle stack, as docs/deploy.md counts them."""
QUEUES, POLLS_A_MINUTE = 2, 15
"""Lambda asks each queue by five long polls of 20 s, whether anything comes or not. From memory."""
ACU_HOURS_IDLE = 0.5 * 730
PROCESSORS_AN_ACU = 0.25
"""From memory: AWS says only that processor grows with memory."""
WRITE_BYTES = 4_096
ROW_KB = 1.5
"""A sent message with its indexes, see docs/measurements.md."""


def share(megabytes: float) -> float:
    """Of a virtual processor, with so much memory."""
    return megabytes / WHOLE_PROCESSOR_MB


@dataclass(frozen=True, slots=True)
class Measured:
    """What the run says; processor seconds are of 1,000 messages.

    The server's share is that beside a provider that takes its time: where calls cost nothing,
    batches are larger than real ones.
    """

    full_path_cpu_per_1000: float
    ses_cpu_per_1000: float
    signup_p50_ms: float
    server_cpu_per_1000: float
    wal_per_message: float
    rows_deleted_per_second: float

    def sweep_rate(self, megabytes: float, slots: int) -> float:
        """Mails a second of one sweep: its processor's, or its slots'."""
        return min(share(megabytes) * 1_000 / self.ses_cpu_per_1000, slots / CALL_SECONDS)


def measured(findings: Sequence[Finding]) -> Measured | None:
    """What of findings costs are made of; None unless all of it was measured."""
    told: dict[str, Any] = {}
    for finding in findings:
        for name, value in finding.figures.items():
            told.setdefault(name, value)
        if finding.title == SLOW:
            own = finding.figures["Postlease"]
            for name in ("server_cpu_per_1000", "wal_per_message"):
                told[name] = own[name]["median"]
    names = [field.name for field in fields(Measured)]
    return Measured(**{name: told[name] for name in names}) if told.keys() >= set(names) else None


def idle() -> dict[str, float]:
    """Dollars a month for what waits, whether a mail is asked for or not."""
    compute = MINUTES_A_MONTH * (60 * SWEEP_MB / 1_024 + REAPER_SECONDS * 0.5)
    return {
        "Lambda: a sweep that always looks, a reaper each minute": PRICES["compute"].times(compute)
        + PRICES["call"].times(2 * MINUTES_A_MONTH),
        "schedules, and polls of two queues": PRICES["schedule"].times(2 * MINUTES_A_MONTH)
        + PRICES["queue"].times(QUEUES * POLLS_A_MINUTE * MINUTES_A_MONTH),
        "secrets, alarms, metrics, dashboard": PRICES["secret"].times(SECRETS)
        + PRICES["alarm"].times(ALARMS)
        + PRICES["metric"].times(METRICS)
        + PRICES["dashboard"].times(1),
        "database: Aurora of 0.5 ACU": PRICES["capacity"].times(ACU_HOURS_IDLE),
    }


def a_million(run: Measured, *, signed_up: bool) -> dict[str, float]:
    """Dollars for a million mails more: of sign-ups, with request and doorbell, or of plain SQL."""
    mails = MILLION
    events = mails * EVENTS_A_MAIL
    compute = events * FEEDBACK_SECONDS * 0.5
    calls, items, log_kb = events, events, mails * LOG_KB_MAIL
    if signed_up:
        answer = run.signup_p50_ms / 1_000 / share(SWEEP_MB)
        compute += mails * (answer + DOORBELL_SECONDS)
        calls += mails * 2
        items += mails
        log_kb += mails * LOG_KB_SIGN_UP
    processors = mails / 1_000 * run.server_cpu_per_1000 / 3_600
    return {
        "Lambda": PRICES["compute"].times(compute) + PRICES["call"].times(calls),
        "HTTP API, SQS, EventBridge": PRICES["http"].times(mails if signed_up else 0)
        + PRICES["queue"].times(items * REQUESTS_AN_ITEM)
        + PRICES["event"].times(events),
        "logs": PRICES["log"].times(log_kb / MILLION),
        "database: capacity, writes, room for 90 days": PRICES["capacity"].times(
            processors / PROCESSORS_AN_ACU
        )
        + PRICES["writes"].times(mails * (1 + run.wal_per_message / WRITE_BYTES))
        + PRICES["storage"].times(mails * ROW_KB / MILLION) * 3,
        "SES": PRICES["mail"].times(mails),
    }


def asking_at_most(run: Measured) -> float:
    """Dollars of the database for what a million sign-ups ask of it, if it worked all their time.

    Their mail's delivery is in a_million. In truth most of the time is waiting for the disk.
    """
    hours = MILLION * run.signup_p50_ms / 1_000 / 3_600
    return PRICES["capacity"].times(hours / PROCESSORS_AN_ACU)


def without_ses(costs: dict[str, float]) -> float:
    """Their sum but for the sending itself."""
    return sum(costs.values()) - costs["SES"]


@dataclass(frozen=True, slots=True)
class Daily:
    """What so many mails a day want."""

    rate: float
    sweeps: float
    slots: float
    database_processors: float
    wal_megabytes: float
    gigabytes: float
    deleting_share: float
    ses_dollars: float
    queue_dollars: float


def daily(run: Measured, mails: float, *, peak: float = 3.0) -> Daily:
    """For a day of so many, with an hour that has so many times the mean. rate is that peak."""
    mean = mails / DAY_SECONDS
    rate = mean * peak
    return Daily(
        rate=rate,
        sweeps=rate / run.sweep_rate(WHOLE_PROCESSOR_MB, MOST_SLOTS),
        slots=rate * CALL_SECONDS,
        database_processors=rate / 1_000 * run.server_cpu_per_1000,
        wal_megabytes=rate * run.wal_per_message / MILLION,
        gigabytes=mails * ROW_KB / MILLION,
        deleting_share=mean / run.rows_deleted_per_second,
        ses_dollars=PRICES["mail"].times(mails),
        queue_dollars=PRICES["queue"].times(mails * REQUESTS_AN_ITEM / 10),
    )
