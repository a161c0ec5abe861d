"""Who a message may say it is from: the configured sender, and those on the list."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import arrange

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from postlease.database import Connection
    from tests.integration.delivery.conftest import Sweeps


def message_from(owner: Connection, sender: str) -> UUID:
    """A pending message that asks for a sender."""
    [message_id] = arrange.enqueue(owner)
    owner.execute("UPDATE postlease.email_messages SET from_address = %s", [sender])
    return message_id


@pytest.mark.parametrize(
    "sender",
    [
        "noreply@example.com",
        "billing@example.com",
        "Billing@EXAMPLE.com",
        "Ada, Inc. <billing@example.com>",
    ],
)
def test_a_message_may_be_from_a_sender_on_the_list(
    sweeps: Sweeps, owner: Connection, environment: Callable[..., None], sender: str
) -> None:
    environment(ALLOWED_SENDERS="billing@example.com,help@example.com")
    message_from(owner, sender)
    assert sweeps.run().counts["sent"] == 1
    [mail] = sweeps.inbox()
    assert mail["from"].lower().endswith(sender.rpartition(" ")[2].lower())


@pytest.mark.parametrize("sender", ["billing@example.com", "BILLING@example.com"])
def test_a_sender_is_written_as_it_is_configured(
    sweeps: Sweeps, owner: Connection, environment: Callable[..., None], sender: str
) -> None:
    """A permission for one spelling is none for another, and SES's refusal stops all mail."""
    environment(ALLOWED_SENDERS="Billing@Example.com")
    message_from(owner, f"Ada <{sender}>")
    assert sweeps.run().counts["sent"] == 1
    [mail] = sweeps.inbox()
    assert mail["from"] == "Ada <Billing@Example.com>"


@pytest.mark.parametrize(
    "sender",
    [
        "billing@example.org",
        "noreply@example.com.attacker.example",
        "noreply@example.com <ceo@example.org>",
    ],
)
def test_a_message_from_anybody_else_fails_and_never_leaves(
    sweeps: Sweeps, owner: Connection, environment: Callable[..., None], sender: str
) -> None:
    environment(ALLOWED_SENDERS="billing@example.com")
    message_id = message_from(owner, sender)
    assert sweeps.run().counts["failed"] == 1
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["failure_reason"]) == ("failed", "rejected")
    assert stored["attempts"][-1]["code"] == "sender_not_allowed"
    assert stored["dispatched_at"] is None
    assert sweeps.provider.counts.requests == 0


def test_without_a_list_there_is_one_sender(sweeps: Sweeps, owner: Connection) -> None:
    message_id = message_from(owner, "billing@example.com")
    sweeps.run()
    assert arrange.row(owner, message_id)["attempts"][-1]["code"] == "sender_not_allowed"


def test_one_message_s_sender_does_not_stop_the_others(sweeps: Sweeps, owner: Connection) -> None:
    message_from(owner, "billing@example.com")
    arrange.enqueue(owner, 3)
    assert sweeps.run().counts["sent"] == 3
