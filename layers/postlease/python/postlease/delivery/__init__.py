"""Delivery: claim, prepare, authorize, send, record.

    draining    the claim loop and its send slots
    preparing   a claimed message to bytes
    sending     one message's way, up to its settlement
    outcomes    what a result means for its message
    writer      group commit of authorizations and records
    tally       what a run did

Owner of the question "what does this outcome mean"; statements live in `outbox`, providers in
`providers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from postlease import providers, rendering
from postlease.delivery.draining import Drain, Times
from postlease.delivery.preparing import Preparer
from postlease.delivery.sending import Sender
from postlease.delivery.tally import Tally
from postlease.delivery.writer import Writer

if TYPE_CHECKING:
    from postlease.config import Settings
    from postlease.database import Database

__all__ = ["Tally", "Times", "deliver"]


def deliver(
    settings: Settings, times: Times, *, worker: str, claims: Database, writes: Database
) -> Tally:
    """Send what is due until times say stop; answers what was done.

    worker names this environment in the leases. claims and writes are connections of this run
    alone, so that a claim never waits behind a record. Every claim is settled or left to its lease
    when this returns. UnavailableError if the database is away.
    """
    provider = providers.choose(settings)
    needed = settings.times.needed_to_start
    tally = Tally()
    with Writer(
        writes, provider=provider.name, keeps_keys=provider.keeps_keys, needed=needed
    ) as writer:
        sender = Sender(
            preparer=Preparer(settings, rendering.templates()),
            writer=writer,
            provider=provider,
            tally=tally,
            needed=needed,
        )
        Drain(
            settings=settings,
            claims=claims,
            sender=sender,
            provider=provider.name,
            tally=tally,
            times=times,
            worker=worker,
        ).run()
    return tally
