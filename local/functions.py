"""A function as its callers see it: workers started on demand, reused when idle."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from local.runtime import FunctionDefinition, Result, ThrottledError, Worker

if TYPE_CHECKING:
    from pathlib import Path

    from local.keeper import Keeper

_DEATHS = {"Sandbox.Timedout": "timeout", "Runtime.ExitError": "error"}
"""The ends of which the function itself can write nothing, and Lambda's status of each."""


class Function:
    """Invokes one function. Its output goes to log, a file that is appended to.

    last_failure names the error that the last invocation ended by; None: it ended well.
    """

    def __init__(self, definition: FunctionDefinition, *, keeper: Keeper, log: Path) -> None:
        self.definition = definition
        self.cold_starts = 0
        self.last_result: Any = None
        self.last_failure: str | None = None
        self.last_started_at: datetime | None = None
        self.last_ended_at: datetime | None = None
        self.last_pid: int | None = None
        self.init_milliseconds: list[float] = []
        self._keeper = keeper
        self._log = log.open("ab", buffering=0)
        self._changed = threading.Condition()
        self._idle: list[Worker] = []
        self._busy: list[Worker] = []
        self._starting = 0
        self._closed = False

    @property
    def name(self) -> str:
        """The name that it is invoked under."""
        return self.definition.name

    def invoke(self, event: Any, *, patience: float = 0) -> Result:
        """Run one event to its end.

        Waits up to patience seconds for a worker, unless the limit is reserved by the template;
        then ThrottledError. What goes wrong inside the function is a Result with an error.
        """
        worker = self._take(patience)
        self.last_started_at = datetime.now(UTC)
        try:
            result = worker.run(json.dumps(event).encode())
        finally:
            self._give_back(worker)
        self.last_ended_at = datetime.now(UTC)
        self.last_result = _readable(result)
        self.last_failure = _failure(result)
        self._report(result)
        return result

    def kill(self) -> list[int]:
        """SIGKILL the workers that are busy right now and return their process ids."""
        with self._changed:
            victims = list(self._busy)
        for worker in victims:
            worker.kill()
        return [worker.pid for worker in victims]

    @property
    def pids(self) -> list[int]:
        """The process ids of all living workers."""
        with self._changed:
            return [worker.pid for worker in (*self._busy, *self._idle) if worker.is_alive]

    @property
    def busy_pids(self) -> list[int]:
        """The process ids of the workers that run an event right now."""
        with self._changed:
            return [worker.pid for worker in self._busy]

    def close(self) -> None:
        """Kill every worker."""
        with self._changed:
            self._closed = True
            workers = [*self._busy, *self._idle]
            self._idle.clear()
            self._changed.notify_all()
        for worker in workers:
            worker.kill()
        self._log.close()

    def _report(self, result: Result) -> None:
        """Write that a worker died, as Lambda's own line does: the dead one wrote nothing."""
        status = _DEATHS.get(self.last_failure or "")
        if status is None:
            return
        request_id = re.search(r"RequestId: ([\w-]+)", str(result.value.get("errorMessage")))
        record = {"status": status, "errorType": self.last_failure}
        if request_id:
            record["requestId"] = request_id[1]
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"time": now, "type": "platform.report", "record": record}
        with contextlib.suppress(ValueError):  # closed meanwhile
            self._log.write(json.dumps(line).encode() + b"\n")

    def _take(self, patience: float) -> Worker:
        deadline = time.monotonic() + (0 if self.definition.reserved else patience)
        with self._changed:
            while True:
                while self._idle and not self._closed:
                    worker = self._idle.pop()
                    if worker.is_alive:
                        self._busy.append(worker)
                        return worker
                if self._closed:
                    raise ThrottledError(self.name)
                if len(self._busy) + self._starting < self.definition.concurrency:
                    self._starting += 1
                    break
                if not self._changed.wait(max(deadline - time.monotonic(), 0)):
                    raise ThrottledError(self.name)
        return self._start()

    def _start(self) -> Worker:
        worker = None
        try:
            worker = Worker(self.definition, self._keeper, self._log)
        finally:
            with self._changed:
                self._starting -= 1
                if worker is not None:
                    self.cold_starts += 1
                    self.last_pid = worker.pid
                    self._busy.append(worker)
        if self._closed:
            worker.kill()
        return worker

    def _give_back(self, worker: Worker) -> None:
        with self._changed:
            self._busy.remove(worker)
            self.last_pid = worker.pid
            if worker.init_milliseconds is not None and not worker.init_recorded:
                worker.init_recorded = True
                self.init_milliseconds.append(round(worker.init_milliseconds, 1))
            if worker.is_alive and not self._closed:
                self._idle.append(worker)
            self._changed.notify()


def _readable(result: Result) -> Any:
    with contextlib.suppress(ValueError):
        return result.value if result.error is None else {"error": result.value}
    return None


def _failure(result: Result) -> str | None:
    """The name of the error that an invocation ended by. None: it ended well."""
    if result.error is None:
        return None
    with contextlib.suppress(ValueError, AttributeError):
        return str(result.value.get("errorType") or result.error)
    return result.error
