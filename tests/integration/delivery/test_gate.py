"""The gate at work: outages and blocked accounts cost nothing, and no limit is exceeded."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError
from psycopg.conninfo import make_conninfo

from local.provider import Fault, Provider
from postlease import gate, outbox
from postlease.database import connect
from postlease.delivery.calls import Calls
from postlease.delivery.connections import Connections
from postlease.delivery.gatekeeping import Gatekeeper
from postlease.delivery.rates import forget
from postlease.delivery.tally import Tally
from postlease.delivery.turns import Turn
from postlease.delivery.writer import Writer
from postlease.errors import UnavailableError
from postlease.model import Blocked
from postlease.providers import ses
from tests import arrange
from tests.integration.delivery.conftest import Sweeps
from tests.integration.delivery.test_attachments import weighing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from local.sendemail import SendEmail
    from postlease.database import Connection
    from postlease.model import Outcome, OutgoingMail

ROOT = Path(__file__).parents[3]
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
LIMIT = 14
CULPRIT = "culprit@example.com"
BLOCKED: Any = {
    "Error": {"Code": "SendingPausedException", "Message": "Email sending is paused."},
    "ResponseMetadata": {"HTTPStatusCode": 400},
}


def unpaid(owner: Connection) -> int:
    """How many messages have used an attempt that was not given back."""
    row = owner.execute(
        "SELECT count(*) AS n FROM postlease.email_messages WHERE attempt_count > refunded_count"
    ).fetchone()
    assert row
    return int(row["n"])


def state(owner: Connection) -> gate.GateState:
    return gate.look(owner, "ses")


@pytest.mark.parametrize("mode", ["unavailable", "pause"])
def test_two_hours_without_a_provider_cost_no_message_no_attempt_and_one_probe_an_interval(
    sweeps: Sweeps, owner: Connection, mode: str
) -> None:
    """SES-01: a sweep a minute over 1,000 due messages; all are sent within 60 s of the opening."""
    arrange.enqueue(owner, 1000)
    sweeps.meets(mode)
    sweeps.run()
    assert state(owner).closed
    before_closing = sweeps.provider.counts.requests
    assert before_closing <= 15

    probes: list[int] = []
    for minute in range(1, 121):
        arrange.pass_time(owner, MINUTE)
        known = sweeps.provider.counts.requests
        sweeps.run()
        probes += [minute] * (sweeps.provider.counts.requests - known)
    # 30 s, 60 s, 120 s ... 600 s after one another, each taken by the sweep of its minute.
    assert probes == [1, 2, 4, 8, *range(16, 121, 10)]
    assert arrange.statuses(owner) == {"pending": 1000}
    assert unpaid(owner) == 0

    sweeps.meets("accept")
    arrange.pass_time(owner, 10 * MINUTE)
    tally = sweeps.run()
    assert tally.counts["sent"] == 1000
    assert not state(owner).closed
    spread = owner.execute(
        "SELECT max(sent_at) - min(sent_at) AS spread, max(attempt_count - refunded_count) AS used"
        " FROM postlease.email_messages"
    ).fetchone()
    assert spread
    assert spread["spread"] < MINUTE
    assert spread["used"] == 1


def test_what_met_a_closed_gate_waits_less_than_a_minute(
    sweeps: Sweeps, owner: Connection, environment: Callable[..., None]
) -> None:
    """However often it was tried: so that it leaves within 60 s of the opening."""
    environment(SEND_SLOTS="1")
    [message_id] = arrange.enqueue(owner)
    sweeps.meets("pause")
    for _ in range(8):
        sweeps.run()
        arrange.pass_time(owner, 10 * MINUTE)
    sweeps.run()
    stored = arrange.row(owner, message_id)
    assert stored["attempt_count"] == stored["refunded_count"] == 9
    waits = owner.execute(
        "SELECT available_at - now() AS left FROM postlease.email_messages"
    ).fetchone()
    assert waits
    assert waits["left"] < 45 * SECOND


def test_after_one_answer_a_sweep_goes_on_with_the_rest(sweeps: Sweeps, owner: Connection) -> None:
    arrange.enqueue(owner, 30)
    gate.close_gate(owner, "ses", reason="unreachable")
    arrange.pass_time(owner, MINUTE)
    assert sweeps.run().counts["sent"] == 30
    assert state(owner) == gate.OPEN_GATE


def test_a_probe_waits_for_its_time(sweeps: Sweeps, owner: Connection) -> None:
    arrange.enqueue(owner, 3)
    gate.close_gate(owner, "ses", reason="unreachable")
    arrange.pass_time(owner, 25 * SECOND)
    assert sweeps.run().counts["claimed"] == 0
    assert state(owner).closed


def test_a_message_that_comes_to_no_call_spends_no_probe(sweeps: Sweeps, owner: Connection) -> None:
    arrange.enqueue(owner, 3, template="no_such_template")
    arrange.enqueue(owner)
    gate.close_gate(owner, "ses", reason="unreachable")
    arrange.pass_time(owner, MINUTE)
    sweeps.run()
    assert arrange.statuses(owner) == {"failed": 3, "sent": 1}
    assert not state(owner).closed


def test_a_refusal_without_a_call_spends_no_probe_and_opens_nothing(
    sweeps: Sweeps,
    owner: Connection,
    bucket: Callable[[str, bytes], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ses, "LARGEST", 20_000)
    [large] = weighing(owner, bucket, 20_000)
    [asked] = arrange.enqueue(owner)
    gate.close_gate(owner, "ses", reason="unreachable")
    arrange.pass_time(owner, MINUTE)
    sweeps.meets("pause")
    sweeps.run()
    assert arrange.row(owner, large)["attempts"][-1]["code"] == "too_large"
    assert arrange.row(owner, asked)["attempts"][-1]["code"] == "sending_paused"
    assert (state(owner).reason, state(owner).closed_by) == ("unreachable", None)


def test_a_message_that_cost_a_worker_may_probe_if_nothing_else_is_due(
    sweeps: Sweeps, owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    arrange.claim(application)
    arrange.end_lease(owner, message_id)
    arrange.reap(application)
    gate.close_gate(owner, "ses", reason="unreachable")
    arrange.pass_time(owner, MINUTE)
    assert sweeps.run().counts["sent"] == 1
    assert not state(owner).closed


def test_with_nothing_due_no_probe_is_taken(sweeps: Sweeps, owner: Connection) -> None:
    """The first mail after a quiet time tries at once."""
    gate.close_gate(owner, "ses", reason="unreachable")
    arrange.pass_time(owner, MINUTE)
    sweeps.run()
    assert state(owner).probe_is_due
    arrange.enqueue(owner)
    assert sweeps.run().counts["sent"] == 1


def test_two_sweeps_send_one_probe(sweeps: Sweeps, owner: Connection) -> None:
    arrange.enqueue(owner, 50)
    gate.close_gate(owner, "ses", reason="sending_paused")
    arrange.pass_time(owner, MINUTE)
    sweeps.meets("pause")
    runs = [sweeps.start(), sweeps.start(), sweeps.start()]
    assert sum(run.result().counts["blocked"] for run in runs) == 1
    assert sweeps.provider.counts.requests == 1


def test_what_was_claimed_before_the_closing_and_has_not_left_goes_back(
    sweeps: Sweeps, owner: Connection, environment: Callable[..., None]
) -> None:
    environment(SENDS_PER_SECOND="5", SEND_SLOTS="10")
    arrange.enqueue(owner, 10)
    sweeps.meets("pause")
    tally = sweeps.run()
    assert tally.counts["gate_closed"] == 1
    assert tally.counts["handed_back"] >= 7
    assert sweeps.provider.counts.requests <= 3
    assert arrange.statuses(owner) == {"pending": 10}
    assert unpaid(owner) == 0


# Who is to blame.


@pytest.fixture
def picky(
    sweeps: Sweeps, environment: Callable[..., None], application_conninfo: str
) -> Iterator[Sweeps]:
    """A provider that answers one recipient's mail as if the account were paused."""

    def forward(call: SendEmail) -> str:
        if CULPRIT in call.to:
            raise ClientError(BLOCKED, "SendEmail")
        return "accepted"

    provider = Provider(forward=forward)
    environment(AWS_ENDPOINT_URL_SESV2=provider.url, SEND_SLOTS="1")
    running = Sweeps(provider, application_conninfo)
    yield running
    running.close()


