"""New auth mail rings, after its commit, once; and what becomes of the answer when it cannot."""

from __future__ import annotations

import json
import secrets
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from local.web import Front, Request, Response, json_response
from postlease import doorbell
from postlease.model import parse_event_id

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterator

    from tests.integration.auth.conftest import Api, World

ADDRESS = "canary.ada@example.com"
BOTH_TIMEOUTS = doorbell.CONNECT_TIMEOUT_SECONDS + doorbell.READ_TIMEOUT_SECONDS
SLACK = 1.0
"""For a loaded machine; the SDK's own timeouts are sixty seconds, its retries four."""


class Bell:
    """The doorbell's queue, as whoever hears it sees it."""

    def __init__(self) -> None:
        self._sqs = boto3.client("sqs")
        self.url = self._sqs.create_queue(QueueName=secrets.token_hex(8))["QueueUrl"]

    def rings(self) -> list[dict[str, Any]]:
        """The messages that came since the last look."""
        found: list[dict[str, Any]] = []
        while True:
            answer = self._sqs.receive_message(
                QueueUrl=self.url,
                MaxNumberOfMessages=10,
                MessageAttributeNames=["All"],
            )
            if not (messages := answer.get("Messages", [])):
                return found
            found += messages

    def bodies(self) -> list[str]:
        """What they say."""
        return [ring["Body"] for ring in self.rings()]

    def end(self) -> None:
        """Take the queue away."""
        self._sqs.delete_queue(QueueUrl=self.url)

    def close(self) -> None:
        """Close the connection."""
        self._sqs.close()


@pytest.fixture
def bell(world: World, environment: Callable[..., None]) -> Iterator[Bell]:
    """A queue, and the function told of it."""
    made = Bell()
    environment(DOORBELL_QUEUE_URL=made.url)
    yield made
    made.close()


class Wire:
    """In the place of SQS: what came in, and what is answered."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answer: Callable[[], Response | None] = lambda: Response(500)
        self._front = Front(self._respond)
        self.url = f"http://{self._front.address}"

    def _respond(self, request: Request) -> Response | None:
        self.requests.append(request)
        return self.answer()

    def close(self) -> None:
        """Cut every connection."""
        self._front.close()


@pytest.fixture
def wire(world: World, environment: Callable[..., None]) -> Iterator[Wire]:
    """A socket that the function takes for SQS."""
    made = Wire()
    environment(DOORBELL_QUEUE_URL=f"{made.url}/123456789012/bell", AWS_ENDPOINT_URL_SQS=made.url)
    yield made
    made.close()


def counted(capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    """The metrics that were written, by name."""
    entries = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return {
        metric["Name"]: sum(entry[metric["Name"]])
        for entry in entries
        for directive in entry.get("_aws", {}).get("CloudWatchMetrics", [])
        for metric in directive["Metrics"]
    }


def sign_up(api: Api, address: str = ADDRESS, **headers: str) -> Any:
    """The body of a sign-up's answer."""
    answer = api.call("POST", "/v1/signups", {"email": address}, **headers)
    assert answer.status == 202
    return answer.json


def test_a_sign_up_rings_once_with_its_event_s_id_and_nothing_else(
    api: Api, bell: Bell, capsys: pytest.CaptureFixture[str]
) -> None:
    event_id = sign_up(api)["verification"]["event_id"]
    [ring] = bell.rings()
    assert ring["Body"] == event_id
    assert "MessageAttributes" not in ring
    assert counted(capsys) == {"DoorbellRung": 1, "DoorbellFailed": 0}


def test_it_rings_after_the_commit_and_holds_no_transaction(
    api: Api, wire: Wire, world: World
) -> None:
    seen: list[tuple[int, int]] = []

    def answer() -> Response:
        [open_now] = world.rows(
            "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database()"
            " AND state LIKE 'idle in transaction%%'"
        )
        seen.append((world.count("email_messages"), open_now["n"]))
        return json_response(200, {"Successful": [], "Failed": []})

    wire.answer = answer
    sign_up(api)
    assert seen == [(1, 0)]


