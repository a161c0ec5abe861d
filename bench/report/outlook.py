"""What the figures come to elsewhere: on a small Lambda, in dollars, at a hundred million a day."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bench.measuring.findings import Table
from bench.measuring.wording import number
from bench.report import costs
from bench.report.prices import MEMORY, MILLION, PRICES
from bench.report.table import markdown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.measuring.findings import Finding
    from bench.report.costs import Measured

SIZES_MB = (512, 1_024, 1_769)
MANY = 100 * MILLION

_LAMBDA = """## On a small Lambda

A function has 0.29 of a virtual processor at 512 MB and a whole one at 1,769 MB; sweep, doorbell
and sign-ups have 1,024 MB, the others 512. The table takes the figures above, which one core of
this machine gave, for a whole virtual processor's, and all of a sign-up's time for the processor's,
though most of it is waiting for the database's disk.

{table}
So a third of a processor makes a third of the rates, and up to three times the times. What bounds
a sweep first is mostly something else: with the default {slots} slots and {call:.0f} ms a call it
sends {by_slots}/s whatever its memory, and the account's rate at SES is lower still for nearly
everybody. The database's part is the server's processor time in the tables, on the database's own
machine.
Between a function and its database lies a network: each commit costs a round trip more, about a
millisecond, and a batch shares it. None of this was measured on Lambda.
"""

_COST = """## What it costs

