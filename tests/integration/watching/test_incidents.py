"""What goes wrong is seen: five incidents, by real functions, and the alarm that tells of each.

Before an incident its alarm is OK; after it, by nothing but the metrics that the functions wrote,
it is ALARM. A minute is one run of sweep and reaper: what they write counts as written then.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from postlease import gate, migrations, retention
from postlease.database import connect
from tests import arrange
from tests.alarms import Recorded, State, state
from tests.conftest import SQL
from tests.integration.feedback.conftest import told
from tests.template.deployment import deployment, source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from local.ses_events import EventKind
    from postlease.database import Connection
    from tests.integration.watching.conftest import Sweeps

MINUTE = 60
STACK = "postlease"
"""The name that the metrics have without a stack."""

# Those that watch what Postlease itself emits.
OWN = (
    "SweepHeartbeatAlarm",
    "ReaperHeartbeatAlarm",
    "OldestDueAlarm",
    "GatePausedAlarm",
    "FailureRateAlarm",
    "UnknownOutcomesAlarm",
    "WorkersLostAlarm",
    "RetentionHeartbeatAlarm",
)
QUIET: dict[str, State] = dict.fromkeys(OWN, "OK")


@pytest.fixture(scope="module")
def alarms() -> dict[str, dict[str, Any]]:
    """The properties of the template's alarms."""
    found = deployment(source()).of_type("AWS::CloudWatch::Alarm")
    return {name: one["Properties"] for name, one in found.items()}


def referred(value: Any) -> Any:
    """What the template refers to, in a stack of that name."""
    return STACK if value == {"Ref": "AWS::StackName"} else value


class Watch:
    """Minutes of a stack, and what its alarms say."""

    def __init__(self, run: Callable[..., str], alarms: dict[str, dict[str, Any]]) -> None:
        self._run = run
        self._alarms = alarms
        self.recorded = Recorded()
        self.minute = 0

    def pass_minutes(self, number: int, *functions: str, **options: Any) -> None:
        """Run functions, by default sweep and reaper, once a minute."""
        for _ in range(number):
            for function in functions or ("sweep", "reaper"):
                written = self._run(function, **options)
                self.recorded.take(written, at=self.minute * MINUTE + 1)
            self.minute += 1

    def said(self, *names: str) -> dict[str, State]:
        """What the alarms say now."""
        return {
            name: state(
                self._alarms[name], self.recorded, now=self.minute * MINUTE, resolve=referred
            )
            for name in names or OWN
        }


@pytest.fixture
def watch(run: Callable[..., str], alarms: dict[str, dict[str, Any]], owner: Connection) -> Watch:
    """Five quiet minutes, in which one mail was sent."""
    watched = Watch(run, alarms)
    arrange.enqueue(owner)
    watched.pass_minutes(5)
    assert watched.said() == QUIET
    return watched


def test_a_sweep_that_stopped(watch: Watch) -> None:
    """RET-03."""
    watch.pass_minutes(5, "reaper")
    assert watch.said() == QUIET | {"SweepHeartbeatAlarm": "ALARM"}


def test_a_paused_gate_is_told_where_no_sweep_runs_either(watch: Watch, owner: Connection) -> None:
    gate.pause(owner, "ses", by="somebody", because="a test")
    watch.pass_minutes(5, "reaper")
    ringing = dict.fromkeys(("SweepHeartbeatAlarm", "GatePausedAlarm"), "ALARM")
    assert watch.said() == QUIET | ringing


def test_a_reaper_that_stopped(watch: Watch) -> None:
    watch.pass_minutes(5, "sweep")
    assert watch.said() == QUIET | {"ReaperHeartbeatAlarm": "ALARM"}


def test_a_provider_that_refuses_every_mail(
    watch: Watch, sweeps: Sweeps, owner: Connection
) -> None:
    """RET-03: and a queue of which every message fails."""
    sweeps.meets("reject")
    for said in ("OK", "OK", "OK", "OK", "ALARM"):
        arrange.enqueue(owner, 4)
        watch.pass_minutes(1)
        assert watch.said() == QUIET | {"FailureRateAlarm": said}


def test_a_few_mails_that_fail_where_hardly_any_are_sent(
    watch: Watch, sweeps: Sweeps, owner: Connection
) -> None:
    """Each is all that its minute has: nobody is woken for four addresses that do not exist."""
    sweeps.meets("reject")
    for _ in range(4):
        arrange.enqueue(owner)
        watch.pass_minutes(2)
        assert watch.said() == QUIET


def test_a_provider_that_is_away(watch: Watch, sweeps: Sweeps, owner: Connection) -> None:
    """A few attempts say so, then the gate closes and nobody tries in vain."""
    sweeps.meets("unavailable")
    arrange.enqueue(owner, 12)
    watch.pass_minutes(5)
    assert watch.said()["GatePausedAlarm"] == "ALARM"


def test_a_queue_that_is_filled_faster_than_it_is_emptied(watch: Watch, owner: Connection) -> None:
    """An invocation that has no time to send stands for a sweep that does not keep up."""
    for message_id in arrange.enqueue(owner, 20):
        arrange.age(owner, message_id, timedelta(minutes=10), "available_at")
    watch.pass_minutes(5, milliseconds=5_000)
    assert watch.said()["OldestDueAlarm"] == "ALARM"
    assert watch.said()["SweepHeartbeatAlarm"] == "OK"
    watch.pass_minutes(5)
    assert watch.said() == QUIET


def test_a_gate_that_an_operator_paused(watch: Watch, owner: Connection) -> None:
    gate.pause(owner, "ses", by="somebody", because="a test")
    watch.pass_minutes(2)
    assert watch.said() == QUIET | {"GatePausedAlarm": "ALARM"}
    gate.release(owner, "ses", by="somebody", because="a test")
    watch.pass_minutes(2)
    assert watch.said() == QUIET


