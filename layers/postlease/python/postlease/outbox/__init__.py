"""The outbox: the only room that changes a message's status.

    enqueueing   a message is born, or replaced by a newer one
    claiming     pending -> sending, for the holder of a lease
    dispatching  the last check of eligibility, and the mark that the call may leave
    recording    sending -> what the attempt made of it, fenced by the claim
    settling     what the provider's own event proves, ahead of or behind its record
    reaping      leases that ended without a record, and messages that waited too long
    operating    what an operator finds, retries and resolves
    purging      finished messages leave
    watching     what the API and the metrics may know

Every statement names the status that it expects. Statements that change several messages lock them
in id order first; only claim, reaper and retention skip what is locked.
"""

from postlease.outbox.claiming import (
    Claimant,
    Floors,
    claim,
    claim_named,
    claim_probe,
    suspects_due,
    waiting,
)
from postlease.outbox.dispatching import Addressee, Asked, Terms, Verdict, authorize
from postlease.outbox.enqueueing import (
    enqueue,
    enqueue_auth,
    rehearse_supersede,
    supersede,
    supersede_notes,
)
from postlease.outbox.operating import (
    MessageState,
    ResolveWord,
    RetryWord,
    Wanted,
    find,
    resolve,
    retry,
    search,
)
from postlease.outbox.purging import purge
from postlease.outbox.reaping import (
    Reaped,
    expire_waiting,
    reap_dispatched,
    reap_keyed,
    reap_undispatched,
)
from postlease.outbox.recording import record
from postlease.outbox.settling import settle_accepted
from postlease.outbox.watching import Backlog, EventState, backlog, event_state

__all__ = [
    "Addressee",
    "Asked",
    "Backlog",
    "Claimant",
    "EventState",
    "Floors",
    "MessageState",
    "Reaped",
    "ResolveWord",
    "RetryWord",
    "Terms",
    "Verdict",
    "Wanted",
    "authorize",
    "backlog",
    "claim",
    "claim_named",
    "claim_probe",
    "enqueue",
    "enqueue_auth",
    "event_state",
    "expire_waiting",
    "find",
    "purge",
    "reap_dispatched",
    "reap_keyed",
    "reap_undispatched",
    "record",
    "rehearse_supersede",
    "resolve",
    "retry",
    "search",
    "settle_accepted",
    "supersede",
    "supersede_notes",
    "suspects_due",
    "waiting",
]
