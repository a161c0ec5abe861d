"""One provider and one policy, from the first message to the last settled row."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, LiteralString
from urllib.parse import urlsplit, urlunsplit

import psycopg

from local.postgres import Server
from local.runtime import ThrottledError
from local.stack import ROOT, Stack
from tests.chaos import evidence
from tests.chaos.desk import Desk
from tests.chaos.doubles import DOUBLES, RESEND_KEY, RESEND_KEY_NAME, Double
from tests.chaos.hunter import Hunter
from tests.chaos.ledger import Ledger
from tests.chaos.plan import (
    ANYWHERE,
    EPISODE_SECONDS,
    POINTS,
    SETTINGS,
    SWEEP_TIMEOUT,
    Plan,
)
from tests.chaos.producer import Producer
from tests.chaos.queues import Queue
from tests.chaos.wire import LOOPBACK, Wire
from tests.chaos.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SWEEPS = 4
REAPER_EVERY_SECONDS = 1.0
LOOK_SECONDS = 0.1
SETTLE_SECONDS = 120
SECONDS_FOR_A_MESSAGE = 0.04
"""What a run may take: its messages, and then the time for the last lease, grace and repeat."""

_PROGRESS_SECONDS = 5.0
_UNSETTLED = """-- chaos.unsettled
    SELECT count(*) AS n FROM postlease.email_messages WHERE finished_at IS NULL"""
# Backoffs and pauses are minutes; nobody waits for them here. Leases and graces are left alone.
_PASS_TIME = (
    """-- chaos.end_backoffs
    UPDATE postlease.email_messages SET available_at = now()
    WHERE status = 'pending' AND available_at > now() + interval '1.5 seconds'""",
    """-- chaos.end_pauses
    UPDATE postlease.provider_gates
    SET probe_at = CASE WHEN closed_at IS NOT NULL THEN least(probe_at, now()) END,
        rate_per_second = limit_per_second
    WHERE probe_at > now() OR rate_per_second < limit_per_second""",
)


@dataclass(frozen=True, slots=True)
class Report:
    """What a scenario came to; wrong holds a sentence for each thing that may not be so."""

    plan: Plan
    figures: evidence.Figures
    kills: dict[str, int]
    done: dict[str, int]
    seconds: float
    wrong: list[str]

    @property
    def line(self) -> str:
        """The one line of a scenario."""
        figures = self.figures
        return (
            f"chaos: provider={self.plan.provider} policy={self.plan.policy}"
            f" messages={figures.messages} kills={sum(self.kills.values())} lost={figures.lost}"
            f" duplicates={figures.duplicates} flagged={figures.flagged} unknown={figures.unknown}"
        )


class Scenario:
    """Runs a plan once. template is the deployment to run; say is told how it goes."""

    def __init__(
        self,
        plan: Plan,
        *,
        template: Path = ROOT / "template.yaml",
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._plan = plan
        self._template = template
        self._say = say
        self._over = threading.Event()
        self._broken = 0

    def run(self) -> Report:
        """Start everything, let the plan happen, wait until all is settled, count."""
        began = time.monotonic()
        self._ledger = Ledger()
        self._desk = Desk(self._plan, self._ledger)
        with ExitStack() as opened:
            self._start(opened)
            settled = self._live(began)
            self._over.set()
            figures = evidence.collect(
                self._url,
                self._plan,
                self._ledger,
                in_client=frozenset(self._hunter.in_client),
                told=self._plan.provider == "ses" and self._desk.events is not None,
            )
        hunter = self._hunter
        problems = evidence.wrong(figures, self._plan)
        if not settled:
            problems.append("the time was over before everything was settled")
        if missed := hunter.missed():
            words = " ".join(f"{name}={number}" for name, number in missed.items())
            problems.append(f"the plan did not come to its end: {words}")
        return Report(
            self._plan,
            figures,
            {where: hunter.kills[where] for where in (*POINTS, *ANYWHERE)},
            dict(sorted(hunter.done.items())),
            time.monotonic() - began,
            problems,
        )

    def _start(self, opened: ExitStack) -> None:
        self._server = opened.enter_context(Server())
        port = urlsplit(self._server.url).port or 0
        wire = opened.enter_context(Wire(LOOPBACK, port))
        self._double: Double = DOUBLES[self._plan.provider](self._desk)
        opened.callback(self._double.close)
        settings = SETTINGS | self._double.settings | {"POWERTOOLS_LOG_LEVEL": "WARNING"}
        self._stack = opened.enter_context(
            Stack(
                database_url=_at_port(self._server.url, wire.port),
                settings=settings,
                timeouts=dict.fromkeys(("sweep", "reaper", "doorbell", "feedback"), SWEEP_TIMEOUT),
                template=self._template,
            )
        )
        opened.callback(self._over.set)
        self._url = _at_port(self._stack.database_url, port)
        self._stack.aws.create_secret(RESEND_KEY_NAME, RESEND_KEY)
        workers = opened.enter_context(Workers(self._stack.functions))
        self._hunter = Hunter(self._plan, workers)
        self._desk.hunter = self._hunter
        functions = self._stack.functions
        self._bell = opened.enter_context(Queue(functions["doorbell"]))
        if "feedback" in functions:
            self._desk.events = opened.enter_context(Queue(functions["feedback"]))
        wire.owner_of = lambda port: workers.owner_of(port, server=wire.port)
        wire.watch = self._hunter
        self._producer = Producer(self._plan, self._url, self._hunter, self._bell)
        self._start_thread(self._producer.run)
        for _ in range(SWEEPS):
            self._start_thread(self._sweep)
        self._start_thread(self._reap)
        self._start_thread(self._pass_time)

    def _live(self, began: float) -> bool:
        """Let the plan happen; whether everything was settled in time."""
        ends = time.monotonic() + SETTLE_SECONDS + self._plan.messages * SECONDS_FOR_A_MESSAGE
        told = 0.0
        while time.monotonic() < ends:
            self._hunter.agenda.advance(self._ledger.accepted_messages)
            self._hunter.kill_anywhere()
            if self._hunter.agenda.take("restart"):
                self._server.restart()
                self._hunter.done["restarts"] += 1
            self._trouble_provider()
            left = self._count(_UNSETTLED)
            if time.monotonic() - told > _PROGRESS_SECONDS:
                told = time.monotonic()
                self._tell(told - began, left)
            if left == 0 and self._producer.has_ended and self._is_quiet():
                return True
            time.sleep(LOOK_SECONDS)
        return False

    def _is_quiet(self) -> bool:
        """Whether no event is still to come."""
        return self._desk.events is None or self._desk.events.is_empty

    def _tell(self, seconds: float, left: int | None) -> None:
        plan, kills = self._plan, self._hunter.kills.total()
        self._say(
            f"  {seconds:5.1f} s  {plan.provider} {plan.policy}: accepted"
            f" {self._ledger.accepted_messages} of {plan.messages}, unsettled {left},"
            f" killed {kills} of {plan.kills}"
        )

    def _trouble_provider(self) -> None:
        if self._hunter.agenda.take("provider", "die"):
            self._start_thread(lambda: self._double.die(EPISODE_SECONDS))
        elif self._hunter.agenda.take("provider", "pause"):
            self._desk.begin("paused")
        elif self._hunter.agenda.take("provider", "throttle"):
            self._desk.begin("throttled")

    def _count(self, statement: LiteralString) -> int | None:
        """None while the database is away."""
        with suppress(psycopg.OperationalError), psycopg.connect(self._url) as connection:
            row = connection.execute(statement).fetchone()
            return int(row[0]) if row else None
        return None

    def _start_thread(self, run: Callable[[], Any]) -> None:
        threading.Thread(target=run, daemon=True).start()

    def _sweep(self) -> None:
        """One tick after the other; four of these overlap, and so do their kills."""
        while not self._over.wait(0.05):
            self._invoke("sweep")

    def _reap(self) -> None:
        while not self._over.wait(REAPER_EVERY_SECONDS):
            self._invoke("reaper")

    def _invoke(self, name: str) -> None:
        # Closed while it waits for a worker: the run is over.
        with suppress(ThrottledError, ValueError):
            result = self._stack.functions[name].invoke(
                self._stack.trigger_event(name), patience=SWEEP_TIMEOUT
            )
            self._broken += result.error is not None

    def _pass_time(self) -> None:
        while not self._over.wait(0.5):
            with (
                suppress(psycopg.OperationalError),
                psycopg.connect(self._url, autocommit=True) as connection,
            ):
                for statement in _PASS_TIME:
                    connection.execute(statement)


def _at_port(url: str, port: int) -> str:
    parts = urlsplit(url)
    login = parts.netloc.rpartition("@")[0]
    return urlunsplit(parts._replace(netloc=f"{login}@{LOOPBACK}:{port}"))
