"""The events that SES would publish about an accepted mail, as EventBridge hands them on.

Pure: a call in, a dictionary out.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from email.utils import parseaddr
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from local.runtime import ACCOUNT, REGION

if TYPE_CHECKING:
    from local.sendemail import SendEmail

EventKind: TypeAlias = Literal[
    "Send",
    "Delivery",
    "DeliveryDelay",
    "Reject",
    "PermanentBounce",
    "TransientBounce",
    "Complaint",
]
EVENT_KINDS: tuple[EventKind, ...] = get_args(EventKind)

_DETAIL_TYPES: dict[str, str] = {
    "Send": "Email Sent",
    "Delivery": "Email Delivered",
    "DeliveryDelay": "Email Delivery Delayed",
    "Reject": "Email Rejected",
    "Bounce": "Email Bounced",
    "Complaint": "Email Complaint Received",
}


def ses_event(kind: EventKind, call: SendEmail, provider_message_id: str) -> dict[str, Any]:
    """One EventBridge event of that kind about all recipients of call."""
    event_type = "Bounce" if kind.endswith("Bounce") else kind
    moment = datetime.now(UTC)
    stamp = moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"
    configuration_set = str(call.body.get("ConfigurationSetName", ""))
    recipients = [parseaddr(given)[1] for given in (*call.to, *call.cc, *call.bcc)]
    tags = {tag["Name"]: [tag["Value"]] for tag in call.body.get("EmailTags", [])}
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": _DETAIL_TYPES[event_type],
        "source": "aws.ses",
        "account": ACCOUNT,
        "time": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": REGION,
        "resources": [f"arn:aws:ses:{REGION}:{ACCOUNT}:configuration-set/{configuration_set}"],
        "detail": {
            "eventType": event_type,
            "mail": {
                "timestamp": stamp,
                "source": call.sender,
                "sendingAccountId": ACCOUNT,
                "messageId": provider_message_id,
                "destination": recipients,
                "tags": {
                    "ses:operation": ["SendEmail"],
                    "ses:configuration-set": [configuration_set],
                    **tags,
                },
            },
            **_part(kind, recipients, stamp),
        },
    }


def _part(kind: EventKind, recipients: list[str], stamp: str) -> dict[str, Any]:
    """What the event says beside its mail."""
    each = [{"emailAddress": address} for address in recipients]
    common = {"timestamp": stamp, "feedbackId": uuid.uuid4().hex}
    match kind:
        case "Send":
            return {"send": {}}
        case "Reject":
            return {"reject": {"reason": "Bad content"}}
        case "Delivery":
            return {"delivery": {"timestamp": stamp, "recipients": recipients}}
        case "DeliveryDelay":
            delay = {"timestamp": stamp, "delayType": "General", "delayedRecipients": each}
            return {"deliveryDelay": delay}
        case "Complaint":
            complaint = {"complainedRecipients": each, "complaintFeedbackType": "abuse"}
            return {"complaint": {**common, **complaint}}
        case "PermanentBounce" | "TransientBounce":
            kinds = {"bounceType": kind.removesuffix("Bounce"), "bounceSubType": "General"}
            return {"bounce": {**common, **kinds, "bouncedRecipients": each}}
