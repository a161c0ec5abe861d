"""The gates over HTTP: what they are, and who paused or opened them, and why."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from postlease import gate, outbox
from postlease.model import Blocked, event_id
from tests import arrange
from tests.integration.messages.conftest import pointers, sample

if TYPE_CHECKING:
    import io

    from postlease.database import Connection
    from tests.integration.messages.conftest import Api

OPEN: dict[str, Any] = {
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


def rule(api: Api, state: str, reason: str = "wrong template") -> dict[str, Any]:
    """The gate of SES after an operator's word."""
    reply = api.call("PUT", "/v1/gates/ses", {"state": state, "reason": reason})
    assert reply.status == 200, reply.text
    found: dict[str, Any] = reply.json
    return found


def test_the_gates_of_all_providers_are_told_and_which_is_in_use(api: Api) -> None:
    reply = api.call("GET", "/v1/gates")
    assert reply.json == {
        "gates": [
            OPEN,
            OPEN | {"provider": "smtp", "in_use": False},
            OPEN | {"provider": "resend", "in_use": False},
        ]
    }
    assert api.event(sample("messages-gate")).json == OPEN


def test_a_gate_that_an_answer_closed_tells_why_by_which_mail_and_when_it_is_probed(
    api: Api, owner: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    gate.note(owner, "ses", message_id, Blocked("sending_paused"), age=timedelta(0))
    found = api.call("GET", "/v1/gates/ses").json
    assert (found["state"], found["reason"]) == ("closed", "sending_paused")
    assert found["closed_by"] == event_id(message_id)
    assert found["next_probe_at"] > found["closed_at"]


def test_an_operator_pauses_and_opens_a_gate_and_who_said_so_is_kept(
    api: Api, owner: Connection, logs: io.StringIO
) -> None:
    reply = api.event(sample("messages-gate-rule"))
    paused = reply.json
    assert (reply.status, paused["state"], paused["reason"]) == (200, "paused", "operator")
    assert (paused["ruled_by"], paused["ruled_because"], paused["next_probe_at"]) == (
        api.principal,
        "wrong template went out",
        None,
    )
    arrange.enqueue(owner)
    assert arrange.claim(owner) == []
    opened = rule(api.by("lead"), "open", "mended ")
    assert opened == OPEN | {
        "ruled_at": opened["ruled_at"],
        "ruled_by": "123456789012:role/lead",
        "ruled_because": "mended",
    }
    assert len(arrange.claim(owner)) == 1
    assert '"gate":"paused"' in logs.getvalue().replace(" ", "")
    assert "wrong template" not in logs.getvalue()


@pytest.mark.parametrize(
    "reason",
    [
        *("", " ", "\n", "ask ada@example.com", "a\tb", "x" * 201),
        *("a\u2028b", "a\x85b", "\u202etxt", "a\u200bb", "\ufeffa", "a\x9b2J", "a\u2066b"),
    ],
)
def test_a_reason_is_one_line_that_holds_no_address(api: Api, reason: str) -> None:
    reply = api.call("PUT", "/v1/gates/ses", {"state": "paused", "reason": reason})
    assert (reply.status, pointers(reply)) == (422, ["#/reason"])
    assert api.call("GET", "/v1/gates/ses").json == OPEN


def test_a_state_that_no_operator_can_say_is_refused(api: Api) -> None:
    reply = api.call("PUT", "/v1/gates/ses", {"state": "closed", "reason": "so"})
    assert (reply.status, pointers(reply)) == (422, ["#/state"])


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_provider_that_there_is_no_adapter_for_has_no_gate(api: Api, method: str) -> None:
    body = {"state": "paused", "reason": "so"} if method == "PUT" else None
    reply = api.call(method, "/v1/gates/pigeon", body)
    assert (reply.status, reply.problem) == (400, "invalid-request")


def test_a_message_shows_the_claim_that_has_not_ended(api: Api, owner: Connection) -> None:
    [message_id] = arrange.enqueue(owner)
    path = f"/v1/messages/{event_id(message_id)}"
    assert api.call("GET", path).json["claim"] is None
    [claimed] = arrange.claim(owner)
    shown = api.call("GET", path).json["claim"]
    assert (shown["attempt"], shown["owner"]) == (1, claimed.claim.owner)
    assert shown["claimed_at"] < shown["lease_expires_at"]
    assert (shown["dispatched_at"], shown["provider"]) == (None, None)
    assert outbox.find(owner, message_id) is not None
