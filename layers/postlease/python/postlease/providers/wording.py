"""Phrases in refusals that several providers share, and what they say.

Texts are looked at and dropped: they hold addresses.
"""

from __future__ import annotations

import re

from postlease.model import Blocked, Outcome, Rejected

DAILY_QUOTA = r"(daily|24.?hour).{0,40}(quota|limit)"
SENDING_RATE = r"(sending|send) rate|rate (limit )?exceeded"
SUSPENDED = r"\b(sending|account)\b.{0,30}\b(suspended|shut ?down)"
PAUSED = r"\b(sending|account)\b.{0,30}\b(paused|disabled|under review)"

_ADDRESS = re.compile(r"\S*@\S*")
_UNVERIFIED = re.compile(r"not verified", re.IGNORECASE)
_FAILED_IDENTITIES = re.compile(r"identities failed the check[^:]*:(.*)", re.IGNORECASE | re.DOTALL)


def without_addresses(text: str) -> str:
    """text with each address left out: whoever owns one chose its words."""
    return _ADDRESS.sub(" ", text)


def unverified(text: str, sender: str) -> Outcome | None:
    """Whose identity a text calls not verified, or None if it speaks of something else.

    In SES's sandbox recipients must be verified too, and the text lists whose identity failed. A
    text that names nobody is taken for ours: a blocked gate can be opened again, a message that
    was failed for the account's fault cannot.
    """
    if not _UNVERIFIED.search(text):
        return None
    listed = _FAILED_IDENTITIES.search(text)
    if listed is None:
        return Blocked("sender_unverified")
    identities = {part.strip("<>\"'.").lower() for part in re.split(r"[\s,;]+", listed[1])}
    sender = sender.lower()
    if identities & {sender, sender.rpartition("@")[2]}:
        return Blocked("sender_unverified")
    return Rejected("recipient_unverified")