def test_a_message_that_stops_the_rest_twice_is_rejected(picky: Sweeps, owner: Connection) -> None:
    [culprit] = arrange.enqueue(owner, to=[CULPRIT])
    arrange.enqueue(owner, 5)
    picky.run()
    stored = arrange.row(owner, culprit)
    assert (stored["status"], stored["blocked_at"] is None) == ("pending", False)
    assert state(owner).closed_by == culprit
    arrange.pass_time(owner, MINUTE)
    picky.run()
    stored = arrange.row(owner, culprit)
    assert (stored["status"], stored["failure_reason"]) == ("failed", "rejected")
    assert (stored["attempts"][-1]["code"], stored["attempt_count"]) == ("sending_paused", 2)
    assert arrange.statuses(owner) == {"failed": 1, "sent": 5}
    assert not state(owner).closed


def test_a_message_that_is_stopped_while_nobody_passes_is_not_rejected(
    picky: Sweeps, owner: Connection
) -> None:
    """Alone, it closes the gate once, and is the probe from then on."""
    [culprit] = arrange.enqueue(owner, to=[CULPRIT])
    for _ in range(6):
        picky.run()
        arrange.pass_time(owner, 10 * MINUTE)
    stored = arrange.row(owner, culprit)
    assert (stored["status"], stored["blocked_at"] is None) == ("pending", False)
    assert stored["attempt_count"] == stored["refunded_count"] == 6


