"""Delivery: claim, prepare, authorize, send, record.

    draining     the claim loop
    intake       what is claimed, and for what there is room
    launching    claimed messages on their way
    crew         the threads that carry them on
    slots        how many messages are in flight, and bytes of their attachments
    calls        how many are let through to the provider, and how far ahead others are claimed
    preparing    a claimed message to bytes
    sending      one message's way, up to its settlement
    deadline     until when a run goes on, and a message may be called for, and recorded
    rates        what providers say about their rate
    gatekeeping  the pace of sending, and what the provider's gate is told
    outcomes     what a result means for its message
    requests     what is asked of the writer, and who waits for it
    writer       group commit of authorizations and records
    lanes        a connection, the thread that writes on it, and its lines
    connections  the connections of one run
    turns        when a message may leave, where a rate is kept to
    tuning       the interpreter as a run wants it
    tally        what a run did

Owner of the question "what does this outcome mean"; statements live in `outbox`, providers in
`providers`.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from postlease import outbox, providers, rendering
from postlease.delivery.calls import Calls
from postlease.delivery.connections import Connections
from postlease.delivery.deadline import Times
from postlease.delivery.draining import Drain
from postlease.delivery.gatekeeping import Gatekeeper
from postlease.delivery.preparing import Preparer
from postlease.delivery.sending import Sender
from postlease.delivery.tally import Tally
from postlease.delivery.tuning import tuned
from postlease.delivery.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from uuid import UUID

    from postlease.config import Settings

__all__ = ["Connections", "Tally", "Times", "deliver", "deliver_named"]


def deliver(settings: Settings, times: Times, *, worker: str, connections: Connections) -> Tally:
    """Send what is due until times say stop; answers what was done.

    worker names this environment in the leases. connections are this run's alone. Every claim is
    settled or left to its lease when this returns. UnavailableError if the database is away.
    """
    tally = Tally()
    with _drain(settings, times, tally, worker=worker, connections=connections) as drain:
        drain.run()
    return tally


def deliver_named(
    settings: Settings,
    times: Times,
    ids: Sequence[UUID],
    *,
    worker: str,
    connections: Connections,
) -> Tally:
    """Send those of ids that are due and that nobody else has; answers what was done.

    The others of ids are left alone, quietly. tally.unseen holds those that could not be looked
    at: the database was away, or the time short. Times never linger here. worker and connections
    as in `deliver`.
    """
    tally = Tally()
    with _drain(settings, times, tally, worker=worker, connections=connections) as drain:
        drain.run_named(ids)
    return tally


@contextlib.contextmanager
def _drain(
    settings: Settings,
    times: Times,
    tally: Tally,
    *,
    worker: str,
    connections: Connections,
) -> Iterator[Drain]:
    """A drain with all that its senders need; what they wrote is in the database at the end."""
    provider = providers.choose(settings)
    needed = settings.times.needed_to_start
    terms = outbox.Terms(provider.name, provider.keeps_keys, needed, settings.max_attempts)
    with (
        connections.for_one_run(),
        tuned(),
        Writer(connections, terms, Calls(settings.send_slots)) as writer,
    ):
        gatekeeper = Gatekeeper(
            writer, provider=provider, tally=tally, own_limit=settings.sends_per_second
        )
        sender = Sender(
            preparer=Preparer(settings, rendering.templates()),
            writer=writer,
            provider=provider,
            gatekeeper=gatekeeper,
            tally=tally,
            needed=needed,
        )
        yield Drain(
            settings=settings,
            claims=connections.claims,
            sender=sender,
            gatekeeper=gatekeeper,
            provider=provider.name,
            tally=tally,
            times=times,
            worker=worker,
        )
