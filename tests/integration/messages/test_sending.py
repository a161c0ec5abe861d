"""Mail asked for over HTTP: what is taken, what is refused and where, and that it is not stored."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from postlease.model import parse_event_id
from tests import arrange
from tests.integration.messages.conftest import RECEIPT, batch, number, pointers, sample, send

if TYPE_CHECKING:
    import io
    from collections.abc import Callable
    from pathlib import Path

    from postlease.database import Connection
    from tests.integration.messages.conftest import Api, Reply


def stored(owner: Connection, reply: Reply) -> dict[str, Any]:
    """The row behind an answer."""
    assert reply.status == 202, reply.text
    message_id = parse_event_id(reply.json["event_id"])
    assert message_id
    return arrange.row(owner, message_id)


def test_all_that_a_message_can_say_is_stored_as_it_was_said(api: Api, owner: Connection) -> None:
    row = stored(
        owner,
        send(
            api,
            to=["Ada@EXAMPLE.com", {"email": "grace@bücher.example", "name": "Grace Hopper"}],
            cc=[{"email": "alan@example.com"}],
            bcc=["hidden@example.org"],
            locale="de",
            priority=100,
            delivery="at_most_once",
            send_at="2126-03-12T09:30:00+01:00",
            expires_at="2126-03-13T09:30:00Z",
            idempotency_key="receipt-A-1",
            cancel_scope="order A-1",
            **{"from": {"email": "NoReply@example.com", "name": 'The "Shop"'}},
            reply_to="help@example.com",
            tags={"kind": "receipt"},
        ),
    )
    assert row["to_addresses"] == ["Ada@example.com", "grace@xn--bcher-kva.example"]
    assert row["recipient_names"] == {"grace@xn--bcher-kva.example": "Grace Hopper"}
    assert (row["cc_addresses"], row["bcc_addresses"]) == (
        ["alan@example.com"],
        ["hidden@example.org"],
    )
    assert (row["locale"], row["priority"], row["delivery"]) == ("de", 100, "at_most_once")
    assert row["available_at"].isoformat() == "2126-03-12T08:30:00+00:00"
    assert row["expires_at"].isoformat() == "2126-03-13T09:30:00+00:00"
    assert (row["idempotency_key"], row["cancel_scope"]) == ("receipt-A-1", "order A-1")
    assert row["from_address"] == '"The "Shop"" <NoReply@example.com>'
    assert (row["reply_to"], row["tags"]) == ("help@example.com", {"kind": "receipt"})
    assert row["parameters"] == RECEIPT["parameters"]
    assert row["producer"] == "123456789012:role/support"


def test_what_is_not_said_is_the_same_as_null(api: Api, owner: Connection) -> None:
    optional = (
        *("cc", "bcc", "locale", "priority", "delivery", "send_at", "expires_at"),
        *("idempotency_key", "cancel_scope", "from", "reply_to", "tags", "attachments"),
    )
    rows = [
        stored(owner, send(api)),
        stored(owner, send(api, **dict.fromkeys(optional))),
        stored(owner, send(api, to=[{"email": "ada@example.com", "name": None}])),
        stored(owner, send(api, to=[{"email": "ada@example.com", "name": "  "}])),
    ]
    own = {"id", "created_at", "available_at"}
    first, *others = [{name: row[name] for name in row if name not in own} for row in rows]
    assert others == [first] * 3
    assert (first["priority"], first["delivery"]) == (50, "at_least_once")


def test_a_batch_is_taken_whole_and_answered_in_its_order(api: Api, owner: Connection) -> None:
    reply = batch(api, *({"to": [f"reader{place}@example.com"]} for place in range(100)))
    assert reply.status == 202
    ids = [parse_event_id(one["event_id"]) for one in reply.json["messages"]]
    rows = owner.execute("SELECT id, to_addresses FROM postlease.email_messages").fetchall()
    found = {row["id"]: row["to_addresses"] for row in rows}
    assert [found[one] for one in ids if one] == [[f"reader{n}@example.com"] for n in range(100)]


@pytest.mark.parametrize("messages", [[], [RECEIPT] * 101, None, RECEIPT, [None]])
def test_a_batch_is_one_to_a_hundred_messages(api: Api, owner: Connection, messages: Any) -> None:
    reply = api.call("POST", "/v1/messages/batch", {"messages": messages})
    assert (reply.status, reply.problem) == (422, "invalid-field")
    assert pointers(reply) == ["#/messages/0" if messages == [None] else "#/messages"]
    assert number(owner) == 0


def test_one_refused_message_refuses_its_batch_and_all_faults_are_told(
    api: Api, owner: Connection
) -> None:
    reply = batch(
        api,
        {},
        {"to": ["not an address"]},
        {"template": "no_such"},
        {"parameters": {}},
        {"to": ["a@example.com", "b@example.com", "A@Example.Com"]},
    )
    assert (reply.status, reply.problem) == (422, "invalid-field")
    assert pointers(reply) == [
        "#/messages/1/to/0",
        "#/messages/2/template",
        "#/messages/3/parameters/order_number",
        "#/messages/3/parameters/total",
        "#/messages/4/to/2",
    ]
    assert number(owner) == 0


def test_of_very_many_faults_the_first_twenty_are_told(api: Api, owner: Connection) -> None:
    reply = batch(api, *({"to": ["nobody"]} for _ in range(100)))
    assert pointers(reply) == [f"#/messages/{place}/to/0" for place in range(20)]
    assert number(owner) == 0


SHAPES: list[tuple[dict[str, Any], str]] = [
    ({"to": None}, "#/to"),
    ({"to": "ada@example.com"}, "#/to"),
    ({"to": []}, "#/to"),
    ({"to": [7]}, "#/to/0"),
    ({"to": [["ada@example.com"]]}, "#/to/0"),
    ({"to": [{"name": "Ada"}]}, "#/to/0/email"),
    ({"to": [{"email": 7}]}, "#/to/0/email"),
    ({"to": [{"email": "ada@example.com", "name": 7}]}, "#/to/0/name"),
    ({"to": [{"email": "ada@example.com", "name": "x" * 101}]}, "#/to/0/name"),
    ({"cc": {}}, "#/cc"),
    ({"parameters": []}, "#/parameters"),
    ({"parameters": "{}"}, "#/parameters"),
    ({"locale": "x"}, "#/locale"),
    ({"locale": 7}, "#/locale"),
    ({"priority": 0}, "#/priority"),
    ({"priority": "50"}, "#/priority"),
    ({"priority": True}, "#/priority"),
    ({"priority": 50.5}, "#/priority"),
    ({"delivery": "twice"}, "#/delivery"),
    ({"send_at": "tomorrow"}, "#/send_at"),
    ({"send_at": "2126-03-12T09:30:00"}, "#/send_at"),
    ({"send_at": "2126-W01-1T00:00:00Z"}, "#/send_at"),
    ({"send_at": "infinity"}, "#/send_at"),
    ({"send_at": 1}, "#/send_at"),
    ({"expires_at": "2126-02-30T00:00:00Z"}, "#/expires_at"),
    ({"idempotency_key": ""}, "#/idempotency_key"),
    ({"idempotency_key": "x" * 256}, "#/idempotency_key"),
    ({"cancel_scope": ["a"]}, "#/cancel_scope"),
    ({"from": "nobody"}, "#/from"),
    ({"from": []}, "#/from"),
    ({"reply_to": ["help@example.com"]}, "#/reply_to"),
    ({"reply_to": "help@example.com, other@example.com"}, "#/reply_to"),
    ({"tags": []}, "#/tags"),
    ({"tags": {"a": 1}}, "#/tags/a"),
    ({"tags": {"a b": "c"}}, "#/tags/a b"),
    ({"tags": {"a": "b\n"}}, "#/tags/a"),
    ({"tags": {str(n): "x" for n in range(11)}}, "#/tags"),
    ({"attachments": {}}, "#/attachments"),
    ({"attachments": [{}]}, "#/attachments/0/storage_ref"),
    ({"attachments": [{"storage_ref": "a", "filename": "b"}] * 21}, "#/attachments"),
    ({"attachments": [{"storage_ref": "a", "filename": 1}]}, "#/attachments/0/filename"),
    ({"template": "No Such"}, "#/template"),
    ({"template": None}, "#/template"),
    ({"template": "receipt\n"}, "#/template"),
]


@pytest.mark.parametrize(("members", "pointer"), SHAPES)
def test_a_member_of_another_shape_is_a_422_that_names_it(
    api: Api, owner: Connection, members: dict[str, Any], pointer: str
) -> None:
    reply = send(api, **members)
    assert (reply.status, reply.problem) == (422, "invalid-field")
    assert pointers(reply)[0] == pointer
    inside = batch(api, {}, members)
    assert pointers(inside)[0] == pointer.replace("#", "#/messages/1")
    assert number(owner) == 0


@pytest.mark.parametrize("address", ["", "@", "bad"])
def test_an_address_however_short_is_told_what_an_address_is_and_hides_no_other_fault(
    api: Api, address: str
) -> None:
    reply = batch(api, {"to": [address]}, {"template": "unheard_of"})
    assert pointers(reply) == ["#/messages/0/to/0", "#/messages/1/template"]
    assert "address" in reply.json["errors"][0]["detail"]


@pytest.mark.parametrize(
    ("members", "pointer"),
    [
        ({"token": "x"}, "#/token"),
        ({"to": [{"email": "ada@example.com", "phone": "1"}]}, "#/to/0/phone"),
        (
            {"attachments": [{"storage_ref": "a", "filename": "b", "size": 1}]},
            "#/attachments/0/size",
        ),
        (
            {"attachments": [{"storage_ref": "a", "filename": "b", "sha256": ""}]},
            "#/attachments/0/sha256",
        ),
        ({"producer": "shop"}, "#/producer"),
        ({"token_id": "7d0b6a2e-0000-4000-8000-000000000000"}, "#/token_id"),
    ],
)
def test_a_member_that_is_not_known_is_a_400_wherever_it_stands(
    api: Api, owner: Connection, members: dict[str, Any], pointer: str
) -> None:
    reply = send(api, **members)
    assert (reply.status, reply.problem) == (400, "invalid-request")
    assert pointers(reply) == [pointer]
    assert number(owner) == 0


@pytest.mark.parametrize(
    ("listed", "members", "refused"),
    [
        ("", {}, True),
        ("", {"from": None}, True),
        ("shop@example.com", {}, False),
        ("", {"from": "noreply@example.com"}, False),
    ],
)
def test_a_template_whose_own_sender_is_not_allowed_is_a_422_unless_the_message_names_another(
    api: Api,
    owner: Connection,
    environment: Callable[..., None],
    tmp_path: Path,
    listed: str,
    members: dict[str, Any],
    refused: bool,
) -> None:
    folder = tmp_path / "welcome" / "en"
    folder.mkdir(parents=True)
    for name in ("subject.txt.j2", "body.txt.j2", "body.html.j2"):
        (folder / name).write_text("Hi")
    (tmp_path / "welcome" / "template.json").write_text('{"from": "Shop <Shop@example.com>"}')
    environment(TEMPLATES_DIRECTORY=str(tmp_path), ALLOWED_SENDERS=listed)
    reply = send(api, template="welcome", **members)
    assert (reply.status, number(owner)) == ((422, 0) if refused else (202, 1))
    if refused:
        assert (reply.problem, pointers(reply)) == ("request-refused", ["#/template"])


NO_TEXT = [(None, "null"), (True, "true or false"), ({"a": 1}, "an object"), (["x"], "a list")]


@pytest.mark.parametrize(("value", "kind"), NO_TEXT)
def test_a_value_that_is_no_text_is_a_422_where_the_template_would_show_it(
    api: Api, owner: Connection, value: object, kind: str
) -> None:
    reply = send(api, parameters={"order_number": "A-1", "total": value})
    assert (reply.status, number(owner)) == (422, 0)
    assert pointers(reply) == ["#/parameters/total"]
    assert f"{kind} is nothing to show as text" in reply.text
    line = {"quantity": value, "name": "Pen", "price": "1"}
    reply = send(api, parameters={"order_number": "A-1", "total": "1", "items": [line]})
    assert pointers(reply) == ["#/parameters/items/0/quantity"]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"template": "no_such"}, "#/template"),
    ({"template": "verify_email"}, "#/template"),
    ({"template": "reset_password"}, "#/template"),
    ({"parameters": {}}, "#/parameters/order_number"),
    ({"parameters": None}, "#/parameters/order_number"),
    (
        {"parameters": {"order_number": "see https://example.net/x", "total": "1"}},
        "#/parameters/order_number",
    ),
    ({"parameters": {"order_number": "1", "total": "1", "more": "x" * 65536}}, "#/parameters"),
    ({"parameters": {"order_number": "1", "total": "1", "more": [1e300] * 300}}, "#/parameters"),
    ({"from": "ceo@example.com"}, "#/from"),
    ({"from": "noreply@example.com.example.net"}, "#/from"),
    ({"from": "noreply+x@example.com"}, "#/from"),
    ({"from": {"email": "ceo@example.com", "name": "noreply@example.com"}}, "#/from/email"),
    ({"to": [f"reader{n}@example.com" for n in range(50)], "cc": ["more@example.com"]}, "#/cc"),
    ({"to": ["a@example.com"], "bcc": ["A@EXAMPLE.COM"]}, "#/bcc/0"),
    ({"to": ["a@bücher.example", {"email": "a@xn--bcher-kva.example"}]}, "#/to/1/email"),
    (
        {"send_at": "2126-03-12T09:30:00Z", "expires_at": "2126-03-12T10:30:00+01:00"},
        "#/expires_at",
    ),
    ({"tags": {"PostLease-id": "x"}}, "#/tags/PostLease-id"),
    ({"reply_to": {"email": "a@example.com", "name": "Ada\u200b"}}, "#/reply_to/name"),
    ({"from": {"email": "noreply@example.com", "name": "Ada\ue000"}}, "#/from/name"),
]


@pytest.mark.parametrize(("members", "pointer"), REFUSED)
def test_what_could_never_be_sent_is_a_422_that_names_it_and_is_not_stored(
    api: Api, owner: Connection, members: dict[str, Any], pointer: str
) -> None:
    """RCP-01, RCP-05: an address that stands twice in any spelling, a fifty-first recipient."""
    reply = send(api, **members)
    assert (reply.status, reply.problem) == (422, "request-refused")
    assert pointers(reply)[0] == pointer
    inside = batch(api, {}, members)
    assert pointers(inside)[0] == pointer.replace("#", "#/messages/1")
    assert number(owner) == 0


ADDRESSES = [
    "",
    "ada",
    "a@b@example.com",
    "ada@example.com, eve@example.com",
    "ada@example.com; eve@example.com",
    "Ada <ada@example.com>",
    "friends: ada@example.com, eve@example.com;",
    '"ada lovelace"@example.com',
    "ada@[127.0.0.1]",
    "ada@localhost",
    "ädä@example.com",
    "ada@example.com\r\nBcc: eve@example.com",
    "ada\u2028@example.com",
    "ada@exa mple.com",
    "ada(comment)@example.com",
    "a" * 65 + "@example.com",
    "=?utf-8?q?ada?=@example.com",
]


@pytest.mark.parametrize("group", ["to", "cc", "bcc", "reply_to", "from"])
@pytest.mark.parametrize("address", ADDRESSES)
def test_what_is_not_one_plain_address_is_refused_wherever_it_stands(
    api: Api, owner: Connection, group: str, address: str
) -> None:
    """MIM-06, RCP-03: one element is one address, or the request is refused."""
    is_one = group in {"reply_to", "from"}
    for given, at in ((address, ""), ({"email": address}, "/email")):
        reply = send(api, **{group: given if is_one else [given]})
        assert reply.status == 422
        assert pointers(reply)[0] == f"#/{group}{'' if is_one else '/0'}{at}"
        assert "eve" not in reply.text
        assert "ada" not in reply.text
    assert number(owner) == 0


CONTROLS = ["\r\nBcc: eve@example.com", "\n", "\r", "\x7f", "\x85", "\u2028", "\u2029", "\u202e"]


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize(
    ("make", "pointer"),
    [
        (lambda text: {"to": [{"email": "ada@example.com", "name": text}]}, "#/to/0/name"),
        (lambda text: {"from": {"email": "noreply@example.com", "name": text}}, "#/from/name"),
        (lambda text: {"reply_to": {"email": "a@example.com", "name": text}}, "#/reply_to/name"),
        (lambda text: {"tags": {"kind": text}}, "#/tags/kind"),
        (lambda text: {"tags": {"a" + text: "b"}}, None),
        (lambda text: {"locale": text}, "#/locale"),
        (lambda text: {"template": text}, "#/template"),
        (
            lambda text: {
                "attachments": [{"storage_ref": "a", "filename": text, "content_type": text}]
            },
            None,
        ),
    ],
)
def test_no_text_that_reaches_a_header_holds_a_control(
    api: Api,
    owner: Connection,
    make: Callable[[str], dict[str, Any]],
    pointer: str | None,
    control: str,
) -> None:
    """MIM-03."""
    reply = send(api, **make(f"Ada{control}"))
    assert (reply.status, reply.problem) == (422, "invalid-field")
    assert pointer is None or pointers(reply)[0] == pointer
    assert number(owner) == 0


@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        ('{"parameters": {"a": "\\u0000"}}', "#/parameters/a"),
        ('{"parameters": {"a": ["\\ud800"]}}', "#/parameters/a/0"),
        ('{"parameters": {"a": NaN}}', "#/parameters/a"),
        ('{"parameters": {"a": 1e999}}', "#/parameters/a"),
        ('{"parameters": {"a": 9223372036854775808}}', "#/parameters/a"),
        ('{"to": [{"name": "\\ud800", "email": "a@example.com"}]}', "#/to/0/name"),
        ('{"to": ["a@example.com"], "to": ["b@example.com"]}', "#/to"),
        ('{"parameters": ' + "[" * 100_000 + "]" * 100_000 + "}", "#"),
    ],
)
def test_a_body_that_cannot_be_stored_is_a_400_that_names_the_place(
    api: Api, owner: Connection, text: str, pointer: str
) -> None:
    for path, body, at in (
        ("/v1/messages", text, pointer),
        ("/v1/messages/batch", f'{{"messages": [{text}]}}', f"#/messages/0{pointer[1:]}"),
    ):
        event = sample("messages-send") | {"rawPath": path, "body": body}
        event["requestContext"] = event["requestContext"] | {
            "http": event["requestContext"]["http"] | {"path": path}
        }
        reply = api.event(event)
        assert (reply.status, reply.problem) == (400, "invalid-request")
        assert pointers(reply) == [at if pointer != "#" else "#"]
    assert number(owner) == 0


@pytest.mark.parametrize(("path", "limit"), [("/v1/messages", 256), ("/v1/messages/batch", 1024)])
def test_a_body_may_be_as_large_as_its_route_says(api: Api, path: str, limit: int) -> None:
    long = {"padding": "x" * (limit * 1024)}
    reply = api.call("POST", path, long)
    assert (reply.status, reply.problem) == (413, "payload-too-large")
    assert f"{limit} kB" in reply.json["detail"]
    just = {"padding": "x" * (limit * 1024 - len(json.dumps({"padding": ""})))}
    assert api.call("POST", path, just).status == 400  # read, and then refused for its member


ODD: list[Any] = [
    *(None, True, 0, -1, 1.5, 2**62, "", " ", "x" * 300, "\u202e", "😀", "%00", "a@b.example"),
    *([], {}, [[]], [{}], [None], [1], [""], {"": ""}, {"email": {}}, {"email": "a@b.example"}),
    *({"a": {"b": {"c": []}}}, [{"email": "a@b.example", "name": {}}], ["a@b.example"] * 51),
]


@pytest.mark.parametrize(
    "member",
    [
        *("template", "to", "cc", "bcc", "parameters", "locale", "priority", "delivery"),
        *("send_at", "expires_at", "idempotency_key", "cancel_scope", "from", "reply_to"),
        *("tags", "attachments"),
    ],
)
def test_no_value_at_any_place_is_a_fault_of_ours(api: Api, owner: Connection, member: str) -> None:
    for value in ODD:
        before = number(owner)
        for reply in (send(api, **{member: value}), batch(api, {member: value})):
            assert reply.status in {202, 400, 422}, (member, value, reply.text)
            if reply.status != 202:
                assert number(owner) == before
                assert all(f"/{member}" in pointer for pointer in pointers(reply)), reply.text
            before = number(owner)


def test_logs_name_ids_and_the_caller_and_nothing_of_a_message(
    api: Api, owner: Connection, logs: io.StringIO
) -> None:
    reply = send(
        api, parameters={"order_number": "CANARY-1", "total": "1"}, cancel_scope="CANARY-2"
    )
    batch(api, {})
    send(api, template="no_such", to=["canary@example.com"])
    [line] = [
        json.loads(text) for text in logs.getvalue().splitlines() if '"message taken"' in text
    ]
    assert line["event_id"] == reply.json["event_id"]
    assert line["principal"] == "123456789012:role/support"
    assert "CANARY" not in logs.getvalue()
    assert "@" not in logs.getvalue()


def test_the_samples_are_taken(api: Api, owner: Connection) -> None:
    assert stored(owner, api.event(sample("messages-send")))["idempotency_key"] == "receipt-A-1001"
    assert len(api.event(sample("messages-send-batch")).json["messages"]) == 2
    assert number(owner) == 3
