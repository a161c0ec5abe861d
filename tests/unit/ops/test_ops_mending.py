"""What the commands change, and what they ask first."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ops.client import Api
from tests.unit.ops.conftest import EVENT, OTHER, gate, message

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.ops.conftest import Double, Result

    Ops = Callable[..., Result]

MANY = "POST /v1/messages/retry"
DIGEST = "0a" * 32
ENTRY = {
    "id": DIGEST,
    "reason": "manual",
    "created_at": "2026-03-12T09:00:00+00:00",
    "expires_at": None,
}
VERBS = [
    (("retry",), "retry", None),
    (("cancel",), "cancel", None),
    (("resolve", "--as", "sent"), "resolve", {"as": "sent"}),
]


def counted(left: int, retried: int = 0) -> dict[str, object]:
    return {"confirmed": bool(retried), "retried": retried, "left": left}


@pytest.fixture
def somebody(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Somebody at a terminal, who answers what is here; what was asked stands behind it."""
    answers: list[str] = []

    def confirm(question: str, **_: object) -> bool:
        answer = answers.pop(0)
        answers.append(question)
        return answer == "y"

    monkeypatch.setattr("ops.asking.is_somebody_there", lambda: True)
    monkeypatch.setattr("click.confirm", confirm)
    return answers


@pytest.mark.parametrize(("command", "verb", "body"), VERBS)
def test_an_empty_list_on_standard_input_is_nothing_to_do(
    ops: Ops, double: Double, command: tuple[str, ...], verb: str, body: object
) -> None:
    del verb, body
    result = ops(*command, "-", "--yes", stdin="\n")
    assert (result.status, result.out, double.asked) == (0, "", [])
    assert "nothing was to be done" in result.err
    result = ops(*command, "-", "--json", stdin="")
    assert (result.status, json.loads(result.out)) == (0, {"messages": [], "left": []})


@pytest.mark.parametrize(("command", "verb", "body"), VERBS)
def test_one_message_is_changed_without_a_question(
    ops: Ops, double: Double, command: tuple[str, ...], verb: str, body: object
) -> None:
    double.say(f"POST /v1/messages/{EVENT}/{verb}", message(status="failed", reason="cancelled"))
    result = ops(*command, EVENT)
    assert (result.status, result.out) == (0, f"{EVENT}  failed (cancelled)\n")
    [asked] = double.asked
    assert (asked.json if asked.body else None) == body


@pytest.mark.parametrize(("command", "verb", "body"), VERBS)
def test_several_messages_are_changed_only_when_that_is_confirmed(
    ops: Ops, double: Double, somebody: list[str], command: tuple[str, ...], verb: str, body: object
) -> None:
    for event in (EVENT, OTHER):
        double.say(f"POST /v1/messages/{event}/{verb}", message(event_id=event))
    somebody.append("n")
    result = ops(*command, EVENT, OTHER)
    assert (result.status, double.asked) == (6, [])
    assert "2 messages?" in somebody[0]
    somebody[:] = ["y"]
    assert ops(*command, EVENT, OTHER, EVENT).status == 0
    assert len(double.asked) == 2


def test_where_nobody_can_be_asked_several_want_yes(ops: Ops, double: Double) -> None:
    result = ops("cancel", EVENT, OTHER)
    assert (result.status, double.asked) == (6, [])
    assert "say --yes" in result.err


def test_one_refusal_stops_no_other_message_and_is_the_exit_status(
    ops: Ops, double: Double
) -> None:
    double.refuse(f"POST /v1/messages/{EVENT}/cancel", 409, "message-not-pending")
    double.say(f"POST /v1/messages/{OTHER}/cancel", message(event_id=OTHER))
    result = ops("cancel", "-", "--yes", stdin=f"{EVENT}\n{OTHER}\n")
    assert (result.status, result.out) == (1, f"{OTHER}  pending\n")
    assert result.err == f"{EVENT}  because of message-not-pending\n"
    told = ops("cancel", EVENT, OTHER, "--yes", "--json").json
    assert [one["event_id"] for one in told["messages"]] == [EVENT, OTHER]
    assert told["messages"][0]["error"]["problem"] == "message-not-pending"
    assert told["left"] == []


def test_what_would_be_so_for_the_next_message_too_ends_the_command(
    ops: Ops, double: Double
) -> None:
    double.say(f"POST /v1/messages/{EVENT}/cancel", {"message": "Forbidden"}, status=403)
    result = ops("cancel", EVENT, OTHER, "--yes")
    assert (result.status, len(double.asked)) == (4, 1)
    assert result.err.endswith("1 were not tried.\n")


