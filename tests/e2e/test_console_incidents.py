"""What goes wrong is seen at a glance: five incidents on a running stack, in the console's words
and by `ops`.

The alarms of the same incidents are tested beside the metrics.
"""

from __future__ import annotations

import html
import re
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from postlease.model import event_id
from tests import arrange
from tests.e2e.conftest import ask

if TYPE_CHECKING:
    from collections.abc import Callable

    from local.stack import Stack
    from postlease.database import Connection

    Ops = Callable[..., Any]

WELL: list[str] = []


@pytest.fixture
def stack(swept_by_hand: Stack, emptied: Connection) -> Stack:
    """The product just after sweep and reaper, with one mail sent."""
    arrange.enqueue(emptied)
    for name in ("sweep", "reaper"):
        swept_by_hand.invoke(name)
    for function in swept_by_hand.functions.values():
        function.last_failure = None  # other tests break what they please
    return swept_by_hand


@pytest.fixture
def troubles(stack: Stack) -> Callable[[], list[str]]:
    """What the overview says is wrong."""

    def read() -> list[str]:
        page = ask(f"{stack.url}/_local/").body.decode()
        health = page.partition('data-live="health">')[2].partition("</section>")[0]
        found = [html.unescape(text) for text in re.findall("<li>(.*?)</li>", health)]
        assert ("Nothing is wrong." in health) == (not found)
        return found

    assert read() == WELL
    return read


def press(stack: Stack, action: str, form: str) -> str:
    """The page after a button of the console."""
    answer = ask(f"{stack.url}/_local/actions/{action}", "POST", form.encode(), Origin=stack.url)
    assert answer.status == 200
    return answer.body.decode()


def count(stack: Stack, name: str) -> int:
    """A number among the messages by state."""
    page = ask(f"{stack.url}/_local/").body.decode()
    found = re.search(rf"<dt>(?:<a[^>]*>)?{name}(?:</a>)?</dt><dd>([\d,]+)</dd>", page)
    assert found
    return int(found[1].replace(",", ""))


def test_a_sweep_that_stopped(
    stack: Stack, troubles: Callable[[], list[str]], ops: Ops, emptied: Connection
) -> None:
    [message_id] = arrange.enqueue(emptied)
    five_minutes = timedelta(minutes=5)
    arrange.age(emptied, message_id, five_minutes, "available_at")
    ended_at = stack.functions["sweep"].last_ended_at
    assert ended_at
    stack.functions["sweep"].last_ended_at = ended_at - five_minutes
    assert troubles() == [
        "The sweep has not run for 5 min; it should every 60 s.",
        "1 message waits, the oldest for 5 min.",
    ]
    stats = ops("stats", "--json")
    assert (stats["pending"], stats["oldest_due_seconds"] >= 300) == (1, True)
    assert "The sweep has run." in press(stack, "tick", "function=sweep")
    assert troubles() == WELL


def test_a_provider_that_refuses(
    stack: Stack, troubles: Callable[[], list[str]], ops: Ops, emptied: Connection
) -> None:
    assert "The fault is injected." in press(stack, "fault", "mode=reject")
    arrange.enqueue(emptied, 3)
    stack.invoke("sweep")
    assert troubles() == [
        "3 of the last 4 attempts went wrong: 3 rejected.",
        "A fault is injected: the provider refuses every message.",
    ]
    assert ops("stats", "--json")["last_day"] == {
        "sent": 1,
        "failed": 3,
        "reasons": {"rejected": 3},
    }
    assert ops("list", "--reason", "rejected").count("rejected") == 3
    page = ask(f"{stack.url}/_local/").body.decode()
    assert re.search(r'reason=rejected">rejected</a></th><td class="number">3<', page)
    assert "1 sent, 3 failed in all" in page


