"""The suppression list over HTTP: no address in a URL or an answer, and mail obeys it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from postlease import suppression, tokens
from tests import arrange
from tests.deployed import PEPPER
from tests.integration.messages.conftest import pointers, sample

if TYPE_CHECKING:
    import io

    from postlease.database import Connection
    from tests.integration.messages.conftest import Api

LATER = "2126-03-12T09:30:00+00:00"


def digest(address: str) -> str:
    """The id of an address's entries."""
    return suppression.digest(tokens.pepper(PEPPER), address).hex()


def note(owner: Connection, address: str, reason: str, ends_in: timedelta | None = None) -> None:
    """An entry as an event would have made it."""
    owner.execute(
        "INSERT INTO postlease.suppressions (address_digest, reason, expires_at)"
        " VALUES (%s, %s, now() + %s)",
        [bytes.fromhex(digest(address)), reason, ends_in],
    )


def put(api: Api, **members: Any) -> dict[str, Any]:
    """The entry that an operator made."""
    reply = api.call("PUT", "/v1/suppressions", {"email": "ada@example.com"} | members)
    assert reply.status == 200, reply.text
    entry: dict[str, Any] = reply.json
    return entry


def look_up(api: Api, email: str = "ada@example.com") -> list[dict[str, Any]]:
    """The entries of an address."""
    reply = api.call("POST", "/v1/suppressions/lookup", {"email": email})
    assert reply.status == 200, reply.text
    assert reply.json["id"] == digest(
        "ada@example.com" if email.isascii() else "a@xn--bcher-kva.de"
    )
    found: list[dict[str, Any]] = reply.json["suppressions"]
    return found


def test_an_operator_s_entry_is_made_found_replaced_and_deleted(api: Api) -> None:
    assert look_up(api) == []
    entry = put(api, expires_at=LATER)
    assert (entry["id"], entry["reason"]) == (digest("ada@example.com"), "manual")
    assert entry["expires_at"] == LATER
    assert look_up(api) == [entry]
    assert look_up(api, "ADA@Example.com") == [entry]
    longer = put(api)
    assert longer == entry | {"expires_at": None}
    assert put(api, expires_at=LATER) == entry  # an operator may shorten it again
    path = f"/v1/suppressions/{entry['id']}"
    assert api.call("DELETE", path).status == 204
    assert look_up(api) == []
    assert api.call("DELETE", path).problem == "suppression-unknown"


def test_every_spelling_of_a_domain_is_one_entry(api: Api) -> None:
    put(api, email="a@BÜCHER.de")
    assert len(look_up(api, "a@bücher.de")) == 1


def test_an_entry_that_ended_is_not_listed_and_none_is_made_that_would_have(
    api: Api, owner: Connection
) -> None:
    note(owner, "ada@example.com", "bounce", -timedelta(seconds=1))
    assert look_up(api) == []
    assert api.call("GET", "/v1/suppressions").json["suppressions"] == []
    body = {"email": "ada@example.com", "expires_at": "2026-03-12T09:30:00Z"}
    reply = api.call("PUT", "/v1/suppressions", body)
    assert (reply.status, reply.problem) == (422, "request-refused")
    assert pointers(reply) == ["#/expires_at"]
    assert look_up(api) == []


def test_an_operator_s_entry_leaves_those_of_events_alone_and_one_reason_can_go(
    api: Api, owner: Connection
) -> None:
    note(owner, "ada@example.com", "bounce", timedelta(days=1))
    note(owner, "ada@example.com", "complaint")
    before = look_up(api)
    put(api)
    assert [entry for entry in look_up(api) if entry["reason"] != "manual"] == before
    path = f"/v1/suppressions/{digest('ada@example.com')}"
    assert api.call("DELETE", path, reason="bounce").status == 204
    assert api.call("DELETE", path, reason="bounce").status == 404
    assert [entry["reason"] for entry in look_up(api)] == ["complaint", "manual"]
    assert api.call("DELETE", path).status == 204
    assert look_up(api) == []


def test_no_other_address_s_entry_is_touched(api: Api, owner: Connection) -> None:
    note(owner, "other@example.com", "manual", timedelta(days=1))
    put(api)
    api.call("DELETE", f"/v1/suppressions/{digest('ada@example.com')}")
    [entry] = api.call("GET", "/v1/suppressions").json["suppressions"]
    assert entry["id"] == digest("other@example.com")
    assert entry["expires_at"] is not None


