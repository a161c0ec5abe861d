"""What the commands print: tables, one message's life, counts, gates; for people and programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from postlease.wire import gates as on_gates
from postlease.wire import messages as on_messages
from tests.unit.ops.conftest import EVENT, OTHER, attempt, gate, message

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from tests.unit.ops.conftest import Double, Result

    Ops = Callable[..., Result]

PATH = f"GET /v1/messages/{EVENT}"
CLASS = {"pending": 2, "sending": 1, "unknown": 0, "oldest_due_seconds": 7260.5}
STATS = {
    **CLASS,
    "classes": {"auth": CLASS, "transactional": CLASS, "bulk": CLASS},
    "last_day": {"sent": 40, "failed": 3, "reasons": {"rejected": 2, "expired": 1}},
}


def test_the_double_answers_what_the_api_does() -> None:
    assert set(message()) == set(on_messages.MESSAGE_IN_FULL)
    assert set(attempt(1, "accepted")) == set(on_messages._ATTEMPT)
    assert set(gate()) == set(on_gates._GATE)


def test_show_tells_each_attempt_s_class_owner_lease_and_provider_s_id(
    ops: Ops, double: Double
) -> None:
    told = message(
        status="sent",
        provider="ses",
        provider_message_id="ses-2",
        attempt_count=2,
        counted_attempts=1,
        max_attempts=5,
        retry_count=1,
        finished_at="2026-03-12T09:02:02+00:00",
        attempts=[
            attempt(1, "throttled", code="rate", refunded=True),
            attempt(2, "accepted", code="event", provider_message_id="ses-2"),
        ],
    )
    double.say(PATH, told)
    result = ops("show", EVENT)
    assert (result.status, result.err) == (0, "")
    assert [line.strip() for line in result.out.splitlines()] == [
        f"{EVENT}  sent",
        "template    receipt (en)",
        "to          a***@example.com",
        "kind        transactional, at_least_once",
        "attempts    2, of which count 1 of 5, 1 times by an operator",
        "",
        "2026-03-12 09:00:00.000Z  asked for",
        (
            "2026-03-12 09:01:00.000Z  attempt 1: claimed by worker#1,"
            " lease until 2026-03-12 09:01:45.000Z"
        ),
        "2026-03-12 09:01:01.000Z  attempt 1: the call to ses may have left from here on",
        "2026-03-12 09:01:02.000Z  attempt 1: throttled (rate), not counted",
        (
            "2026-03-12 09:02:00.000Z  attempt 2: claimed by worker#2,"
            " lease until 2026-03-12 09:02:45.000Z"
        ),
        "2026-03-12 09:02:01.000Z  attempt 2: the call to ses may have left from here on",
        (
            "2026-03-12 09:02:02.000Z  attempt 2: accepted, told by the provider's event,"
            " provider's id ses-2"
        ),
        "2026-03-12 09:02:02.000Z  sent",
        "",
        "Now: sent by ses, which calls it ses-2.",
    ]


def test_show_tells_the_claim_that_has_not_ended_and_how_many_attempts_are_forgotten(
    ops: Ops, double: Double
) -> None:
    claim = {name: attempt(4, "")[name] for name in on_messages._CLAIM}
    told = message(
        status="sending",
        attempt_count=4,
        lease_expires_at=claim["lease_expires_at"],
        attempts=[attempt(3, "deferred", code="busy", dispatched_at=None)],
        claim=claim | {"dispatched_at": None},
    )
    double.say(PATH, told)
    out = ops("show", EVENT).out
    assert "2 earlier attempts are not kept any more" in out
    assert "attempt 4: claimed by worker#4, lease until 2026-03-12 09:04:45.000Z" in out
    assert "may have left" not in out
    assert "Now: being sent; the lease ends at 2026-03-12 09:04:45.000Z." in out


def test_show_says_what_every_state_means(ops: Ops, double: Double) -> None:
    double.say("GET /v1/gates", {"gates": [gate(state="paused", reason="operator")]})
    for members, meaning in (
        ({}, "waits; due at 2026-03-12 09:00:00.000Z. The gate of ses is paused (operator)."),
        ({"status": "sending", "unknown": True, "claim": None}, "nobody has heard"),
        ({"status": "failed", "reason": "expired"}, "failed. Its time, or that of its link, was"),
        (
            {"status": "failed", "reason": "expired", "attempts": [attempt(1, "unknown")]},
            "An earlier attempt is unknown: that one may have been sent.",
        ),
        ({"status": "sent", "provider_message_id": "operator"}, "sent, by an operator's word."),
    ):
        double.say(PATH, message(**members))
        assert meaning in ops("show", EVENT).out.splitlines()[-1]


def test_show_does_without_the_gate_where_it_may_not_be_looked_at(ops: Ops, double: Double) -> None:
    double.say(PATH, message())
    double.say("GET /v1/gates", {"message": "Forbidden"}, status=403)
    result = ops("show", EVENT)
    assert (result.status, result.err) == (0, "")
    assert result.out.endswith("Now: waits; due at 2026-03-12 09:00:00.000Z.\n")


def test_nothing_that_the_api_tells_moves_the_cursor_of_a_terminal(
    ops: Ops, double: Double
) -> None:
    told = message(tags={"a": "\x1b[2Jb"}, cancel_scope="x\r\ny\u202ez")
    double.say(PATH, told)
    double.say("GET /v1/gates", {"gates": [gate(state="closed", reason="\x9b2J\u2028")]})
    out = ops("show", EVENT).out
    assert "a=\\x1b[2Jb" in out
    assert not {"\x1b", "\r", "\u202e", "\x9b", "\u2028"} & set(out)


def test_list_asks_for_what_it_is_told_and_for_page_after_page(ops: Ops, double: Double) -> None:
    first = {"messages": [message()], "cursor": "A" * 22}
    second = {"messages": [message(event_id=OTHER, status="sent")], "cursor": None}
    double.say("GET /v1/messages", first, second)
    result = ops(
        *("list", "--status", "sent", "--template", "receipt", "--unknown"),
        *("--since", "2026-03-12T09:30:00+01:00", "--limit", "0"),
    )
    assert [line.split()[0] for line in result.out.splitlines()] == ["EVENT", EVENT, OTHER]
    common = (
        "created_after=2026-03-12T09%3A30%3A00%2B01%3A00&{}limit=100&status=sent"
        "&template=receipt&unknown=true"
    )
    assert double.told == [
        f"GET /v1/messages?{common.format('')}",
        f"GET /v1/messages?{common.format('cursor=' + 'A' * 22 + '&')}",
    ]


def test_list_says_when_there_is_more_and_when_there_is_nothing(ops: Ops, double: Double) -> None:
    double.say("GET /v1/messages", {"messages": [message(), message()], "cursor": None})
    result = ops("list", "--limit", "1")
    assert len(result.out.splitlines()) == 2
    assert result.err == "There are more than these 1: --limit 0 shows all.\n"
    assert ops("list", "--limit", "1", "--json").json == {"messages": [message()], "more": True}
    double.say("GET /v1/messages", {"messages": [], "cursor": None})
    assert ops("list").err == "No message is like that.\n"


def test_list_prints_ids_alone_for_another_command(ops: Ops, double: Double) -> None:
    double.say("GET /v1/messages", {"messages": [message(), message()], "cursor": None})
    result = ops("list", "--ids", "--limit", "0")
    assert (result.out, result.err) == (f"{message()['event_id']}\n" * 2, "")
    refused = ops("list", "--ids", "--json")
    assert refused.status == 2
    assert "--ids and --json are two forms" in refused.err


def test_stats_tell_each_class_the_last_day_and_the_gate_in_use(ops: Ops, double: Double) -> None:
    double.say("GET /v1/stats", STATS)
    closed = gate(
        state="closed",
        reason="sending_paused",
        closed_at="2026-03-12T09:00:00+00:00",
        closed_by=EVENT,
        next_probe_at="2026-03-12T09:01:00+00:00",
        failures_in_a_row=2,
        rate_per_second=7.0,
        limit_per_second=14.0,
        accepted_at="2026-03-12T08:59:00+00:00",
        ruled_at="2026-03-12T08:00:00+00:00",
        ruled_by="123456789012:role/support",
        ruled_because="mended",
    )
    double.say("GET /v1/gates", {"gates": [closed, gate(provider="smtp", in_use=False)]})
    out = ops("stats").out
    assert out.splitlines()[:2] == [
        "CLASS          PENDING  SENDING  UNKNOWN  OLDEST DUE",
        "all            2        1        0        2 h",
    ]
    assert "40 sent, 3 failed (1 expired, 2 rejected)" in out
    assert [line.strip() for line in out.partition("gate:\n")[2].splitlines()] == [
        "ses  closed  (in use)",
        f"since 2026-03-12 09:00:00.000Z: sending_paused, by the answer to {EVENT}",
        "next probe at 2026-03-12 09:01:00.000Z or later",
        "2 calls in a row reached nobody",
        "7 recipients a second, of 14 that are allowed",
        "a mail was accepted at 2026-03-12 08:59:00.000Z or later",
        "opened at 2026-03-12 08:00:00.000Z by 123456789012:role/support: mended",
    ]
    assert ops("stats", "--json").json == STATS | {
        "gates": [closed, gate(provider="smtp", in_use=False)]
    }


def test_stats_do_without_the_gates_where_they_may_not_be_looked_at(
    ops: Ops, double: Double
) -> None:
    double.say("GET /v1/stats", STATS)
    double.say("GET /v1/gates", {"message": "Forbidden"}, status=403)
    assert "gate" not in ops("stats").out
    assert ops("stats", "--json").json == STATS | {"gates": []}
    assert ops("watch", "--count", "1").out.endswith(" gate=-\n")


def test_watch_writes_a_line_a_look_where_nobody_sits_and_survives_an_outage(
    ops: Ops, double: Double
) -> None:
    double.refuse("GET /v1/stats", 503, "unavailable")
    double._answers["GET /v1/stats"].append((200, json.dumps(STATS).encode()))
    double.say("GET /v1/gates", {"gates": [gate()]})
    result = ops("watch", "--count", "2", "--interval", "0.2")
    assert result.status == 0
    assert "because of unavailable" in result.err
    [line] = result.out.splitlines()
    assert line.partition("Z ")[2] == (
        "pending=2 sending=1 unknown=0 oldest_due_seconds=7260.5 sent_24h=40 failed_24h=3"
        " gate=ses:open"
    )
    looks = ops("watch", "--count", "2", "--interval", "0.2", "--json").out.splitlines()
    assert [json.loads(look)["pending"] for look in looks] == [2, 2]


def test_watch_draws_a_table_in_its_place_on_a_terminal(
    ops: Ops, double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleared: list[int] = []
    monkeypatch.setattr("ops.counting._is_terminal", lambda: True)
    monkeypatch.setattr("click.clear", lambda: cleared.append(1))
    double.say("GET /v1/stats", STATS)
    double.say("GET /v1/gates", {"gates": [gate()]})
    double.say("GET /v1/messages", {"messages": [message()], "cursor": None})
    out = ops("watch", "--count", "2", "--interval", "0.2").out
    assert len(cleared) == 2
    assert out.count("OLDEST DUE") == out.count(EVENT) == 2


def test_watch_ends_where_it_may_not_look(ops: Ops, double: Double) -> None:
    double.say("GET /v1/stats", {"message": "Forbidden"}, status=403)
    assert ops("watch").status == 4