def test_a_provider_that_is_away(
    stack: Stack, troubles: Callable[[], list[str]], ops: Ops, emptied: Connection
) -> None:
    stack.set_faults("unavailable")
    arrange.enqueue(emptied, 12)
    stack.invoke("sweep")
    gate, attempts, _ = troubles()
    assert re.match(r"The gate of ses is closed since [\d:]+Z \(unreachable\)", gate)
    assert re.match(r"(\d+) of the last \d+ attempts went wrong: \1 unreachable\.", attempts)
    assert count(stack, "Queued") == 12
    [in_use] = [one for one in ops("gate", "show", "--json")["gates"] if one["in_use"]]
    assert (in_use["state"], in_use["reason"]) == ("closed", "unreachable")
    assert ops("stats", "--json")["pending"] == 12


def test_a_queue_that_is_filled_faster_than_it_is_emptied(
    stack: Stack, troubles: Callable[[], list[str]], ops: Ops, emptied: Connection
) -> None:
    arrange.enqueue(emptied, 40)
    emptied.execute(
        "UPDATE postlease.email_messages SET available_at = available_at - interval '10 minutes'"
        " WHERE status = 'pending'"
    )
    assert troubles() == ["40 messages wait, the oldest for 10 min."]
    assert count(stack, "Queued") == 40
    stats = ops("stats", "--json")
    assert (stats["pending"], stats["oldest_due_seconds"] >= 600) == (40, True)


def test_a_worker_that_was_killed_while_its_call_was_out(
    stack: Stack, troubles: Callable[[], list[str]], ops: Ops, emptied: Connection
) -> None:
    [message_id] = arrange.enqueue(emptied)
    stack.set_faults("stall", times=1)
    sweep = threading.Thread(target=stack.run, args=("sweep",), daemon=True)
    sweep.start()
    assert stack.provider.wait_for(lambda counts: counts.held == 1, seconds=20)
    assert "1 worker of the sweep killed." in press(stack, "kill", "function=sweep")
    sweep.join(20)
    assert troubles() == ["The last run of the sweep ended badly: Runtime.ExitError."]
    arrange.end_lease(emptied, message_id)
    stack.invoke("sweep")
    over, unknown = troubles()
    assert over.startswith("1 lease is over: a worker died, or hangs.")
    assert unknown.startswith("1 outcome is unknown: the call left")
    assert (count(stack, "Leases over"), count(stack, "Unknown")) == (1, 1)
    assert ops("stats", "--json")["unknown"] == 1
    assert event_id(message_id) in ops("list", "--unknown")
    assert "its lease is over, and nobody has heard" in ops("show", event_id(message_id))


def test_a_worker_that_was_killed_before_its_mail_left(
    stack: Stack, troubles: Callable[[], list[str]], ops: Ops, emptied: Connection
) -> None:
    [message_id] = arrange.enqueue(emptied)
    arrange.claim(emptied)
    arrange.end_lease(emptied, message_id)
    assert troubles() == ["1 lease is over: a worker died, or hangs. The reaper takes care of it."]
    assert ops("stats", "--json")["sending"] == 1
    stack.invoke("reaper")
    assert troubles() == ["1 attempt was lost with a worker lately."]
    assert "attempt 1: worker_lost, not counted" in ops("show", event_id(message_id))


def test_a_gate_that_an_operator_paused(
    stack: Stack, troubles: Callable[[], list[str]], ops: Ops, emptied: Connection
) -> None:
    del emptied
    ops("gate", "pause", "--reason", "wrong template", "--yes")
    [gate] = troubles()
    assert re.match(r"The gate of ses is paused since [\d:]+Z by \S+: wrong template\.", gate)
    page = ask(f"{stack.url}/_local/").body.decode()
    assert '<strong class="bad">paused</strong>' in page
    [in_use] = [one for one in ops("gate", "show", "--json")["gates"] if one["in_use"]]
    assert (in_use["state"], in_use["ruled_because"]) == ("paused", "wrong template")
    ops("gate", "open", "--reason", "mended", "--yes")
    assert troubles() == WELL
