"""The suppression list holds keyed digests, never addresses; this is how to look one up.

The dispatch check (`outbox.authorize`) obeys the list; it is compared there, in the database.
"""

from __future__ import annotations

from postlease import tokens


def digest(pepper: bytes, address: str) -> bytes:
    """The list's key for a stored address: 32 bytes, the same for every spelling of case."""
    return tokens.keyed_digest(pepper, b"suppression", address.lower().encode())