def test_an_account_that_is_opened_and_paused_again_rejects_nobody(
    sweeps: Sweeps, owner: Connection
) -> None:
    """Nobody passed in between: it is still the account's trouble."""
    [message_id] = arrange.enqueue(owner)
    sweeps.meets("pause")
    for _ in range(3):
        assert sweeps.run().counts["gate_closed"] == 1
        gate.open_gate(owner, "ses")
        arrange.pass_time(owner, MINUTE)
    assert arrange.row(owner, message_id)["status"] == "pending"
    assert unpaid(owner) == 0


def test_a_paused_account_rejects_nobody_who_met_it_twice(
    sweeps: Sweeps, owner: Connection
) -> None:
    """Only whose answer closed the gate is noted: not what was in flight, and no probe."""
    arrange.enqueue(owner, 20)
    sweeps.meets("pause")
    for _ in range(10):
        sweeps.run()
        arrange.pass_time(owner, 10 * MINUTE)
    noted = owner.execute("SELECT count(blocked_at) AS n FROM postlease.email_messages").fetchone()
    assert noted == {"n": 1}
    sweeps.meets("accept")
    assert sweeps.run().counts["sent"] == 20


# The rate.


TWO_SWEEPS = """
import os, sys, time
from concurrent.futures import ThreadPoolExecutor
from postlease import config, delivery

def sweep(name):
    own = delivery.Connections.new(lambda *, refresh: os.environ["CONNINFO"])
    times = delivery.Times(time.monotonic() + 60, time.monotonic())
    tally = delivery.deliver(config.settings(), times, worker=name, connections=own)
    return tally.counts["sent"]

print("ready", flush=True)
sys.stdin.readline()
with ThreadPoolExecutor(2) as threads:
    sys.stderr.write(" ".join(map(str, threads.map(sweep, sys.argv[1:]))))
"""


def four_sweeps(conninfo: str) -> list[int]:
    """Two processes of two sweeps each, begun together; how many mails each sweep sent."""
    variables = os.environ | {
        "CONNINFO": conninfo,
        "PYTHONPATH": str(ROOT / "layers" / "postlease" / "python"),
        "POWERTOOLS_LOG_LEVEL": "CRITICAL",
    }
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with contextlib.ExitStack() as running:
        processes = [
            running.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", TWO_SWEEPS, *names], env=variables, text=True, **pipes
                )
            )
            for names in (("one", "two"), ("three", "four"))
        ]
        for process in processes:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin
            process.stdin.write("\n")
            process.stdin.flush()
        told = [process.communicate(timeout=120)[1] for process in processes]
    return [int(number) for line in told for number in line.split()]


def most_in(arrivals: list[tuple[float, int]], seconds: float) -> int:
    """The most recipients that came within any so many seconds."""
    return max(
        sum(number for at, number in arrivals if start <= at < start + seconds)
        for start, _ in arrivals
    )