def test_the_list_is_read_in_pages_each_entry_once(api: Api, owner: Connection) -> None:
    for place in range(3):
        for reason in ("bounce", "complaint", "manual"):
            note(owner, f"reader{place}@example.com", reason)
    found, query = [], {"limit": 2}
    for _ in range(5):
        page = api.call("GET", "/v1/suppressions", **query).json
        found += [(entry["id"], entry["reason"]) for entry in page["suppressions"]]
        query["cursor"] = page["cursor"]
    assert query["cursor"] is None
    assert len(found) == 9
    assert found == sorted(set(found))
    reply = api.call("GET", "/v1/suppressions", reason="manual", limit=100)
    assert [entry["reason"] for entry in reply.json["suppressions"]] == ["manual"] * 3
    assert reply.json["cursor"] is None


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("reason", "bored"),
        ("limit", "0"),
        ("limit", "101"),
        ("cursor", ""),
        ("cursor", "x" * 44),
        ("cursor", "\u00fc" * 44),
    ],
)
def test_a_parameter_that_is_not_acceptable_is_named(api: Api, parameter: str, value: str) -> None:
    reply = api.call("GET", "/v1/suppressions", **{parameter: value})
    assert (reply.status, reply.problem) == (422, "invalid-field")
    assert reply.json["errors"][0]["parameter"] == parameter


@pytest.mark.parametrize("given", ["ada@example.com", "0" * 63, "0" * 65, "A" * 64, "g" * 64])
def test_an_id_that_is_no_digest_is_a_400(api: Api, given: str) -> None:
    reply = api.call("DELETE", f"/v1/suppressions/{given}")
    assert (reply.status, reply.problem) == (400, "invalid-request")
    assert reply.json["errors"][0]["parameter"] == "id"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"email": "nobody"}, "#/email"),
        ({"email": 7}, "#/email"),
        ({"email": ["ada@example.com"]}, "#/email"),
        ({}, "#/email"),
        ({"email": "ada@example.com", "expires_at": "never"}, "#/expires_at"),
        ({"email": "ada@example.com", "expires_at": 7}, "#/expires_at"),
    ],
)
def test_a_member_that_is_not_acceptable_is_named(api: Api, body: object, pointer: str) -> None:
    reply = api.call("PUT", "/v1/suppressions", body)
    assert (reply.status, reply.problem) == (422, "invalid-field")
    assert pointers(reply) == [pointer]


def test_no_answer_and_no_log_holds_an_address(
    api: Api, owner: Connection, logs: io.StringIO
) -> None:
    texts = [
        api.call("PUT", "/v1/suppressions", {"email": "ada@example.com"}).text,
        api.call("POST", "/v1/suppressions/lookup", {"email": "ada@example.com"}).text,
        api.call("GET", "/v1/suppressions").text,
    ]
    api.call("DELETE", f"/v1/suppressions/{digest('ada@example.com')}")
    assert not [text for text in (*texts, logs.getvalue()) if "@" in text or "ada" in text]
    assert logs.getvalue().count(api.principal) == 4


def test_the_samples_are_served(api: Api, owner: Connection) -> None:
    assert api.event(sample("messages-suppress")).status == 200
    assert len(api.event(sample("messages-suppressions")).json["suppressions"]) == 1
    assert len(api.event(sample("messages-suppressions-lookup")).json["suppressions"]) == 1
    assert api.event(sample("messages-suppression-delete")).status == 404


@pytest.mark.parametrize("ends", [None, LATER])
def test_an_operator_s_entry_stops_mail_at_the_last_look(
    api: Api, owner: Connection, application: Connection, ends: str | None
) -> None:
    """The digest that the route writes is the one that delivery asks for."""
    from postlease.outbox import Addressee  # noqa: PLC0415

    [stopped, sent] = arrange.enqueue(owner, 2)
    addressed = bytes.fromhex(digest("reader0@example.com"))
    claimed = {one.claim.message_id: one.claim for one in arrange.claim(application, 2)}
    put(api, email="Reader0@EXAMPLE.com", expires_at=ends)
    other = bytes.fromhex(digest("reader1@example.com"))
    verdicts = arrange.authorize(
        application, claimed[stopped], addressees=(Addressee(addressed, is_to=True),)
    ) | arrange.authorize(application, claimed[sent], addressees=(Addressee(other, is_to=True),))
    assert (verdicts[stopped].word, verdicts[sent].word) == ("suppressed", "go")
    assert arrange.row(owner, stopped)["failure_reason"] == "suppressed"
