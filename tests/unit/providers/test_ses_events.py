"""What SES tells is read without trust: ours is understood, all else ignored, nothing raises."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postlease.providers.ses_events import Ignored, MailEvent, SendingStatus, read

EVENTS = Path(__file__).parents[3] / "events"
ACCOUNT = "123456789012"
MESSAGE = UUID("019ce1a7-f0d2-7c31-8f0a-2b6d9e5c4a11")
PROVIDER_ID = "0100019ce1a7f2c1-3d0b8f8e-5f0c-4b0e-9a57-d1f0b7b4c0aa-000000"
GONE = object()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def sample(name: str) -> dict[str, Any]:
    """The EventBridge event inside a sample."""
    batch = json.loads((EVENTS / f"feedback-{name}.json").read_text("utf-8"))
    event: dict[str, Any] = json.loads(batch["Records"][0]["body"])
    return event


def understood(event: Any, *, account: str = ACCOUNT, ours: str | None = "postlease") -> Any:
    return read(json.dumps(event), account=account, configuration_set=ours)


def changed(event: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A copy of event with value at path, or nothing there."""
    copied = copy.deepcopy(event)
    place = copied
    for name in path[:-1]:
        place = place[name]
    if value is GONE:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return copied


@pytest.mark.parametrize(
    ("name", "kind", "effect", "happened_at"),
    [
        ("send", "Send", None, None),
        ("delivery", "Delivery", "delivered", "2026-03-12T09:30:04.871+00:00"),
        ("delivery-delay", "DeliveryDelay", None, "2026-03-12T09:40:04.871+00:00"),
        ("bounce-permanent", "Bounce", "hard", "2026-03-12T09:30:04.871+00:00"),
        ("bounce-transient", "Bounce", "soft", "2026-03-12T23:30:04.871+00:00"),
        ("complaint", "Complaint", "complaint", "2026-03-12T11:02:41+00:00"),
        ("reject", "Reject", None, None),
    ],
)
def test_each_kind_names_the_attempt_and_what_it_means_for_addresses(
    name: str, kind: str, effect: str | None, happened_at: str | None
) -> None:
    assert understood(sample(name)) == MailEvent(
        kind=kind,  # type: ignore[arg-type]
        message_id=MESSAGE,
        attempt=1,
        provider_message_id=PROVIDER_ID,
        effect=effect,  # type: ignore[arg-type]
        addresses=("ada@example.com",) if effect else (),
        happened_at=datetime.fromisoformat(happened_at) if happened_at else None,
    )


@pytest.mark.parametrize(("name", "enabled"), [("disabled", False), ("enabled", True)])
def test_a_sending_status_is_told(name: str, enabled: bool) -> None:
    event = sample(f"sending-{name}")
    assert understood(event) == SendingStatus(enabled)
    assert understood(event | {"resources": []}) == SendingStatus(enabled)
    assert understood(event | {"resources": [f"arn:aws:ses:us-east-1:{ACCOUNT}"]}) == (
        SendingStatus(enabled)
    )


@pytest.mark.parametrize("kind", ["configuration-set", "tenant", "identity"])
def test_the_status_of_somebody_else_s_part_is_ignored(kind: str) -> None:
    other = f"arn:aws:ses:us-east-1:{ACCOUNT}:{kind}/another"
    assert understood(sample("sending-disabled") | {"resources": [other]}) == Ignored("foreign")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("resources",), "all"),
        (("resources",), [7]),
        (("detail", "data", "record", "status"), "ENABLED"),
    ],
)
def test_a_status_that_contradicts_itself_is_ignored(path: tuple[str, ...], value: Any) -> None:
    event = changed(sample("sending-disabled"), path, value)
    assert understood(event) == Ignored("malformed")


TAGS = ("detail", "mail", "tags")


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("source",), "shop.orders", "foreign"),
        (("account",), "210987654321", "foreign"),
        (("account",), GONE, "foreign"),
        (("detail", "mail", "sendingAccountId"), "210987654321", "foreign"),
        ((*TAGS, "ses:configuration-set"), ["another"], "foreign"),
        ((*TAGS, "ses:configuration-set"), ["postlease", "another"], "foreign"),
        ((*TAGS, "ses:configuration-set"), GONE, "foreign"),
        ((*TAGS, "postlease-id"), GONE, "untagged"),
        ((*TAGS, "postlease-id"), [], "untagged"),
        ((*TAGS, "postlease-id"), [str(MESSAGE), str(MESSAGE)], "untagged"),
        ((*TAGS, "postlease-id"), str(MESSAGE), "untagged"),
        ((*TAGS, "postlease-id"), [str(MESSAGE).upper()], "untagged"),
        ((*TAGS, "postlease-id"), ["019ce1a7"], "untagged"),
        ((*TAGS, "postlease-attempt"), GONE, "untagged"),
        ((*TAGS, "postlease-attempt"), ["0"], "untagged"),
        ((*TAGS, "postlease-attempt"), ["-1"], "untagged"),
        ((*TAGS, "postlease-attempt"), ["1234567890"], "untagged"),
        ((*TAGS, "postlease-attempt"), ["\u0661"], "untagged"),
        ((*TAGS, "postlease-attempt"), [1], "untagged"),
        (TAGS, None, "foreign"),
        (("detail", "eventType"), "Click", "other_kind"),
        (("detail", "eventType"), "Open", "other_kind"),
        (("detail", "eventType"), ["Send"], "other_kind"),
        (("detail", "eventType"), GONE, "other_kind"),
        (("detail", "mail", "messageId"), GONE, "malformed"),
        (("detail", "mail", "messageId"), "a\0b", "malformed"),
        (("detail", "mail", "messageId"), "x" * 251, "malformed"),
        (("detail", "mail"), [], "foreign"),
        (("detail",), None, "foreign"),
    ],
)
def test_what_is_not_ours_or_not_well_formed_is_ignored(
    path: tuple[str, ...], value: Any, reason: str
) -> None:
    assert understood(changed(sample("bounce-permanent"), path, value)) == Ignored(reason)  # type: ignore[arg-type]