@contextlib.contextmanager
def longest_stall() -> Iterator[list[float]]:
    """Collects by how many seconds this machine let somebody oversleep, the worst in the end."""
    worst = [0.0]
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            asked_at = time.monotonic()
            over.wait(0.01)
            worst[0] = max(worst[0], time.monotonic() - asked_at - 0.01)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield worst
    finally:
        over.set()
        watcher.join()


def test_four_workers_of_two_processes_keep_to_the_limit_and_use_it(
    sweeps: Sweeps, owner: Connection, environment: Callable[..., None], application_conninfo: str
) -> None:
    """At most limit + 2 recipients in any second and 1.02 times in any ten; 90 % on average."""
    arrivals: list[tuple[float, int]] = []

    def forward(call: SendEmail) -> str:
        arrivals.append((time.monotonic(), len(call.to)))
        return f"accepted-{len(arrivals)}"

    with contextlib.closing(Provider(forward=forward)) as provider:
        environment(AWS_ENDPOINT_URL_SESV2=provider.url, SENDS_PER_SECOND=str(LIMIT))
        for _ in range(58):
            arrange.enqueue(owner)
            arrange.enqueue(owner, to=["one@example.com", "two@example.com"])
        with longest_stall() as stall:
            sent = four_sweeps(application_conninfo)
    assert sum(sent) == len(arrivals) == 116
    assert min(sent) > 0, "a worker had nothing to do"
    total = sum(number for _, number in arrivals)
    lasted = max(at for at, _ in arrivals) - min(at for at, _ in arrivals)
    assert total == 174
    # What the machine held up arrives with what came on time: so much longer is the second.
    assert most_in(arrivals, 1) <= LIMIT * (1 + stall[0]) + 2
    assert most_in(arrivals, 10) <= 1.02 * 10 * LIMIT
    assert total / lasted >= 0.9 * LIMIT


def test_what_lies_beyond_the_lease_goes_back_and_takes_no_slot(
    sweeps: Sweeps, owner: Connection, environment: Callable[..., None]
) -> None:
    """At one a second, 20 recipients take 21 s, and the lease has room for 9."""
    environment(SENDS_PER_SECOND="1")
    many = [f"reader{place}@example.com" for place in range(20)]
    arrange.enqueue(owner, 10, to=many)
    tally = sweeps.run()
    assert (tally.counts["sent"], tally.counts["handed_back"]) == (1, 9)
    assert sweeps.run().counts["sent"] == 0
    assert unpaid(owner) == 1
    arrange.pass_time(owner, 22 * SECOND)
    assert sweeps.run().counts["sent"] == 1


def test_a_refusal_for_speed_halves_the_rate_and_costs_no_attempt(
    sweeps: Sweeps, owner: Connection, environment: Callable[..., None]
) -> None:
    environment(SENDS_PER_SECOND="100")
    gate.set_limit(owner, "ses", 100)
    arrange.pass_time(owner, 10 * SECOND)
    arrange.enqueue(owner, 5)
    sweeps.meets("throttle", 1)
    assert sweeps.run().counts["throttled"] == 1
    assert state(owner).rate_per_second == 50
    arrange.pass_time(owner, 5 * SECOND)
    sweeps.run()
    assert arrange.statuses(owner) == {"sent": 5}


@dataclass
class TellingProvider:
    """Implements the port. Says what a test wants it to say of its rate."""

    told: float | UnavailableError | None
    name: str = "telling"
    keeps_keys: bool = False
    asked: list[None] = field(default_factory=list)

    def get_ready(self) -> None:
        """It always is."""

    def sending_rate(self) -> float | None:
        self.asked.append(None)
        if isinstance(self.told, UnavailableError):
            raise self.told
        return self.told

    def send(self, mail: OutgoingMail) -> Outcome:
        raise NotImplementedError


def writer_of(connections: Connections, provider: TellingProvider) -> Writer:
    terms = outbox.Terms(provider.name, provider.keeps_keys, SECOND, arrange.MAX_ATTEMPTS)
    return Writer(connections, terms, Calls(5))


