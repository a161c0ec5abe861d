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
    first_use                              loads modules when their names are asked for

For code that asks for mail on a connection of its own there are `enqueue`, `Recipient` and
`AttachmentReference`. Whoever does not name them does not import them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from postlease.first_use import on_first_use

__all__ = ["AttachmentReference", "Recipient", "enqueue"]

if TYPE_CHECKING:
    from postlease.model import AttachmentReference
    from postlease.producing import Recipient, enqueue
else:
    __getattr__ = on_first_use(__name__, model="AttachmentReference", producing="Recipient enqueue")
