"""Model B, whole: a sign-up over HTTP, SQS, the doorbell's process, and a mail without a sweep."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from local.stack import Stack
from tests import arrange
from tests.e2e.conftest import Answer, ask
from tests.e2e.test_delivery import TIMES, pass_time
from tests.emptying import emptied

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postlease.database import Connection

SECONDS = 30
"""For a cold start of every function on a loaded machine."""


@pytest.fixture(scope="module")
def by_hand(server_url: str) -> Iterator[Stack]:
    """The product with nothing that starts by itself."""
    with Stack(database_url=server_url, settings=TIMES) as stack:
        yield stack


@pytest.fixture
def rows(by_hand: Stack) -> Iterator[Connection]:
    """The owner's connection to its database, with nothing left of an earlier test."""
    with emptied(by_hand) as owner:
        yield owner


def sign_up(stack: Stack, address: str) -> Answer:
    """A sign-up's answer."""
    answer = ask(f"{stack.url}/v1/signups", "POST", {"email": address})
    assert answer.status == 202
    return answer


def test_a_sign_up_s_mail_leaves_without_a_sweep(server_url: str) -> None:
    with Stack(database_url=server_url, settings=TIMES, queues=True) as stack:
        # On a loaded machine a ring may be lost; asking again rings again for the same mail.
        for _ in range(3):
            event_id = sign_up(stack, "ada@example.com").json["verification"]["event_id"]
            if stack.provider.wait_for(lambda counts: counts.accepted == 1, seconds=SECONDS / 3):
                break
        [mail] = stack.inbox()
        assert mail["to"] == ["ada@example.com"]
        assert stack.functions["sweep"].cold_starts == 0
        assert stack.invoke("sweep")["claimed"] == 0
        assert ask(f"{stack.url}/v1/events/{event_id}").json["status"] == "sent"
        assert len(stack.inbox()) == 1


def test_with_schedules_off_a_ring_waits_until_somebody_ticks(
    by_hand: Stack, rows: Connection
) -> None:
    sign_up(by_hand, "grace@example.com")
    assert arrange.statuses(rows) == {"pending": 1}
    invoke = f"{by_hand.url}/_local/api/invoke/doorbell"
    assert ask(invoke, "POST").json == {"batchItemFailures": []}
    assert arrange.statuses(rows) == {"sent": 1}
    assert ask(invoke, "POST").json == {"batchItemFailures": []}
    assert len(by_hand.inbox()) == 1


def test_a_doorbell_that_is_killed_leaves_its_mail_to_reaper_and_sweep(
    by_hand: Stack, rows: Connection
) -> None:
    sign_up(by_hand, "alan@example.com")
    by_hand.set_faults("stall", times=1)
    assert killed_in_the_call(by_hand)
    assert arrange.statuses(rows) == {"sending": 1}
    pass_time(rows)
    assert by_hand.invoke("reaper")["unknown_returned"] == 1
    assert by_hand.invoke("sweep")["sent"] == 1
    assert len(by_hand.inbox()) == 1


def killed_in_the_call(stack: Stack) -> bool:
    """Whether a doorbell died while the provider held its call."""
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(stack.run, "doorbell")
        held = stack.provider.wait_for(lambda counts: counts.held == 1, seconds=SECONDS)
        stack.kill("doorbell")
        return held and running.result().error is not None