def test_a_rendering_failure_is_ignored() -> None:
    assert understood(sample("rendering-failure")) == Ignored("other_kind")


def test_an_account_or_a_deployment_without_ses_ignores_everything() -> None:
    assert understood(sample("send"), account="210987654321") == Ignored("foreign")
    assert understood(sample("send"), ours=None) == Ignored("foreign")


@pytest.mark.parametrize(
    ("bounce_type", "subtype", "effect"),
    [
        ("Permanent", "General", "hard"),
        ("Permanent", "NoEmail", "hard"),
        ("Permanent", "OnAccountSuppressionList", "hard"),
        ("Transient", "General", "soft"),
        ("Transient", "MailboxFull", "soft"),
        ("Transient", "MessageTooLarge", None),
        ("Transient", "ContentRejected", None),
        ("Transient", "AttachmentRejected", None),
        ("Undetermined", "Undetermined", "soft"),
        ("permanent", "General", None),
        (7, [], None),
    ],
)
def test_a_bounce_is_hard_or_soft_or_says_nothing_of_the_mailbox(
    bounce_type: Any, subtype: Any, effect: str | None
) -> None:
    event = changed(sample("bounce-permanent"), ("detail", "bounce", "bounceType"), bounce_type)
    event = changed(event, ("detail", "bounce", "bounceSubType"), subtype)
    found = understood(event)
    assert (found.kind, found.effect) == ("Bounce", effect)
    assert found.addresses == (("ada@example.com",) if effect else ())


def test_who_says_that_a_mail_is_no_spam_does_not_complain() -> None:
    path = ("detail", "complaint", "complaintFeedbackType")
    assert understood(changed(sample("complaint"), path, "not-spam")).effect is None
    assert understood(changed(sample("complaint"), path, GONE)).effect == "complaint"


@pytest.mark.parametrize(
    ("given_as", "addresses"),
    [
        ([{"emailAddress": "Ada@Example.com"}], ("ada@example.com",)),
        ([{"emailAddress": "Ada <ada@example.com>"}], ("ada@example.com",)),
        ([{"emailAddress": "a@x.org"}, {"emailAddress": "A@x.org"}], ("a@x.org",)),
        ([{"emailAddress": None}, {"address": "a@x.org"}, 7, {}], ()),
        ([{"emailAddress": "\ud800@example.com"}], ()),
        ([{"emailAddress": "no address"}], ()),
        ([{"emailAddress": f"a{n}@x.org"} for n in range(60)], 50),
        ({"emailAddress": "a@x.org"}, ()),
        (None, ()),
    ],
)
def test_only_addresses_that_the_event_names_are_concerned(
    given_as: Any, addresses: tuple[str, ...] | int
) -> None:
    path = ("detail", "bounce", "bouncedRecipients")
    found = understood(changed(sample("bounce-permanent"), path, given_as)).addresses
    assert (len(found) if isinstance(addresses, int) else found) == addresses


@pytest.mark.parametrize(
    "stamp", [None, 7, "yesterday", "2026-03-12T09:30:04", "0001-01-01T00:00:00+23:59", "9" * 5_000]
)
def test_a_time_that_cannot_be_read_is_no_time(stamp: Any) -> None:
    event = changed(sample("bounce-permanent"), ("detail", "bounce", "timestamp"), stamp)
    assert understood(event).happened_at is None


def test_the_time_is_the_event_s_own() -> None:
    moment = datetime(2026, 3, 12, 9, 30, 4, 871_000, tzinfo=UTC)
    assert understood(sample("bounce-permanent")).happened_at == moment


def test_an_address_is_not_printed() -> None:
    assert "ada@" not in repr(understood(sample("bounce-permanent")))


@pytest.mark.parametrize(
    "body", [None, 7, b"{}", "", "{", "null", "[]", '"text"', "[" * 100_000, "9" * 10_000]
)
def test_what_is_no_event_is_ignored(body: Any) -> None:
    assert read(body, account=ACCOUNT, configuration_set="postlease") == Ignored("unreadable")


@given(st.text())
def test_no_text_raises(body: str) -> None:
    assert isinstance(read(body, account=ACCOUNT, configuration_set="postlease"), Ignored)


@given(JSON)
def test_no_json_raises(value: Any) -> None:
    assert isinstance(understood(value), Ignored)


NAMES = ["send", "delivery", "bounce-permanent", "bounce-transient", "complaint", "sending-enabled"]


@given(st.sampled_from(NAMES), st.data())
def test_an_event_with_anything_anywhere_raises_nothing(name: str, data: st.DataObject) -> None:
    event = sample(name)
    place: Any = event
    while True:
        members = list(place) if isinstance(place, dict) else range(len(place))
        key = data.draw(st.sampled_from(list(members)))
        if not (isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans())):
            break
        place = place[key]
    place[key] = data.draw(JSON)
    found = understood(event)
    assert isinstance(found, MailEvent | SendingStatus | Ignored)
    if isinstance(found, MailEvent):
        assert len(found.addresses) <= 50
