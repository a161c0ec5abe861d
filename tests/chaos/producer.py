"""Whoever wants mail sent: in portions, as fast as the plan is carried out."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg
from psycopg.rows import dict_row

from postlease.errors import UnavailableError
from postlease.model import event_id
from tests import arrange
from tests.chaos.plan import LAST, SLOTS

if TYPE_CHECKING:
    from tests.chaos.hunter import Hunter
    from tests.chaos.plan import Plan
    from tests.chaos.queues import Queue

FEW = 2
PATIENCE_SECONDS, LAST_PATIENCE, LONGEST_WAIT_SECONDS = 0.5, 2.0, 10.0
"""Messages come as soon as no more than a few actions are due, or after so long without any."""

RING_EVERY = 2
"""So many portions, one of which rings the doorbell too."""

LOOK_SECONDS = 0.05
_WAITING = """-- chaos.waiting
    SELECT count(*) AS n FROM postlease.email_messages WHERE finished_at IS NULL
    AND status = 'pending'"""


class Producer:
    """Enqueues a plan's messages on connections of its own, and rings for some of them."""

    def __init__(self, plan: Plan, url: str, hunter: Hunter, bell: Queue) -> None:
        self._plan = plan
        self._url = url
        self._hunter = hunter
        self._bell = bell
        self._ended = threading.Event()

    @property
    def has_ended(self) -> bool:
        """Whether every message is in the outbox."""
        return self._ended.is_set()

    def run(self) -> None:
        """Enqueue in portions, and wait while much is due: what is to happen needs traffic."""
        plan = self._plan
        size = max(1, min(SLOTS, plan.messages // (2 * len(plan.actions))))
        for place, first in enumerate(range(0, plan.messages, size)):
            # Nothing comes after the last ones that could meet what is left.
            few = 0 if first >= plan.messages * LAST else FEW
            if not few:
                self._hunter.agenda.advance(plan.messages)  # not all are ever accepted
            self._await_few(few)
            numbers = range(first, min(first + size, plan.messages))
            while not self._enqueue(numbers, rings=few == 0 or place % RING_EVERY == 0):
                time.sleep(LOOK_SECONDS)
        self._ended.set()

    def _await_few(self, few: int) -> None:
        """Wait until no more than few actions are due, or what is enqueued cannot meet them."""
        ends = time.monotonic() + LONGEST_WAIT_SECONDS
        quiet_since = time.monotonic()
        while self._hunter.agenda.due > few and time.monotonic() < ends:
            if self._count_waiting() != 0:
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since > (PATIENCE_SECONDS if few else LAST_PATIENCE):
                return
            time.sleep(LOOK_SECONDS)

    def _enqueue(self, numbers: range, *, rings: bool) -> bool:
        """False if the database was away; repeating is safe, since every message has a key."""
        with (
            suppress(psycopg.OperationalError, UnavailableError),
            psycopg.connect(self._url, row_factory=dict_row) as connection,
        ):
            bodies = []
            for number in numbers:
                [identity] = arrange.enqueue(
                    connection,
                    to=[f"reader{number}@example.com"],
                    delivery=self._plan.policy,
                    idempotency_key=f"chaos-{number}",
                )
                self._hunter.know(identity)
                bodies.append(event_id(identity))
            connection.commit()
            for body in bodies if rings else ():
                self._bell.post(body)
            return True
        return False

    def _count_waiting(self) -> int | None:
        """None while the database is away."""
        with suppress(psycopg.OperationalError), psycopg.connect(self._url) as connection:
            row = connection.execute(_WAITING).fetchone()
            return int(row[0]) if row else None
        return None