def test_a_retry_of_many_is_counted_and_confirmed_and_goes_on_until_all_are_done(
    ops: Ops, double: Double, somebody: list[str]
) -> None:
    double.say(MANY, counted(1500), counted(500, 1000), counted(0, 500))
    somebody.append("y")
    result = ops("retry", "--reason", "rejected", "--template", "receipt")
    assert (result.status, result.out) == (0, "1500 are pending again, 0 are left.\n")
    assert somebody == ["Retry 1500 messages?"]
    bodies = [asked.json for asked in double.asked]
    assert bodies[0] == {
        "reason": "rejected",
        "template": "receipt",
        "created_after": None,
        "created_before": None,
    }
    assert bodies[1:] == [bodies[0] | {"confirm": True}] * 2


def test_a_retry_of_many_that_is_not_confirmed_only_counts(
    ops: Ops, double: Double, somebody: list[str]
) -> None:
    double.say(MANY, counted(2))
    somebody.append("n")
    assert ops("retry", "--reason", "rejected").status == 6
    result = ops("retry", "--reason", "rejected", "--dry-run")
    assert (result.status, result.out) == (0, "2 failed (rejected) and can be retried.\n")
    assert not [asked for asked in double.asked if asked.json.get("confirm")]
    told = ops("retry", "--reason", "rejected", "--dry-run", "--json").json
    assert told == {"counted": 2, "retried": 0, "left": 2}


def test_a_retry_takes_no_more_than_were_counted(ops: Ops, double: Double) -> None:
    """What fails once more meanwhile would else be retried for ever."""
    double.say(MANY, counted(3), counted(3, 3))
    assert ops("retry", "--reason", "rejected", "--yes").status == 0
    assert len(double.asked) == 2


def test_a_retry_ends_when_nothing_more_can_be_taken(ops: Ops, double: Double) -> None:
    """Somebody else may have taken them, or hold them."""
    double.say(MANY, counted(3), counted(2, 1), {"confirmed": True, "retried": 0, "left": 2})
    result = ops("retry", "--reason", "rejected", "--yes")
    assert (result.status, result.out) == (0, "1 are pending again, 2 are left.\n")
    assert len(double.asked) == 3


@pytest.mark.parametrize(
    "command",
    [
        ("retry",),
        ("retry", EVENT, "--reason", "rejected"),
        ("retry", EVENT, "--template", "receipt"),
        ("retry", EVENT, "--dry-run"),
        ("retry", "--template", "receipt"),
        ("cancel",),
        ("resolve", EVENT),
        ("resolve", EVENT, "--as", "lost"),
        ("show", "evt_1"),
        ("cancel", "-"),
        ("list", "--since", "yesterday"),
        ("list", "--since", "2026-03-12T09:30:00"),
        ("list", "--reason", "bad_luck"),
        ("suppress", "nobody"),
        ("gate", "pause"),
        ("gate", "pause", "--reason", "ask ada@example.com"),
        ("gate", "pause", "--reason", "a\nb"),
        ("gate", "pause", "--reason", " "),
    ],
)
def test_a_wrong_command_line_asks_nobody_anything(
    ops: Ops, double: Double, command: tuple[str, ...]
) -> None:
    result = ops(*command, stdin="evt_1\n")
    assert (result.status, result.out, double.asked) == (2, "", [])
    assert "ada@" not in result.err


def test_a_gate_is_moved_only_when_that_is_confirmed(
    ops: Ops, double: Double, somebody: list[str]
) -> None:
    gates = [gate(provider="smtp", in_use=False), gate()]
    double.say("GET /v1/gates", {"gates": gates})
    double.say("PUT /v1/gates/ses", gate(state="paused"))
    double.say("PUT /v1/gates/smtp", gate(provider="smtp", state="open"))
    somebody.append("n")
    assert ops("gate", "pause", "--reason", "wrong template").status == 6
    assert ops("gate", "pause", "--reason", " wrong template ", "--yes").status == 0
    assert ops("gate", "open", "smtp", "--reason", "mended", "--yes").status == 0
    puts = [asked for asked in double.asked if asked.method == "PUT"]
    assert [(one.target, one.json) for one in puts] == [
        ("/v1/gates/ses", {"state": "paused", "reason": "wrong template"}),
        ("/v1/gates/smtp", {"state": "open", "reason": "mended"}),
    ]
    unknown = ops("gate", "show", "pigeon")
    assert (unknown.status, unknown.err) == (
        3,
        "ops: there is no gate of 'pigeon', but of smtp, ses\n",
    )
    assert ops("gate", "show", "--json").json == {"gates": gates}
    assert ops("gate", "show", "smtp").out == "smtp  open  (not in use)\n"