def test_what_was_refused_or_replayed_does_not_ring(api: Api, bell: Bell) -> None:
    sign_up(api, idempotency_key="one")
    assert len(bell.bodies()) == 1
    sign_up(api, idempotency_key="one")
    body = {"email": ADDRESS, "locale": "de"}
    assert api.call("POST", "/v1/signups", body, idempotency_key="one").status == 422
    assert api.call("POST", "/v1/signups", {"email": "nobody"}).status == 422
    assert bell.bodies() == []


def test_a_repeat_inside_the_cooldown_rings_for_the_mail_that_exists(api: Api, bell: Bell) -> None:
    """A lost ring gets a second chance, and the answer takes as long as the first one's."""
    first, second = (sign_up(api)["verification"]["event_id"] for _ in range(2))
    assert first == second
    assert bell.bodies() == [first, second]


def test_a_resend_rings_once_whatever_the_address(api: Api, bell: Bell, world: World) -> None:
    """No oracle: known, unknown, verified, in the cooldown or not, the queue hears one id."""
    sign_up(api, "known@example.com")
    sign_up(api, "verified@example.com")
    world.rows(
        "UPDATE postlease.users SET verified_at = now() WHERE email LIKE 'verified%%' RETURNING id"
    )
    world.end_cooldowns()
    bell.bodies()
    for address in ("known@example.com", "verified@example.com", "unknown@example.com"):
        for _ in range(2):
            body = {"email": address}
            assert api.call("POST", "/v1/verifications/resend", body).status == 202
            [told] = bell.bodies()
            message_id = parse_event_id(told)
            assert message_id is not None
            found = world.rows("SELECT FROM postlease.email_messages WHERE id = %s", message_id)
            assert len(found) == (not address.startswith("unknown"))


def test_without_a_queue_nobody_is_told(
    api: Api, wire: Wire, environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    environment(DOORBELL_QUEUE_URL="")
    sign_up(api)
    assert wire.requests == []
    assert counted(capsys) == {}


def test_a_silent_queue_costs_the_answer_its_timeouts_and_a_metric(
    api: Api, wire: Wire, world: World, logs: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    released = threading.Event()

    def answer() -> None:
        released.wait(20)

    wire.answer = answer
    try:
        sign_up(api)  # makes the clients, which has its own price
        capsys.readouterr()
        logs.truncate(0)
        started = time.monotonic()
        sign_up(api, "another@example.com")
        took = time.monotonic() - started
    finally:
        released.set()
    assert doorbell.READ_TIMEOUT_SECONDS <= took < BOTH_TIMEOUTS + SLACK
    assert len(wire.requests) == 2, "the SDK asked again"
    assert counted(capsys) == {"DoorbellRung": 0, "DoorbellFailed": 1}
    assert '"reason":"ReadTimeoutError"' in logs.getvalue()
    assert "another@" not in logs.getvalue()
    assert world.count("email_messages") == 2


def test_a_queue_that_nobody_reaches_does_not_keep_the_answer_back(
    api: Api, environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """A listener whose backlog is full drops the connection's first packet, as a firewall does."""
    with socket.socket() as listener, socket.socket() as first:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        first.connect(listener.getsockname())
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        environment(DOORBELL_QUEUE_URL=f"{url}/123456789012/bell", AWS_ENDPOINT_URL_SQS=url)
        sign_up(api)
        capsys.readouterr()
        started = time.monotonic()
        sign_up(api, "another@example.com")
        assert time.monotonic() - started < BOTH_TIMEOUTS + SLACK
    assert counted(capsys)["DoorbellFailed"] == 1


def test_a_queue_that_is_gone_is_a_metric_and_no_error(
    api: Api, bell: Bell, logs: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    bell.end()
    sign_up(api)
    assert counted(capsys) == {"DoorbellRung": 0, "DoorbellFailed": 1}
    assert "the doorbell failed" in logs.getvalue()


def test_an_entry_that_the_queue_does_not_take_is_counted(
    api: Api, wire: Wire, logs: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = [{"Id": "0", "Code": "InternalError", "SenderFault": False}]
    wire.answer = lambda: json_response(200, {"Successful": [], "Failed": failed})
    sign_up(api)
    assert counted(capsys) == {"DoorbellRung": 0, "DoorbellFailed": 1}
    assert '"reason":"InternalError"' in logs.getvalue()