DOOMED = Path(__file__).with_name("doomed.py")


@pytest.fixture
def start(application_conninfo: str) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Starts a worker in a process of its own."""
    with contextlib.ExitStack() as workers:

        def begin(what: str) -> subprocess.Popen[str]:
            worker = subprocess.Popen(
                [sys.executable, DOOMED, what, application_conninfo],
                env=os.environ | {"PYTHONPATH": ":".join(sys.path)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            workers.enter_context(worker)
            workers.callback(worker.kill)
            return worker

        yield begin


def test_a_worker_that_was_killed_before_its_mail_left(
    watch: Watch, owner: Connection, start: Callable[[str], subprocess.Popen[str]]
) -> None:
    ids = arrange.enqueue(owner, 3)
    worker = start("claims")
    assert worker.stdout
    assert worker.stdout.readline() == "claimed\n"
    worker.kill()
    worker.wait()
    for message_id in ids:
        arrange.end_lease(owner, message_id)
    watch.pass_minutes(5, "reaper", "sweep")
    assert watch.said() == QUIET | {"WorkersLostAlarm": "ALARM"}
    assert arrange.statuses(owner) == {"sent": 4}


def test_a_worker_that_was_killed_when_its_mail_may_have_left(
    watch: Watch,
    sweeps: Sweeps,
    owner: Connection,
    start: Callable[[str], subprocess.Popen[str]],
) -> None:
    """Nobody knows until the grace is over; then the message's policy decides."""
    sweeps.meets("stall")
    [message_id] = arrange.enqueue(owner)
    worker = start("sends")
    deadline = time.monotonic() + 30
    while not arrange.row(owner, message_id)["dispatched_at"]:
        assert time.monotonic() < deadline, "it was not sent"
    worker.kill()
    worker.wait()
    sweeps.meets("accept")
    arrange.end_lease(owner, message_id)
    watch.pass_minutes(2)
    assert watch.said() == QUIET | {"UnknownOutcomesAlarm": "ALARM"}
    arrange.age(owner, message_id, arrange.GRACE, "claimed_at", "dispatched_at", "lease_expires_at")
    watch.pass_minutes(5)
    assert watch.said() == QUIET
    assert arrange.statuses(owner) == {"sent": 2}


def test_retention_that_does_not_come_to_its_end(watch: Watch, owner: Connection) -> None:
    """A night in every 24 hours is enough, also where summer time makes one of 25."""
    said = []
    for hours in (25, 26.1, 0):
        watch.pass_minutes(1, "retention")
        owner.execute(
            "UPDATE postlease.retention_duties SET ended_at = ended_at - make_interval(secs => %s)",
            [hours * 3600],
        )
        watch.pass_minutes(10)
        said.append(watch.said("RetentionHeartbeatAlarm")["RetentionHeartbeatAlarm"])
    assert said == ["OK", "ALARM", "OK"]


def test_retention_that_never_gets_done(watch: Watch, owner: Connection) -> None:
    """It ends each night, and leaves to the next what it always leaves."""
    watch.pass_minutes(1, "retention")
    owner.execute("UPDATE postlease.retention_duties SET ended_at = ended_at - interval '26h 1min'")
    watch.pass_minutes(1, "retention", milliseconds=1_000)
    watch.pass_minutes(5)
    assert watch.said() == QUIET | {"RetentionHeartbeatAlarm": "ALARM"}


def test_a_new_stack_rings_no_alarm_before_its_first_night(
    empty_database: Callable[[], str], alarms: dict[str, dict[str, Any]]
) -> None:
    """The clock begins with the migration."""
    with connect(empty_database()) as migrated:
        migrations.migrate(migrated, SQL)
        migrated.execute(
            "UPDATE postlease.retention_duties SET ended_at = ended_at - interval '24h'"
        )
        seconds = retention.seconds_since_end(migrated)
    assert 86_400 < seconds < float(alarms["RetentionHeartbeatAlarm"]["Threshold"])
    assert alarms["RetentionHeartbeatAlarm"]["TreatMissingData"] == "notBreaching"


@pytest.mark.parametrize(
    ("kind", "alarm", "hours", "tolerable"),
    [("PermanentBounce", "BounceRateAlarm", 3, 3), ("Complaint", "ComplaintRateAlarm", 2, 100)],
)
def test_addresses_that_bounce_and_people_who_complain(
    run: Callable[..., str],
    environment: Callable[..., None],
    alarms: dict[str, dict[str, Any]],
    kind: EventKind,
    alarm: str,
    hours: int,
    tolerable: int,
) -> None:
    """One among ten: an hour of it may be chance, some hours of a day are not. One among many is
    never too many.
    """
    environment(SES_CONFIGURATION_SET="postlease")

    def written(*events: dict[str, Any]) -> str:
        bodies = [{"messageId": str(n), "body": json.dumps(one)} for n, one in enumerate(events)]
        return run("feedback", {"Records": bodies})

    delivered, bad = written(*[told("Delivery")] * 10), written(told(kind))

    def rung(batches: int) -> list[State]:
        """Hour by hour, with so many batches of ten that were delivered."""
        recorded, said = Recorded(), []
        for hour in range(hours):
            for one in [bad, *[delivered] * batches]:
                recorded.take(one, at=hour * 3600)
            said.append(state(alarms[alarm], recorded, now=(hour + 1) * 3600, resolve=referred))
        return said

    assert rung(1) == ["OK"] * (hours - 1) + ["ALARM"]
    assert rung(tolerable) == ["OK"] * hours