def test_no_address_is_printed_or_stands_in_a_url(ops: Ops, double: Double) -> None:
    double.say("PUT /v1/suppressions", ENTRY)
    double.say("POST /v1/suppressions/lookup", {"id": DIGEST, "suppressions": [ENTRY]})
    double.say(f"DELETE /v1/suppressions/{DIGEST}", status=204)
    results = [
        ops("suppress", "-", "--until", "2d", stdin="ada@example.com\n"),
        ops("suppress", "ada@example.com"),
        ops("unsuppress", "ada@example.com"),
        ops("unsuppress", "-", "--reason", "manual", "--json", stdin="ada@example.com\n"),
        ops("unsuppress", DIGEST),
    ]
    assert [result.status for result in results] == [0] * 5
    assert not [result for result in results if "ada" in result.out + result.err]
    assert not [told for told in double.told if "ada" in told]
    bodies = [asked.json for asked in double.asked if asked.body]
    assert {body["email"] for body in bodies} == {"ada@example.com"}
    assert bodies[0]["expires_at"].endswith("+00:00")
    assert results[3].json == {"id": DIGEST, "reasons": ["manual"]}
    assert [told for told in double.told if told.startswith("DELETE")] == [
        f"DELETE /v1/suppressions/{DIGEST}",
        f"DELETE /v1/suppressions/{DIGEST}?reason=manual",
        f"DELETE /v1/suppressions/{DIGEST}",
    ]


def test_an_address_without_an_entry_is_told_so(ops: Ops, double: Double) -> None:
    double.say("POST /v1/suppressions/lookup", {"id": DIGEST, "suppressions": [ENTRY]})
    result = ops("unsuppress", "ada@example.com", "--reason", "bounce")
    assert (result.status, result.err) == (3, "ops: no such entry is on the list\n")


def test_a_retry_of_many_that_fails_in_the_middle_tells_what_was_done(
    ops: Ops, double: Double
) -> None:
    """And its JSON is one document, with the error in it."""
    for as_json in (False, True):
        double.say(MANY, counted(250), counted(150, 100), b"away")
        command = ("retry", "--reason", "rejected", "--yes", *(["--json"] if as_json else []))
        result = ops(*command)
        assert result.status == 5
        if as_json:
            told = result.json
            assert (told["counted"], told["retried"], told["left"]) == (250, 100, 150)
            assert told["error"]["exit"] == 5
        else:
            assert "100 are pending again, 150 are left." in result.out
            assert "ops: " in result.err


@pytest.mark.parametrize("as_json", [False, True])
def test_ctrl_c_in_the_middle_tells_what_was_done(
    ops: Ops, double: Double, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    third = "evt_01M8MN044RFW39WHZN1KYFSJ60"
    double.say(f"POST /v1/messages/{EVENT}/cancel", message(status="failed", reason="cancelled"))
    post = Api.post

    def interrupted(api: Api, path: str, body: Any = None) -> Any:
        if OTHER in path:
            raise KeyboardInterrupt
        return post(api, path, body)

    monkeypatch.setattr(Api, "post", interrupted)
    result = ops("cancel", EVENT, OTHER, third, "--yes", *(["--json"] if as_json else []))
    assert result.status == 130
    if as_json:
        assert [one.get("error", {}).get("exit") for one in result.json["messages"]] == [None, 130]
        assert result.json["left"] == [third]
    else:
        assert EVENT in result.out
        assert "may have been done" in result.err
        assert "1 were not tried." in result.err


def test_the_list_of_suppressions_is_read_page_by_page_and_names_nobody(
    ops: Ops, double: Double
) -> None:
    page = {"suppressions": [ENTRY], "cursor": "c"}
    double.say("GET /v1/suppressions", page, {"suppressions": [ENTRY], "cursor": None})
    result = ops("suppressions", "--reason", "manual", "--limit", "0")
    assert double.told == [
        "GET /v1/suppressions?limit=100&reason=manual",
        "GET /v1/suppressions?cursor=c&limit=100&reason=manual",
    ]
    assert [line.split()[:2] for line in result.out.splitlines()[1:]] == [[DIGEST, "manual"]] * 2
    double.say("GET /v1/suppressions", {"suppressions": [ENTRY] * 3, "cursor": None})
    assert ops("suppressions", "--limit", "2", "--json").json == {
        "suppressions": [ENTRY] * 2,
        "more": True,
    }
    assert "more than these 2" in ops("suppressions", "--limit", "2").err


def test_an_address_s_entries_are_looked_up_without_a_url_that_names_it(
    ops: Ops, double: Double
) -> None:
    path = "POST /v1/suppressions/lookup"
    double.say(path, {"id": DIGEST, "suppressions": [ENTRY]})
    result = ops("suppressions", "-", stdin="ada@example.com\n")
    assert DIGEST in result.out
    assert "ada" not in result.out
    assert (double.told, double.asked[0].json) == (
        ["POST /v1/suppressions/lookup"],
        {"email": "ada@example.com"},
    )
    other = ops("suppressions", "ada@example.com", "--reason", "bounce")
    assert (other.status, other.out) == (0, f"Not on the list, as {DIGEST}.\n")
    assert ops("suppressions", "ada@example.com", "--json").json == {
        "id": DIGEST,
        "suppressions": [ENTRY],
    }
    assert ops("suppressions", "nobody").status == 2
