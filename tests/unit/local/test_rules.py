"""Events go where the template's own rules send them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from local.rules import matches, targets
from local.runtime import ACCOUNT
from local.sendemail import SendEmail
from local.ses_events import EVENT_KINDS, ses_event
from local.template import Template

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def template() -> Template:
    """The product's template with names for what events go to."""
    parameters = {
        "Stage": "local",
        "FromAddress": "no-reply@example.com",
        "PublicUrl": "http://127.0.0.1",
        "AllowedOrigin": "http://127.0.0.1",
        "DatabaseHost": "127.0.0.1",
        "DatabaseOwnerSecretArn": "arn:owner",
    }
    return Template(
        ROOT / "template.yaml", parameters=parameters, names={"FeedbackQueue.Arn": "arn:feedback"}
    )


def event(template: Template, kind: Any = "Send") -> dict[str, Any]:
    """An event about a mail under the template's configuration set."""
    body = {"ConfigurationSetName": template.resolve({"Ref": "ConfigurationSet"})}
    call = SendEmail("no-reply@example.com", ("ada@example.com",), (), (), b"", body)
    return ses_event(kind, call, "provider-1")


@pytest.mark.parametrize("kind", EVENT_KINDS)
def test_every_event_of_our_mail_reaches_the_feedback_queue_once(
    template: Template, kind: Any
) -> None:
    assert targets(template, event(template, kind)) == ["arn:feedback"]


def test_the_sending_status_reaches_it_and_advice_does_not(template: Template) -> None:
    status = {"source": "aws.ses", "account": ACCOUNT, "detail": {}}
    for detail_type, queues in (
        ("Sending Status Disabled", ["arn:feedback"]),
        ("Sending Status Enabled", ["arn:feedback"]),
        ("Advisor Recommendation Status Open", []),
    ):
        assert targets(template, status | {"detail-type": detail_type}) == queues


def test_events_of_others_go_nowhere(template: Template) -> None:
    other = event(template)
    other["detail"]["mail"]["tags"]["ses:configuration-set"] = ["another"]
    assert targets(template, other) == []
    assert targets(template, event(template) | {"account": "210987654321"}) == []
    assert targets(template, event(template) | {"source": "aws.s3"}) == []


def test_a_pattern_asks_for_each_of_its_members_and_one_of_the_values() -> None:
    assert matches({"a": ["x", "y"]}, {"a": "y", "b": 1})
    assert matches({"a": ["x"]}, {"a": ["z", "x"]})
    assert not matches({"a": ["x"], "b": ["x"]}, {"a": "x"})
    assert not matches({"a": {"b": ["x"]}}, {"a": "x"})
    assert not matches({"a": ["x"]}, None)
