"""Postlease: transactional email that your database can vouch for.

The map, from the top of the import order down (nothing imports upwards):

    http                                   HTTP events in, problem documents out
    accounts  messages  delivery  feedback  migrations  retention  producing
    outbox  suppression  attachments  rendering  providers  idempotency  limits  gate
    tokens  backoff  addresses  mime       pure: no network, no clock
    problems  strict_json  pages           pure as well, for http and the handlers
    database  telemetry
    secret_store
    config                                 the only reader of the environment
    model  errors

For code that asks for mail on a connection of its own there are `enqueue`, `Recipient` and
`AttachmentReference`. Whoever does not name them does not import them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from postlease.model import AttachmentReference
    from postlease.producing import Recipient, enqueue

__all__ = ["AttachmentReference", "Recipient", "enqueue"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from postlease import model, producing  # noqa: PLC0415 - a handler starts sooner without them

    return getattr(model if name == "AttachmentReference" else producing, name)
