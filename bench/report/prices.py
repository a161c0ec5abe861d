"""What AWS asks: list prices of us-east-1 in US dollars, without tax and free tier.

Those of the database are of June 2026, as docs/aurora.md has them; the others as public pages had
them in 2026, see docs/deploy.md; the rest is from memory. A test holds them to those pages.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Price:
    """So many dollars for so many of unit. source: the page in docs that has it, or `memory`."""

    dollars: float
    of: float
    unit: str
    source: str

    def times(self, quantity: float) -> float:
        """What so many cost."""
        return quantity / self.of * self.dollars

    @property
    def told(self) -> str:
        """Dollars to the cent, or as exactly as the price is."""
        return f"{self.dollars:.2f}" if self.dollars >= 0.01 else f"{self.dollars:.10f}"


MILLION = 1_000_000.0
DEPLOY, AURORA, MEMORY = "deploy.md", "aurora.md", "memory"

PRICES = {
    "compute": Price(0.0000133334, 1, "GB-second of Lambda, arm64", DEPLOY),
    "call": Price(0.20, MILLION, "calls of Lambda", DEPLOY),
    "http": Price(1.00, MILLION, "requests to the HTTP API", DEPLOY),
    "queue": Price(0.40, MILLION, "requests to SQS", DEPLOY),
    "event": Price(1.00, MILLION, "events through EventBridge", DEPLOY),
    "schedule": Price(1.00, MILLION, "invocations by the Scheduler", MEMORY),
    "mail": Price(0.10, 1_000, "mails by SES", DEPLOY),
    "log": Price(0.50, 1, "GB of logs", DEPLOY),
    "metric": Price(0.30, 1, "metric, a month", DEPLOY),
    "alarm": Price(0.10, 1, "alarm, a month", DEPLOY),
    "dashboard": Price(3.00, 1, "dashboard, a month", DEPLOY),
    "secret": Price(0.40, 1, "secret, a month", DEPLOY),
    "capacity": Price(0.12, 1, "ACU-hour of Aurora", AURORA),
    "storage": Price(0.10, 1, "GB of Aurora, a month", AURORA),
    "writes": Price(0.20, MILLION, "reads and writes of Aurora", AURORA),
}
