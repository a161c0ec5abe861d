"""A Lambda host: worker processes under the real runtime client, and the Runtime API that it calls.

Each worker has a loopback port of its own. What a function does to itself (a timeout, an exit, an
import error, kill -9) shows as it does on Lambda. Events and routes do not belong here.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from local.web import Front, Request, Response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from local.keeper import Keeper

ACCOUNT = "123456789012"
REGION = "us-east-1"
PAYLOAD_LIMIT = 6 * 1024 * 1024
INIT_SECONDS = 60
"""Lambda gives 10 s, on a machine that starts nothing else at the same time."""

_RUNTIME = "/2018-06-01/runtime"
_INHERITED = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


class ThrottledError(Exception):
    """Every allowed worker of the function is busy."""


@dataclass(frozen=True, slots=True)
class FunctionDefinition:
    """What a function is started with. timeout in seconds; concurrency is its most processes.

    reserved: the limit is the template's own, so a call beyond it is throttled at once; otherwise
    it is only this machine's, and calls wait their turn. python is the interpreter.
    """

    name: str
    root: Path
    handler: str
    search_path: tuple[Path, ...]
    environment: Mapping[str, str]
    timeout: float
    memory: int
    concurrency: int
    reserved: bool = False
    python: Path = Path(sys.executable)


@dataclass(frozen=True, slots=True)
class Result:
    """What an invocation came to. error is the word of `X-Amz-Function-Error`, or None."""

    payload: bytes = field(repr=False)
    error: str | None = None

    @property
    def value(self) -> Any:
        """The payload as JSON."""
        return json.loads(self.payload or b"null")


def failure(kind: str, text: str) -> Result:
    """A result in the shape that Lambda gives its own errors."""
    body = {"errorType": kind, "errorMessage": text}
    return Result(json.dumps(body).encode(), "Unhandled")


class _Invocation:
    """One event on its way through a worker; the first end that is written counts."""

    def __init__(self, event: bytes) -> None:
        self.id = str(uuid.uuid4())
        self.event = event
        self.ended = threading.Event()
        self._result: Result | None = None
        self._lock = threading.Lock()

    def end(self, result: Result) -> None:
        with self._lock:
            if self._result is None:
                self._result = result
        self.ended.set()

    @property
    def result(self) -> Result:
        if self._result is None:
            raise RuntimeError("the invocation has not ended")
        return self._result


class Worker:
    """One process of a function and the Runtime API that it talks to."""

    def __init__(self, definition: FunctionDefinition, keeper: Keeper, log: BinaryIO) -> None:
        self._definition = definition
        self._keeper = keeper
        self._events: queue.SimpleQueue[_Invocation | None] = queue.SimpleQueue()
        self._current: _Invocation | None = None
        self._init_error: bytes | None = None
        self.init_milliseconds: float | None = None
        self.init_recorded = False
        self.ready = threading.Event()
        self._exited = threading.Event()
        self._started = time.monotonic()
        self._front = Front(self._respond, body_limit=2 * PAYLOAD_LIMIT)
        self._child = subprocess.Popen(
            [definition.python, "-m", "awslambdaric", definition.handler],
            cwd=definition.root,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for the stack, which then ends its workers
        )
        self._keeper.end_child(self._child.pid)
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._child.poll() is None

    def run(self, event: bytes) -> Result:
        """Give the process one event and wait for its end; after a timeout the process is dead."""
        invocation = self._current = _Invocation(event)
        self._events.put(invocation)
        if self._exited.is_set():  # it died idle, and its watch may have ended before this event
            invocation.end(self._exit_result(invocation))
        if not self.ready.wait(INIT_SECONDS):
            invocation.end(failure("Sandbox.Timedout", f"Init timed out after {INIT_SECONDS} s"))
            self.kill()
        elif not invocation.ended.wait(self._definition.timeout):
            text = f"Task timed out after {self._definition.timeout:.2f} seconds"
            invocation.end(failure("Sandbox.Timedout", f"RequestId: {invocation.id} Error: {text}"))
            self.kill()
        return invocation.result

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        with contextlib.suppress(ProcessLookupError):
            self._child.kill()
        self._child.wait()

    def _watch(self) -> None:
        self._child.wait()
        self._keeper.forget_child(self._child.pid)
        self._exited.set()
        if self._current is not None:
            self._current.end(self._exit_result(self._current))
        self.ready.set()
        self._events.put(None)
        self._front.close()

    def _exit_result(self, invocation: _Invocation) -> Result:
        if self._init_error is not None:
            return Result(self._init_error, "Unhandled")
        status = self._child.wait()
        how = f"exit status {status}"
        if status < 0:
            how = f"error: signal: {(signal.strsignal(-status) or str(-status)).lower()}"
        text = f"RequestId: {invocation.id} Error: Runtime exited with {how}"
        return failure("Runtime.ExitError", text)

    def _environment(self) -> dict[str, str]:
        """Nothing of the developer's own: no AWS login, no HOME that could hold one."""
        definition = self._definition
        path = (definition.root, *definition.search_path)
        return {
            **{name: os.environ[name] for name in _INHERITED if name in os.environ},
            "HOME": "/nonexistent",
            "TZ": ":UTC",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_EXECUTION_ENV": f"AWS_Lambda_python{sys.version_info[0]}.{sys.version_info[1]}",
            "AWS_LAMBDA_RUNTIME_API": self._front.address,
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_LAMBDA_FUNCTION_NAME": definition.name,
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(definition.memory),
            "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{definition.name}",
            "AWS_LAMBDA_LOG_STREAM_NAME": uuid.uuid4().hex,
            "LAMBDA_TASK_ROOT": str(definition.root),
            "_HANDLER": definition.handler,
            "PYTHONNOUSERSITE": "1",
            **definition.environment,
            "PYTHONPATH": os.pathsep.join(str(folder) for folder in path),
        }

    def _respond(self, request: Request) -> Response | None:
        match request.method, request.path.removeprefix(_RUNTIME).split("/"):
            case "GET", ["", "invocation", "next"]:
                return self._next()
            case "POST", ["", "init", "error"]:
                self._init_error = request.body
                return Response(202)
            case "POST", ["", "invocation", invocation_id, ("response" | "error") as kind]:
                return self._end(invocation_id, kind, request.body)
        return Response(404)

    def _next(self) -> Response | None:
        if self.init_milliseconds is None:
            self.init_milliseconds = (time.monotonic() - self._started) * 1000
        self.ready.set()
        invocation = self._events.get()
        if invocation is None:
            return None
        deadline = int((time.time() + self._definition.timeout) * 1000)
        arn = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{self._definition.name}"
        headers = (
            ("content-type", "application/json"),
            ("Lambda-Runtime-Aws-Request-Id", invocation.id),
            ("Lambda-Runtime-Deadline-Ms", str(deadline)),
            ("Lambda-Runtime-Invoked-Function-Arn", arn),
        )
        return Response(200, invocation.event, headers)

    def _end(self, invocation_id: str, kind: str, body: bytes) -> Response:
        invocation = self._current
        if invocation is None or invocation.id != invocation_id:
            return Response(400)
        if len(body) > PAYLOAD_LIMIT:
            text = f"Response payload size exceeded maximum allowed size ({PAYLOAD_LIMIT} bytes)."
            invocation.end(failure("Function.ResponseSizeTooLarge", text))
        else:
            invocation.end(Result(body, "Unhandled" if kind == "error" else None))
        return Response(202)
