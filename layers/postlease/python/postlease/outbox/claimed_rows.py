"""A claim's rows as values."""

from __future__ import annotations

import json
from typing import Any

from postlease.model import AttachmentReference, Claim, ClaimedMessage, TokenFacts


def claimed_message(row: tuple[Any, ...], owner: str) -> ClaimedMessage:
    """What a claim returned, in its order, leased to owner."""
    (
        message_id,
        attempt,
        priority,
        available_at,
        created_at,
        lease_expires_at,
        template,
        locale,
        delivery,
        attempts_left,
        counted_attempts,
        retry_count,
        parameters,
        to_addresses,
        cc_addresses,
        bcc_addresses,
        recipient_names,
        from_address,
        reply_to,
        tags,
        *token,
        attachments,
    ) = row
    return ClaimedMessage(
        Claim(message_id, owner, attempt),
        priority,
        available_at,
        created_at,
        lease_expires_at,
        template,
        locale,
        delivery,
        attempts_left,
        counted_attempts,
        retry_count,
        parameters,
        tuple(to_addresses),
        tuple(cc_addresses),
        tuple(bcc_addresses),
        _object(recipient_names),
        from_address,
        reply_to,
        _object(tags),
        TokenFacts(*token) if token[0] else None,
        tuple(map(_attachment, attachments)) if attachments else (),
    )


def _object(text: str | None) -> dict[str, str]:
    """Most messages say nothing there, which needs no reading."""
    return json.loads(text) if text else {}


def _attachment(entry: dict[str, Any]) -> AttachmentReference:
    return AttachmentReference(**entry | {"sha256": bytes.fromhex(entry["sha256"])})
