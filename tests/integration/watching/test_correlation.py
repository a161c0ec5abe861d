"""From an HTTP request to the call of the provider, and on to its event, by one event id."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from postlease.model import parse_event_id
from tests.integration.feedback.conftest import told
from tests.integration.watching.conftest import EVENTS

if TYPE_CHECKING:
    import io
    from collections.abc import Callable

    from postlease.database import Connection
    from tests.integration.watching.conftest import Sweeps, World

ADDRESS = "ada@example.com"
REQUEST = "JKJaXmPLvHcESHA="


def asked(sample: str, **body: Any) -> dict[str, Any]:
    """A sample request with another body and the id that is looked for."""
    event: dict[str, Any] = json.loads((EVENTS / f"{sample}.json").read_text("utf-8"))
    event["requestContext"]["requestId"] = REQUEST
    return event | ({"body": json.dumps(body)} if body else {})


def lines(logs: io.StringIO, **wanted: str) -> list[dict[str, Any]]:
    """The lines so far that say all that is wanted."""
    said = [json.loads(line) for line in logs.getvalue().splitlines()]
    return [line for line in said if wanted.items() <= line.items()]


@pytest.mark.parametrize(
    ("function", "sample", "body"),
    [
        ("auth", "auth-signup", {"email": ADDRESS}),
        ("auth", "auth-verification-resend", {"email": ADDRESS}),
        ("auth", "auth-password-reset", {"email": ADDRESS}),
        ("messages", "messages-send", {}),
        ("messages", "messages-user-change", {"email": "other@example.com"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_one_event_id_leads_from_a_request_to_the_provider_s_call_and_its_event(
    run: Callable[..., str],
    world: World,
    sweeps: Sweeps,
    environment: Callable[..., None],
    logs: io.StringIO,
    function: str,
    sample: str,
    body: dict[str, Any],
) -> None:
    environment(RESET_URL="https://app.example.com/reset", SES_CONFIGURATION_SET="postlease")
    event = asked(sample, **body)
    if sample not in {"auth-signup", "messages-send"}:
        user_id = sign_up_before(run, world, logs)
        if sample == "messages-user-change":
            event["rawPath"] = event["requestContext"]["http"]["path"] = f"/v1/users/{user_id}"
    run(function, event)
    [request] = lines(logs, correlation_id=REQUEST)
    run("sweep")
    [attempt] = lines(logs, event_id=request["event_id"], outcome="accepted")
    mails = {mail["provider_message_id"]: mail for mail in sweeps.inbox()}
    mail = mails[attempt["provider_message_id"]]
    assert dict(mail["headers"])["X-Postlease-Id"] == request["event_id"]
    message_id = parse_event_id(request["event_id"])
    assert message_id
    delivered = told(
        "Delivery",
        message_id=message_id,
        attempt=attempt["attempt"],
        provider_message_id=attempt["provider_message_id"],
    )
    run("feedback", {"Records": [{"messageId": "m", "body": json.dumps(delivered)}]})
    [noted] = lines(logs, event_id=request["event_id"], kind="Delivery")
    assert noted["provider_message_id"] == attempt["provider_message_id"]


def sign_up_before(run: Callable[..., str], world: World, logs: io.StringIO) -> str:
    """Somebody has an account and its mail, long ago; nothing of it is left in the logs."""
    run("auth", asked("auth-signup", email=ADDRESS))
    run("sweep")
    world.end_cooldowns()
    logs.truncate(0)
    logs.seek(0)
    [user] = world.rows("SELECT id FROM postlease.users")
    return str(user["id"])


def test_a_request_about_nobody_names_an_event_that_is_none(
    run: Callable[..., str], world: World, owner: Connection, logs: io.StringIO
) -> None:
    """Its line is made as any other: a shorter way would show in the time of the answer."""
    run("auth", asked("auth-verification-resend", email="nobody@example.com"))
    [request] = lines(logs, correlation_id=REQUEST)
    message_id = parse_event_id(request["event_id"])
    assert owner.execute(
        "SELECT count(*) AS n FROM postlease.email_messages WHERE id = %s", [message_id]
    ).fetchone() == {"n": 0}
