"""The commands against a server that answers what a test says, and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from ops import cli

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PROBLEM = "urn:postlease:problem:"
EVENT = "evt_01M8MAWE46EPBBT1MHDSY4Q8D4"
OTHER = "evt_01M8MN044RFW39WHZN1KYFSJ69"


@dataclass(frozen=True)
class Asked:
    """One request that came."""

    method: str
    target: str
    headers: dict[str, str] = field(repr=False)
    body: bytes = b""

    @property
    def json(self) -> Any:
        """The body's value."""
        return json.loads(self.body)


class Double:
    """Answers by method and path, the last answer of several again and again."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._answers: dict[str, list[tuple[int, bytes]]] = {}
        double = self

        class Answering(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                names = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked(self.command, self.path, names, self.rfile.read(length))
                double.asked.append(asked)
                key = f"{self.command} {self.path.partition('?')[0]}"
                answers = double._answers.get(key) or [(404, b'{"message": "Not Found"}')]
                status, body = answers.pop(0) if len(answers) > 1 else answers[0]
                if status == 0:  # the connection ends without an answer
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def say(self, request: str, *answers: Any, status: int = 200) -> None:
        """Answer request (`GET /v1/stats`) so from now on; bytes as they are."""
        self._answers[request] = [
            (status, one if isinstance(one, bytes) else json.dumps(one).encode())
            for one in answers or (b"",)
        ]

    def refuse(self, request: str, status: int, slug: str, **members: Any) -> None:
        """Answer request with a problem."""
        problem = {"type": f"{PROBLEM}{slug}", "status": status, "detail": f"because of {slug}"}
        self.say(request, problem | members, status=status)

    @property
    def told(self) -> list[str]:
        """Method and path of all requests."""
        return [f"{one.method} {one.target}" for one in self.asked]


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed."""
        return json.loads(self.out)


@pytest.fixture
def double() -> Iterator[Double]:
    """The API's double."""
    found = Double()
    thread = threading.Thread(target=found.server.serve_forever, args=(0.01,))
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An environment in which nothing of AWS is set, and nobody to ask."""
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE", "REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    for name in ("DEFAULT_REGION", "DEFAULT_PROFILE", "ENDPOINT_URL", "ENDPOINT_URL_EXECUTE_API"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.delenv("PORT", raising=False)
    return monkeypatch


@pytest.fixture
def run(bare: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Runs a command line; stdin is what is piped into it."""
    import io  # noqa: PLC0415
    import sys  # noqa: PLC0415

    def run_one(*arguments: str, stdin: str = "") -> Result:
        bare.setattr(sys, "stdin", io.StringIO(stdin))
        status = cli.run(arguments)
        said = capsys.readouterr()
        return Result(status, said.out, said.err)

    return run_one


@pytest.fixture
def ops(run: Callable[..., Result], double: Double) -> Callable[..., Result]:
    """Runs a command line against the double."""

    def run_there(*arguments: str, stdin: str = "") -> Result:
        return run("--local", "--endpoint", double.url, *arguments, stdin=stdin)

    return run_there


def message(**members: Any) -> dict[str, Any]:
    """A message in full, as the API tells it."""
    found: dict[str, Any] = {
        "event_id": EVENT,
        "template": "receipt",
        "locale": "en",
        "status": "pending",
        "reason": None,
        "unknown": False,
        "priority": 50,
        "delivery": "at_least_once",
        "attempt_count": 0,
        "counted_attempts": 0,
        "retry_count": 0,
        "provider": None,
        "provider_message_id": None,
        "to": ["a***@example.com"],
        "cc": [],
        "bcc": [],
        "created_at": "2026-03-12T10:00:00.000000+01:00",
        "available_at": "2026-03-12T09:00:00+00:00",
        "expires_at": None,
        "lease_expires_at": None,
        "sent_at": None,
        "finished_at": None,
        "from": None,
        "reply_to": None,
        "tags": {},
        "cancel_scope": None,
        "attachments": [],
        "max_attempts": None,
        "template_version": None,
        "redacted_at": None,
        "claim": None,
        "attempts": [],
    }
    return found | members


def attempt(number: int, outcome: str, **members: Any) -> dict[str, Any]:
    """One ended claim, as the API tells it."""
    found: dict[str, Any] = {
        "attempt": number,
        "owner": f"worker#{number}",
        "claimed_at": f"2026-03-12T09:0{number}:00+00:00",
        "lease_expires_at": f"2026-03-12T09:0{number}:45+00:00",
        "dispatched_at": f"2026-03-12T09:0{number}:01+00:00",
        "ended_at": f"2026-03-12T09:0{number}:02+00:00",
        "outcome": outcome,
        "code": None,
        "provider": "ses",
        "provider_message_id": None,
        "refunded": False,
    }
    return found | members


def gate(**members: Any) -> dict[str, Any]:
    """The gate of SES, as the API tells it."""
    found: dict[str, Any] = {
        "provider": "ses",
        "in_use": True,
        "state": "open",
        "reason": None,
        "closed_at": None,
        "closed_by": None,
        "next_probe_at": None,
        "failures_in_a_row": 0,
        "limit_per_second": None,
        "rate_per_second": None,
        "accepted_at": None,
        "ruled_at": None,
        "ruled_by": None,
        "ruled_because": None,
    }
    return found | members
