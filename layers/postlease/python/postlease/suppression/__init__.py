"""The suppression list holds keyed digests, never addresses.

    noting    what the provider's events put on it, and when that ends
    listing   what an operator puts there, finds there and takes off

An address has an entry for each reason, so that a complaint, which auth mail passes, hides no
bounce, which it does not. The dispatch check (`outbox.authorize`) obeys the list; it is compared
there, in the database.
"""

from postlease.suppression.listing import Entry, Reason, delete, find, page, put
from postlease.suppression.noting import (
    HARD_LIFETIME,
    SOFT_LIFETIME,
    SOFT_LIMIT,
    SOFT_WINDOW,
    bounce_digest,
    digest,
    note_complaint,
    note_delivery,
    note_hard,
    note_soft,
    purge,
)

__all__ = [
    "HARD_LIFETIME",
    "SOFT_LIFETIME",
    "SOFT_LIMIT",
    "SOFT_WINDOW",
    "Entry",
    "Reason",
    "bounce_digest",
    "delete",
    "digest",
    "find",
    "note_complaint",
    "note_delivery",
    "note_hard",
    "note_soft",
    "page",
    "purge",
    "put",
]
