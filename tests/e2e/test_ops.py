"""The commands of whoever is on call, against the product as it runs here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from postlease.model import event_id
from tests import arrange

if TYPE_CHECKING:
    from collections.abc import Callable

    from local.stack import Stack
    from postlease.database import Connection

    Ops = Callable[..., Any]

ROOT = Path(__file__).parents[2]


def test_a_refused_message_is_found_understood_and_sent_once_more(
    ops: Ops, swept_by_hand: Stack, emptied: Connection
) -> None:
    ids = [event_id(one) for one in arrange.enqueue(emptied, 2)]
    swept_by_hand.set_faults("reject", times=2)
    swept_by_hand.invoke("sweep")
    found = ops("list", "--status", "failed", "--since", "1h", "--json")
    assert {one["event_id"] for one in found["messages"]} == set(ids)
    [attempt] = ops("show", ids[0], "--json")["attempts"]
    shown = ops("show", ids[0])
    for part in (attempt["owner"], "attempt 1: rejected (message_rejected)", "r***@example.com"):
        assert part in shown
    assert "refused this message for good" in shown
    assert "reader@" not in shown
    assert ops("retry", "--reason", "rejected", "--dry-run", "--json")["counted"] == 2
    ops("retry", "--reason", "rejected", status=6)
    assert ops("retry", "--reason", "rejected", "--yes", "--json") == {
        "counted": 2,
        "retried": 2,
        "left": 0,
    }
    swept_by_hand.invoke("sweep")
    message = ops("show", ids[0], "--json")
    assert f"accepted, provider's id {message['provider_message_id']}" in ops("show", ids[0])
    assert ops("stats", "--json")["last_day"] == {"sent": 2, "failed": 0, "reasons": {}}


def test_an_unknown_outcome_shows_the_claim_that_holds_it_and_is_resolved(
    ops: Ops, swept_by_hand: Stack, emptied: Connection
) -> None:
    [message_id] = arrange.enqueue(emptied)
    event = event_id(message_id)
    swept_by_hand.set_faults("lose_response", times=1)
    swept_by_hand.invoke("sweep")
    assert "being sent; the lease ends at" in ops("show", event)
    arrange.end_lease(emptied, message_id)
    assert event in ops("list", "--unknown")
    claim = ops("show", event, "--json")["claim"]
    shown = ops("show", event)
    assert f"attempt 1: claimed by {claim['owner']}, lease until" in shown
    assert "may have left from here on" in shown
    assert "can be resolved as failed after" in ops("resolve", event, "--as", "failed", status=1)
    assert ops("resolve", event, "--as", "sent") == f"{event}  sent\n"
    assert "sent by an operator's word" in ops("show", event)


def test_a_pause_holds_all_mail_through_probes_and_events_until_somebody_opens_the_gate(
    ops: Ops, swept_by_hand: Stack, emptied: Connection
) -> None:
    [message_id] = arrange.enqueue(emptied)
    event = event_id(message_id)
    ops("gate", "pause", "--reason", "wrong template", "--yes")
    swept_by_hand.invoke("sweep")
    assert "The gate of ses is paused (operator)." in ops("show", event)
    assert "123456789012:user/local: wrong template" in ops("stats")
    assert "gate=ses:paused" in ops("watch", "--count", "1")
    assert len(swept_by_hand.inbox()) == 0
    assert ops("gate", "open", "--reason", "mended", "--yes").startswith("ses  open")
    swept_by_hand.invoke("sweep")
    assert "Now: sent by ses" in ops("show", event)


def test_what_is_asked_in_vain_is_told_clearly(ops: Ops, emptied: Connection) -> None:
    unknown = "evt_01M8MAWE46EPBBT1MHDSY4Q8D4"
    assert unknown in ops("show", unknown, status=3)
    ops("suppress", "ada@example.com", "--until", "1h")
    assert "Off the list: manual" in ops("unsuppress", "ada@example.com")
    ops("unsuppress", "ada@example.com", status=3)
    [message_id] = arrange.enqueue(emptied)
    assert "failed (cancelled)" in ops("cancel", str(message_id))
    ops("cancel", event_id(message_id), status=1)


def test_the_module_runs_by_its_name_and_signs_with_the_variables_of_aws(
    swept_by_hand: Stack, emptied: Connection
) -> None:
    environment = {
        "AWS_ENDPOINT_URL_EXECUTE_API": swept_by_hand.url,
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "guessed",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    ended = subprocess.run(
        [sys.executable, "-m", "ops", "stats"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (4, "")
    assert ended.stderr.startswith("ops: GET /v1/stats is not allowed (403: Forbidden)")
