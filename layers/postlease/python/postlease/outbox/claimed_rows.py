"""A claim's rows as values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from postlease.model import AttachmentReference, Claim, ClaimedMessage, TokenFacts

if TYPE_CHECKING:
    from postlease.database import Row


def claimed_message(row: Row, owner: str) -> ClaimedMessage:
    """What a claim returned, leased to owner."""
    return ClaimedMessage(
        claim=Claim(row["id"], owner, row["attempt_count"]),
        priority=row["priority"],
        available_at=row["available_at"],
        created_at=row["created_at"],
        lease_expires_at=row["lease_expires_at"],
        template=row["template"],
        locale=row["locale"],
        delivery=row["delivery"],
        retry_count=row["retry_count"],
        attempts_left=row["attempts_left"],
        counted_attempts=row["counted_attempts"],
        parameters_json=row["parameters"],
        to_addresses=tuple(row["to_addresses"]),
        cc_addresses=tuple(row["cc_addresses"]),
        bcc_addresses=tuple(row["bcc_addresses"]),
        recipient_names=_object(row["recipient_names"]),
        from_address=row["from_address"],
        reply_to=row["reply_to"],
        tags=_object(row["tags"]),
        token=_token(row),
        attachments=tuple(_attachment(entry) for entry in row["attachments"] or ()),
    )


def _object(text: str | None) -> dict[str, str]:
    """Most messages say nothing there, which needs no reading."""
    return json.loads(text) if text else {}


def _token(row: Row) -> TokenFacts | None:
    if row["token_id"] is None:
        return None
    return TokenFacts(
        id=row["token_id"],
        user_id=row["user_id"],
        purpose=row["purpose"],
        version=row["version"],
        key_id=row["key_id"],
        token_hash=row["token_hash"],
    )


def _attachment(entry: dict[str, Any]) -> AttachmentReference:
    return AttachmentReference(**entry | {"sha256": bytes.fromhex(entry["sha256"])})
