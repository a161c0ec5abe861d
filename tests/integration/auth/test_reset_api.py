"""Password resets over HTTP: asked for at the public function, redeemed at the one for services."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.auth.conftest import EVENTS, Api, Reply

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integration.auth.conftest import World

ADDRESS = "canary.ada@example.com"
RESETS = "/v1/password-resets"


@pytest.fixture(autouse=True)
def resets(environment: Callable[..., None]) -> None:
    """Resets are on."""
    environment(RESET_URL="https://app.example.com/new-password")


class Services:
    """Calls the function for signed callers with its sample of a redemption."""

    def __init__(self, world: World) -> None:
        from functions.messages import app  # noqa: PLC0415  its import reads the environment

        self._app: Any = app
        self._event = json.loads((EVENTS / "messages-reset-redeem.json").read_text())
        del world

    def redeem(self, token: str, key: str | None = None) -> Reply:
        """The answer to one redemption."""
        headers = {"content-type": "application/json"} | ({"idempotency-key": key} if key else {})
        event = self._event | {"body": json.dumps({"token": token}), "headers": headers}
        answer = self._app.handler(event, SimpleNamespace())
        return Reply(answer["statusCode"], answer["headers"], answer["body"])


@pytest.fixture
def services(world: World) -> Services:
    """The function for signed callers."""
    return Services(world)


def test_the_flow_from_the_request_to_the_right_to_set_a_password(
    api: Api, services: Services, world: World
) -> None:
    user_id = api.call("POST", "/v1/signups", {"email": ADDRESS}).json["user_id"]
    asked = api.call("POST", RESETS, {"email": ADDRESS})
    assert (asked.status, asked.json) == (202, {"status": "accepted"})
    [token] = world.tokens_of(ADDRESS, "reset_password")
    first = services.redeem(token, "k-1")
    assert (first.status, first.json) == (200, {"user_id": user_id})
    assert "idempotent-replayed" not in first.headers
    again = services.redeem(token, '"k-1"')
    assert (again.status, again.text) == (200, first.text)
    assert again.headers["idempotent-replayed"] == "true"
    for key in (None, "k-2"):
        used = services.redeem(token, key)
        assert (used.status, used.problem) == (410, "token-used")


def test_every_address_is_answered_alike(api: Api, world: World) -> None:
    for name in ("known", "verified"):
        api.call("POST", "/v1/signups", {"email": f"{name}@example.com"})
    api.call("POST", "/v1/verifications", {"token": world.tokens_of("verified@example.com")[0]})
    answers = [
        api.call("POST", RESETS, {"email": f"{name}@example.com"})
        for _ in ("outside", "inside")
        for name in ("known", "unknown", "verified")
    ]
    assert len({(a.status, a.text, json.dumps(a.headers)) for a in answers}) == 1


@pytest.mark.parametrize("fault", ["the queue is gone", "the template is broken"])
def test_a_fault_behind_the_answer_looks_the_same_for_every_address(
    api: Api, environment: Callable[..., None], world: World, tmp_path: Path, fault: str
) -> None:
    """RST-06: what fails later is retried from the outbox, and no answer tells of it."""
    api.call("POST", "/v1/signups", {"email": "known@example.com"})
    if fault == "the queue is gone":
        nowhere = "http://127.0.0.1:9"
        environment(DOORBELL_QUEUE_URL=f"{nowhere}/1/bell", AWS_ENDPOINT_URL_SQS=nowhere)
    else:
        broken = tmp_path / "reset_password" / "en"
        broken.mkdir(parents=True)
        (broken / "body.txt.j2").write_text("{{")
        environment(TEMPLATES_DIRECTORY=str(tmp_path))
    answers = [
        api.call("POST", RESETS, {"email": f"{name}@example.com"}) for name in ("known", "unknown")
    ]
    assert {(a.status, a.text, json.dumps(a.headers)) for a in answers} == {
        (202, '{"status": "accepted"}', json.dumps(answers[0].headers))
    }
    [mail] = world.rows(
        "SELECT status FROM postlease.email_messages WHERE template = 'reset_password'"
    )
    assert mail["status"] == "pending"


def test_a_stale_reset_says_why(api: Api, services: Services, world: World) -> None:
    api.call("POST", "/v1/signups", {"email": ADDRESS})
    api.call("POST", RESETS, {"email": ADDRESS})
    world.end_cooldowns()
    api.call("POST", RESETS, {"email": ADDRESS})
    older, newer = world.tokens_of(ADDRESS, "reset_password")
    assert services.redeem(older).problem == "token-superseded"
    world.owner.execute(
        "UPDATE postlease.verification_tokens"
        " SET created_at = now() - interval '2 days', expires_at = now() - interval '1 second'"
    )
    assert services.redeem(newer).problem == "token-expired"
    assert services.redeem("A" * 64).problem == "token-invalid"
    assert (services.redeem("x").status, services.redeem("x").problem) == (400, "token-invalid")


def test_without_a_page_for_it_there_are_no_resets(
    api: Api, environment: Callable[..., None], world: World
) -> None:
    environment(RESET_URL="")
    answer = api.call("POST", RESETS, {"email": ADDRESS})
    assert (answer.status, answer.problem) == (404, "not-found")
    assert world.count("rate_limits") == 0


def test_the_sample_is_answered(api: Api) -> None:
    assert api.event(json.loads((EVENTS / "auth-password-reset.json").read_text())).status == 202


def test_logs_name_the_caller_and_no_address_and_no_token(
    api: Api, services: Services, world: World, logs: Any
) -> None:
    api.call("POST", "/v1/signups", {"email": ADDRESS})
    api.call("POST", RESETS, {"email": ADDRESS})
    [token] = world.tokens_of(ADDRESS, "reset_password")
    services.redeem(token, "key")
    said = logs.getvalue()
    assert "123456789012:role/support" in said
    assert "canary" not in said
    assert token not in said
