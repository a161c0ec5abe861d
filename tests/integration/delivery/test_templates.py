"""What a template decides of a mail beside its text, and what a deployment in between changes."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from postlease.rendering import SHIPPED, Templates
from tests import arrange
from tests.integration.delivery.test_attachments import KEPT, attach, pin

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from postlease.database import Connection
    from tests.integration.delivery.conftest import Sweeps


def write(root: Path, text: str = "Order {{ order_number }}", **declared: Any) -> Templates:
    """The deployed template of a receipt."""
    folder = root / "receipt" / "en"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("subject.txt.j2", "body.txt.j2", "body.html.j2"):
        (folder / name).write_text(text)
    (root / "receipt" / "template.json").write_text(json.dumps(declared))
    return Templates(root, SHIPPED)


@pytest.fixture
def deploy(tmp_path: Path, environment: Callable[..., None]) -> Callable[..., str]:
    """Puts a template of a receipt where new processes find it; answers its version."""

    def deployed(text: str = "Order {{ order_number }}", **declared: Any) -> str:
        version = write(tmp_path, text, **declared).version("receipt", "en")
        environment(
            TEMPLATES_DIRECTORY=str(tmp_path), ALLOWED_SENDERS="shop@example.com, own@example.com"
        )
        return version

    return deployed


def test_a_mail_is_from_its_template_s_sender_and_is_answered_where_the_template_says(
    sweeps: Sweeps, owner: Connection, deploy: Callable[..., str]
) -> None:
    deploy(**{"from": "Shop, Inc. <Shop@example.com>", "reply_to": "Care <care@example.net>"})
    arrange.enqueue(owner)
    assert sweeps.run().counts["sent"] == 1
    [mail] = sweeps.inbox()
    assert "Shop, Inc." in mail["from"]
    # In the spelling that is allowed: the provider's permissions know no other.
    assert "<shop@example.com>" in mail["from"]
    assert ["Reply-To", "Care <care@example.net>"] in [list(pair) for pair in mail["headers"]]


@pytest.mark.parametrize("locale", ["en", "ar"])
def test_a_receipt_names_the_file_that_comes_with_it(
    sweeps: Sweeps, owner: Connection, bucket: Callable[[str, bytes], str], locale: str
) -> None:
    sample = Templates(SHIPPED).samples("receipt")["sample-attachment.json"]
    [message_id] = arrange.enqueue(owner, parameters=sample, locale=locale)
    bucket(f"{KEPT}invoice", b"%PDF-1.7")
    attach(owner, message_id, *pin(f"{KEPT}invoice", filename=sample["attached_file"]))
    assert sweeps.run().counts["sent"] == 1
    [mail] = sweeps.inbox()
    [attached] = mail["attachments"]
    for body in (mail["text"], mail["html"]):
        assert attached["filename"] in body
        assert "Fountain pen, blue" in body
    assert ('dir="rtl"' in mail["html"]) == (locale == "ar")


def test_a_message_s_own_sender_and_reply_to_come_before_the_template_s(
    sweeps: Sweeps, owner: Connection, deploy: Callable[..., str]
) -> None:
    deploy(**{"from": "Shop <shop@example.com>", "reply_to": "care@example.net"})
    arrange.enqueue(owner, from_address="own@example.com", reply_to="me@example.net")
    assert sweeps.run().counts["sent"] == 1
    [mail] = sweeps.inbox()
    assert mail["from"] == "own@example.com"
    assert ["Reply-To", "me@example.net"] in [list(pair) for pair in mail["headers"]]


def test_a_template_s_sender_that_is_not_on_the_list_sends_nothing(
    sweeps: Sweeps, owner: Connection, deploy: Callable[..., str]
) -> None:
    deploy(**{"from": "Chief <ceo@example.org>"})
    [message_id] = arrange.enqueue(owner)
    assert sweeps.run().counts["failed"] == 1
    stored = arrange.row(owner, message_id)
    assert (stored["failure_reason"], stored["dispatched_at"]) == ("rejected", None)
    assert stored["attempts"][-1]["code"] == "sender_not_allowed"
    assert sweeps.provider.counts.requests == 0


@pytest.mark.parametrize(
    ("number", "code"), [("evil.example/login", "url_not_declared"), ("A" * 61, "text_too_long")]
)
def test_what_the_template_does_not_allow_of_a_parameter_is_not_sent(
    sweeps: Sweeps, owner: Connection, number: str, code: str
) -> None:
    """TPL-09."""
    parameters = {"order_number": number, "total": "12.00"}
    [message_id] = arrange.enqueue(owner, parameters=parameters)
    assert sweeps.run().counts["failed"] == 1
    stored = arrange.row(owner, message_id)
    assert (stored["failure_reason"], stored["dispatched_at"]) == ("render_error", None)
    assert stored["attempts"][-1]["code"] == code


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ({"order_number": "A-1"}, "parameter_missing"),
        ({"order_number": "A-1", "total": None}, "render_error"),
    ],
)
def test_a_parameter_that_is_missing_and_one_that_is_no_text_are_told_apart(
    sweeps: Sweeps, owner: Connection, parameters: dict[str, Any], code: str
) -> None:
    [message_id] = arrange.enqueue(owner, parameters=parameters)
    assert sweeps.run().counts["failed"] == 1
    stored = arrange.row(owner, message_id)
    assert (stored["failure_reason"], stored["dispatched_at"]) == ("render_error", None)
    assert stored["attempts"][-1]["code"] == code


def test_an_attempt_after_a_deployment_is_rendered_from_what_is_deployed_and_its_version_recorded(
    sweeps: Sweeps, owner: Connection, application: Connection, deploy: Callable[..., str]
) -> None:
    """TPL-03: the row names the templates of the mail that was accepted."""
    first = deploy("first {{ order_number }}")
    [message_id] = arrange.enqueue(owner)
    sweeps.meets("unavailable", times=1)
    sweeps.run()
    assert arrange.row(owner, message_id)["template_version"] is None
    second = deploy("second {{ order_number }}")
    owner.execute("UPDATE postlease.email_messages SET available_at = now()")
    assert sweeps.run().counts["sent"] == 1
    [mail] = sweeps.inbox()
    assert mail["text"].strip() == "second A-0"
    assert arrange.row(owner, message_id)["template_version"] == second != first


def test_a_mail_that_may_have_been_sent_is_sent_once_more_as_it_is_deployed_then(
    sweeps: Sweeps, owner: Connection, application: Connection, deploy: Callable[..., str]
) -> None:
    """TPL-03: the rare duplicate may differ from the first one where the provider keeps no keys."""
    deploy("first {{ order_number }}")
    [message_id] = arrange.enqueue(owner)
    sweeps.meets("lose_response", times=1)
    assert sweeps.run().counts["unknown"] == 1
    second = deploy("second {{ order_number }}")
    arrange.age(
        owner, message_id, timedelta(seconds=200), "claimed_at", "dispatched_at", "lease_expires_at"
    )
    arrange.reap(application)
    owner.execute("UPDATE postlease.email_messages SET available_at = now()")
    assert sweeps.run().counts["sent"] == 1
    assert [mail["text"].strip() for mail in sweeps.inbox()] == ["first A-0", "second A-0"]
    assert arrange.row(owner, message_id)["template_version"] == second
