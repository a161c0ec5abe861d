"""What each ratio shall be. Told and never asserted in a test: each machine says its own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """least and most bound the ratio, where it has such a bound."""

    says: str
    least: float | None = None
    most: float | None = None

    def is_met(self, ratio: float) -> bool:
        """Whether ratio keeps to the bounds."""
        return (self.least is None or ratio >= self.least) and (
            self.most is None or ratio <= self.most
        )

    @property
    def bound(self) -> str:
        """As it stands on the page."""
        return f"at least {self.least}" if self.least is not None else f"at most {self.most}"


TARGETS = {
    "queue_vs_fastest_peer": Target("queue path, by the fastest peer's, 10,000", least=1.5),
    "queue_vs_fastest_peer_40k": Target("the same, 40,000", least=1.2),
    "queue_vs_pgbench": Target("queue path, by pgbench's with the same writes", least=0.5),
    "latency50_vs_ideal": Target("50 ms, 100 slots, by the ideal 2,000/s", least=0.97),
    "full_cpu_vs_render_mime": Target(
        "CPU of the full path, by that of rendering and MIME", most=1.25
    ),
    "mime_cpu_vs_stdlib": Target("CPU of MIME, by that of `EmailMessage`", most=0.5),
    "ses_sends_per_cpu_vs_boto3": Target("sends per CPU second, by a bare boto3 loop's", least=1.2),
    "ses_sends_per_s_vs_boto3": Target("sends per second, by a bare boto3 loop's", least=1.0),
    "claim_p99_5m_vs_0": Target("claim p99 among 5 million finished rows, by none", most=1.5),
    "claim_p50_old_snapshot": Target("claim p50 under an old snapshot, by none", most=1.5),
    "claim_far_future": Target("claim p50 beside far-future rows, by none", most=2.0),
    "enqueue_single_vs_insert": Target("`enqueue_email`, by a bare INSERT", least=0.85),
    "enqueue_batch_vs_insert": Target("`enqueue_emails` of 1,000, by a bare INSERT", least=0.5),
    "signup_vs_sql": Target("p50 of a sign-up, by the bare SQL of its transaction", most=1.5),
    "cold_start_vs_imports": Target("slowest function's init, by its libraries' import", most=1.3),
}