@pytest.mark.parametrize(
    ("told", "own", "used"),
    [
        (14.0, None, 14),
        (14.0, 10, 10),
        (10.0, 14, 10),
        (None, 14, 14),
        (None, None, None),
        (UnavailableError("away"), 5, 5),
        (UnavailableError("away"), None, 3),
    ],
    ids=str,
)
def test_the_lower_limit_is_used_and_silence_changes_nothing(
    connections: Connections,
    application: Connection,
    told: float | UnavailableError | None,
    own: float | None,
    used: float | None,
) -> None:
    forget()
    provider = TellingProvider(told)
    gate.set_limit(application, provider.name, 3)
    arrange.enqueue(application)
    [message] = arrange.claim(application)
    with writer_of(connections, provider) as writer:
        for _ in range(2):  # two runs of one environment
            keeper = Gatekeeper(writer, provider=provider, tally=Tally(), own_limit=own)
            [turn] = keeper.turns(
                application, [message], claimed_at=1, latest=time.monotonic() + 20
            )
    forget()
    assert gate.look(application, provider.name).rate_per_second == used
    assert (turn.late_at < float("inf")) == (used is not None)
    assert len(provider.asked) == 1


def test_a_turn_that_was_missed_is_not_used_late(
    connections: Connections, application: Connection
) -> None:
    """Calls that were held up together would come in a burst."""
    provider = TellingProvider(None)
    gate.set_limit(application, provider.name, 2)
    arrange.enqueue(application)
    [message] = arrange.claim(application)
    with writer_of(connections, provider) as writer:
        keeper = Gatekeeper(writer, provider=provider, tally=Tally(), own_limit=2)
        [turn] = keeper.turns(application, [message], claimed_at=1, latest=time.monotonic() + 20)
        missed = Turn(1, turn.starts_at - 60, turn.starts_at - 59)
        again = keeper.wait_for_turn(message, missed, latest=time.monotonic() + 20)
    assert again is not None
    assert again.starts_at - turn.starts_at == pytest.approx(1 / (2 * 0.95), abs=0.2)


def test_faults_end_when_they_are_over(sweeps: Sweeps, owner: Connection) -> None:
    """Four calls that reach nobody and an answer: the fifth failure is the first of a new row."""
    arrange.enqueue(owner, 4)
    sweeps.provider.set_fault(Fault("unavailable", 4))
    sweeps.run()
    assert state(owner).failures_in_a_row == 4
    arrange.enqueue(owner)
    sweeps.run()
    assert state(owner).failures_in_a_row == 0


def test_a_gate_that_cannot_be_asked_strands_no_message(
    sweeps: Sweeps, owner: Connection, application: Connection
) -> None:
    """They are claimed already: whatever goes wrong then, they are handed back at no cost."""
    arrange.enqueue(owner, 3)
    gate.set_limit(application, "ses", 100)
    owner.execute("REVOKE UPDATE ON postlease.provider_gates FROM postlease_application")
    try:
        tally = sweeps.run(linger=3)
    finally:
        owner.execute("GRANT UPDATE ON postlease.provider_gates TO postlease_application")
    assert arrange.statuses(owner) == {"pending": 3}
    assert unpaid(owner) == 0
    # Once a second, and not as fast as it goes.
    assert 3 <= tally.counts["claimed"] <= 12
    assert sweeps.run().counts["sent"] == 3


def test_a_gate_that_somebody_holds_is_not_waited_for(
    application: Connection, application_conninfo: str, owner: Connection, owner_url: str
) -> None:
    """The answer is the mail's and is recorded; the gate learns from the next one."""
    provider = TellingProvider(None)
    gate.set_limit(owner, provider.name, 2)
    arrange.enqueue(owner)
    [message] = arrange.claim(application)
    impatient = make_conninfo(application_conninfo, options="-c lock_timeout=100ms")
    hasty = Connections.new(lambda *, refresh: impatient)
    with writer_of(hasty, provider) as writer, ThreadPoolExecutor(1) as threads:
        keeper = Gatekeeper(writer, provider=provider, tally=Tally(), own_limit=2)
        now = time.monotonic()
        with connect(owner_url) as blocker, blocker.transaction():
            blocker.execute("SELECT FROM postlease.provider_gates FOR UPDATE")
            told = threads.submit(
                keeper.note, message, Blocked("paused"), began_at=now, until=now + 300
            )
            assert told.result(timeout=60) is None
    hasty.discard()
    assert not gate.look(owner, provider.name).closed
