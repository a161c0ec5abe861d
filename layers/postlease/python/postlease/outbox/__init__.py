"""The outbox: the only room that changes a message's status.

    accepting    messages are born for the API's signed callers
    enqueueing   a message is born, or replaced by a newer one
    claiming     pending -> sending, for the holder of a lease
    claimed_rows a claim's rows as values
    arrays       a batch's columns as PostgreSQL reads them
    floors       how far a run has claimed
    looking      what waits to be claimed
    dispatching  the last check of eligibility, and the mark that the call may leave
    recording    sending -> what the attempt made of it, fenced by the claim
    settling     what the provider's own event proves, ahead of or behind its record
    reaping      leases that ended without a record, and messages that waited too long
    finding      what an operator searches and looks into
    operating    what an operator resolves and cancels
    retrying     what an operator has sent once more
    purging      finished messages leave
    archiving    finished messages leave for a file
    redacting    what a message said, and to whom, is taken out of it
    watching     what the API and the metrics may know

Every statement names the status that it expects. Statements that change several messages lock them
in id order first; only claim, reaper and retention skip what is locked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from postlease.first_use import on_first_use

if TYPE_CHECKING:
    from postlease.outbox.accepting import Accepted, enqueue_for
    from postlease.outbox.archiving import (
        Chunk,
        ReadMessage,
        next_chunk,
        purge_chunk,
        read_chunk,
    )
    from postlease.outbox.claiming import Claimant, Room, claim, claim_named, claim_probe
    from postlease.outbox.dispatching import Addressee, Asked, Terms, Verdict, authorize
    from postlease.outbox.enqueueing import (
        enqueue,
        enqueue_auth,
        rehearse_supersede,
        supersede,
        supersede_notes,
        take_place,
    )
    from postlease.outbox.finding import MessageState, Wanted, find, search
    from postlease.outbox.floors import Floors
    from postlease.outbox.looking import HeldUp, held_up, suspects_due, waiting
    from postlease.outbox.operating import CancelWord, ResolveWord, cancel, resolve
    from postlease.outbox.purging import old_pending, purge
    from postlease.outbox.reaping import (
        Reaped,
        expire_waiting,
        reap_dispatched,
        reap_keyed,
        reap_undispatched,
    )
    from postlease.outbox.recording import record
    from postlease.outbox.redacting import (
        REDACTED_ADDRESS,
        Erased,
        erase,
        mention,
        redact,
        spelling,
    )
    from postlease.outbox.retrying import RetryWord, count_retriable, retry, retry_many
    from postlease.outbox.settling import settle_accepted
    from postlease.outbox.watching import (
        Backlog,
        ClassBacklog,
        EventState,
        backlog,
        backlog_by_class,
        event_state,
        finished_lately,
    )
else:
    __getattr__ = on_first_use(
        __name__,
        accepting="Accepted enqueue_for",
        archiving="Chunk ReadMessage next_chunk purge_chunk read_chunk",
        claiming="Claimant Room claim claim_named claim_probe",
        dispatching="Addressee Asked Terms Verdict authorize",
        enqueueing="enqueue enqueue_auth rehearse_supersede supersede supersede_notes take_place",
        finding="MessageState Wanted find search",
        floors="Floors",
        looking="HeldUp held_up suspects_due waiting",
        operating="CancelWord ResolveWord cancel resolve",
        purging="old_pending purge",
        reaping="Reaped expire_waiting reap_dispatched reap_keyed reap_undispatched",
        recording="record",
        redacting="REDACTED_ADDRESS Erased erase mention redact spelling",
        retrying="RetryWord count_retriable retry retry_many",
        settling="settle_accepted",
        watching=(
            "Backlog ClassBacklog EventState backlog backlog_by_class event_state finished_lately"
        ),
    )
