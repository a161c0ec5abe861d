"""Accounts over HTTP, for signed callers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postlease import accounts
from tests.integration.messages.conftest import sample

if TYPE_CHECKING:
    import io

    from postlease.database import Connection, Database
    from tests.integration.messages.conftest import Api

ADDRESS = "canary@example.com"
NEW = "canary.new@example.com"


def test_an_address_is_changed(api: Api, database: Database, owner: Connection) -> None:
    user_id = accounts.sign_up(database, email=ADDRESS).user_id
    answer = api.call("PATCH", f"/v1/users/{user_id}", {"email": NEW})
    assert answer.status == 200
    event_id = answer.json["verification"]["event_id"]
    assert answer.json == {"user_id": str(user_id), "verification": {"event_id": event_id}}
    assert api.call("GET", f"/v1/messages/{event_id}").json["template"] == "verify_email"
    again = api.call("PATCH", f"/v1/users/{user_id}", {"email": NEW})
    assert (again.status, again.json["verification"]) == (200, {"event_id": None})
    accounts.sign_up(database, email="other@example.com")
    taken = api.call("PATCH", f"/v1/users/{user_id}", {"email": "other@example.com"})
    assert (taken.status, taken.problem) == (409, "address-taken")
    wrong = api.call("PATCH", f"/v1/users/{user_id}", {"email": "other"})
    assert (wrong.status, wrong.json["errors"][0]["pointer"]) == (422, "#/email")


def test_an_account_is_closed(api: Api, database: Database, owner: Connection) -> None:
    user_id = accounts.sign_up(database, email=ADDRESS).user_id
    answer = api.call("DELETE", f"/v1/users/{user_id}")
    assert (answer.status, answer.text) == (204, "")
    again = api.call("DELETE", f"/v1/users/{user_id}")
    assert (again.status, again.problem) == (404, "user-unknown")


def test_resets_are_revoked(api: Api, database: Database, owner: Connection) -> None:
    user_id = accounts.sign_up(database, email=ADDRESS).user_id
    accounts.request_reset(database, email=ADDRESS)
    answer = api.call("POST", f"/v1/users/{user_id}/revoke-tokens")
    assert (answer.status, answer.json) == (200, {"user_id": str(user_id)})
    [mail] = api.found(template="reset_password")
    assert mail["reason"] == "superseded"


def test_a_user_that_is_not_there_is_a_404_and_a_broken_id_a_400(api: Api) -> None:
    for name in ("messages-user-change", "messages-user-close", "messages-user-revoke"):
        event = sample(name)
        unknown = api.event(event)
        assert (unknown.status, unknown.problem) == (404, "user-unknown")
        malformed = api.event(event | {"rawPath": event["rawPath"].replace("d25264f0-", "x-")})
        assert (malformed.status, malformed.problem) == (400, "invalid-request")
        assert malformed.json["errors"][0]["parameter"] == "id"


def test_logs_name_the_caller_and_no_address(
    api: Api, database: Database, owner: Connection, logs: io.StringIO
) -> None:
    user_id = accounts.sign_up(database, email=ADDRESS).user_id
    api.call("PATCH", f"/v1/users/{user_id}", {"email": NEW})
    api.call("POST", f"/v1/users/{user_id}/revoke-tokens")
    api.call("DELETE", f"/v1/users/{user_id}")
    said = logs.getvalue()
    assert said.count("123456789012:role/support") == 3
    assert "canary" not in said