List prices of us-east-1 in US dollars, without tax and free tier: those of Aurora of June 2026, the
others as public pages had them in 2026, or from memory where that is said. Prices change and differ
by region: look them up before you rely on them. [deploy.md](deploy.md#what-it-costs) and
[aurora.md](aurora.md#what-it-costs) have what is left out here, the network above all.

{prices}
Whether a mail is asked for or not, a month of 730 hours:

{idle}
That is {without_database} without the database, where one exists already, and less than {drained}
where the sweep, besides, drains and ends (`SWEEP_LINGER_SECONDS` = 0).

Each million mails besides, asked for by sign-ups (a request and a doorbell each), or by plain SQL:

{million}
From this run: {signup} ms for a sign-up, on {share:.0%} of a processor; for the delivery of 1,000
messages {server} s of the server's processor, and {wal:,.0f} bytes of WAL a message, both beside
a provider that takes 50 ms. [Measured](measurements.md#room-in-the-database) elsewhere: {row} kB
of room for a message. Assumed, and not measured: {call:.0f} ms for a call of SES, {doorbell:.0f}
ms for a doorbell; {events} events that SES tells of a mail, each fetched by itself, and
{feedback:.0f} ms of work for it; {log:.0f} kB of log for a mail and {log_sign_up:.0f} more for a
sign-up; {acu} of a processor in an ACU. The sweep's work on a mail is in what it costs idle.

Left out: what the database does for a sign-up itself, at most {asking:.2f} dollars a million if
all of its time were the server's processor's; that mails which leave alone, by a doorbell, share no
batch; and what a reader's click asks for, a page and a verification.

**Where the knee is.** What waits costs {idle_sum:,.0f} dollars a month, as much as SES takes for
{half} mails. With fewer you pay for readiness, with more for SES: all else comes to {rest_sql:.2f}
(SQL) to {rest_sign_up:.2f} dollars (sign-ups) a million, SES to {ses:,.0f}. The one sweep that runs
anyway bears {default_rate} mails/s with its default {slots} slots, {default_month:,.0f} million a
month if they came evenly, and {most_rate}/s with {most_slots}; from there on it takes more memory,
then more sweeps. One core of the database bears the delivery of
{database_rate} messages/s, half an ACU an eighth of that.

**A hundred million a day** are {mean:,.0f} a second, and {peak:,.0f} in an hour of three times the
mean. SES comes first: it has to grant that rate and the quota of 24 hours, and takes {ses_day:,.0f}
dollars a day; the rest takes {rest_day:,.0f} (SQL) at the prices above. The peak keeps
{slots_needed:,.0f} calls in flight;
that is {sweeps} sweeps of a whole processor and {most_slots} slots, more than the reserved 2, and
connections to match. The server spends {database:.1f} cores on delivery alone, and writes
{wal_mb:.0f} MB of WAL a second; asking for the mail comes on top, see "Asking for mail".
{gb:,.0f} GB more each day would keep retention busy for {deleting:.0%} of the time, and the vacuum
behind it: partition by day, and drop days. Before one writer is full, take
several databases, each with a stack of its own, by product or by recipient; nothing joins across
them. An SQS queue before the database, {queue:,.0f} dollars a day in batches of ten, takes the peak
off it, for those whose own transaction need not hold the mail. None of this was tried: the figures
are this run's, multiplied.
"""


def outlook(findings: Sequence[Finding]) -> str:
    """All of it, or why it is not there."""
    run = costs.measured(findings)
    if run is None:
        return "## What it costs\n\nNot computed: not all was measured that it is made of.\n"
    return f"{_small(run, findings)}\n{_dollars(run)}"


def _small(run: Measured, findings: Sequence[Finding]) -> str:
    init = next(
        (f.figures["slowest_init_ms"] for f in findings if "slowest_init_ms" in f.figures), 0
    )
    rows = [
        (
            f"{size:,} MB",
            f"{costs.share(size):.2f}",
            number(costs.share(size) * 1_000 / run.full_path_cpu_per_1000),
            number(costs.share(size) * 1_000 / run.ses_cpu_per_1000),
            number(run.signup_p50_ms / costs.share(size)),
            number(init / costs.share(size)) if init else "-",
        )
        for size in SIZES_MB
    ]
    head = (
        "memory",
        "of a processor",
        "mails/s, provider silent",
        "mails/s by SES",
        "sign-up p50 ms",
        "slowest start ms",
    )
    return _LAMBDA.format(
        table=markdown(Table(head, tuple(rows))),
        slots=costs.DEFAULT_SLOTS,
        call=costs.CALL_SECONDS * 1_000,
        by_slots=number(costs.DEFAULT_SLOTS / costs.CALL_SECONDS),
    )


def _dollars(run: Measured) -> str:
    idle = costs.idle()
    sign_up, plain = (costs.a_million(run, signed_up=one) for one in (True, False))
    day = costs.daily(run, MANY)
    idle_sum = sum(idle.values())
    ses = sign_up["SES"]
    lambda_, _, _, database = idle.values()
    default = run.sweep_rate(costs.SWEEP_MB, costs.DEFAULT_SLOTS)
    return _COST.format(
        prices=_prices(),
        idle=_sums(("what waits", "dollars a month"), idle),
        million=_sums(("for a million", "by sign-ups", "by SQL"), sign_up, plain),
        without_database=f"{idle_sum - database:,.2f}",
        drained=math.ceil(idle_sum - database - lambda_ + 1),
        asking=costs.asking_at_most(run),
        row=costs.ROW_KB,
        signup=number(run.signup_p50_ms),
        share=costs.share(costs.SWEEP_MB),
        server=number(run.server_cpu_per_1000),
        wal=run.wal_per_message,
        call=costs.CALL_SECONDS * 1_000,
        doorbell=costs.DOORBELL_SECONDS * 1_000,
        events=costs.EVENTS_A_MAIL,
        feedback=costs.FEEDBACK_SECONDS * 1_000,
        log=costs.LOG_KB_MAIL,
        log_sign_up=costs.LOG_KB_SIGN_UP,
        acu=costs.PROCESSORS_AN_ACU,
        idle_sum=idle_sum,
        half=f"{round(idle_sum / ses * MILLION, -4):,.0f}",
        rest_sql=costs.without_ses(plain),
        rest_sign_up=costs.without_ses(sign_up),
        ses=ses,
        default_rate=number(default),
        default_month=default * costs.MINUTES_A_MONTH * 60 / MILLION,
        most_rate=number(run.sweep_rate(costs.SWEEP_MB, costs.MOST_SLOTS)),
        slots=costs.DEFAULT_SLOTS,
        most_slots=costs.MOST_SLOTS,
        database_rate=number(1_000 / run.server_cpu_per_1000),
        mean=MANY / costs.DAY_SECONDS,
        peak=day.rate,
        ses_day=day.ses_dollars,
        rest_day=costs.without_ses(plain) * MANY / MILLION,
        slots_needed=day.slots,
        sweeps=math.ceil(day.sweeps),
        database=day.database_processors,
        wal_mb=day.wal_megabytes,
        gb=day.gigabytes,
        deleting=day.deleting_share,
        queue=day.queue_dollars,
    )


def _prices() -> str:
    rows = [
        (
            price.unit,
            f"{price.of:,.0f}",
            price.told,
            _where(price.source),
        )
        for price in PRICES.values()
    ]
    return markdown(Table(("what", "so many", "dollars", "from"), tuple(rows)))


def _where(source: str) -> str:
    return "memory" if source == MEMORY else f"[{source}]({source}#what-it-costs)"


def _sums(head: tuple[str, ...], *columns: dict[str, float]) -> str:
    rows = [(name, *(f"{one[name]:,.2f}" for one in columns)) for name in columns[0]]
    rows.append(("**together**", *(f"{sum(one.values()):,.2f}" for one in columns)))
    return markdown(Table(head, tuple(rows)))
