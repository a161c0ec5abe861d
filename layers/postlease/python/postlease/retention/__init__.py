"""What is old leaves: finished messages with the objects they owned, what they said before that,
spent tokens, keys and windows, and what the suppression list no longer needs.

    running    a run: one duty after the other, in chunks, for as long as there is time
    ending     when a run came to its end last
    duties     the lock of a chunk, the lease of what takes calls to the storage, and positions
    spending   tokens, idempotency keys and rate windows
    archiving  a chunk of messages becomes a file, then leaves
    files      the archive's files and manifests
    erasing    a person's request: what names an address is redacted, in the archive too
    rehearsing what a run would do

Each chunk is a transaction of its own under one lock, so that a run can stop anywhere and the next
one goes on. Nothing pending or sending is ever touched, but what a person wants erased: what is
pending then is cancelled. What has been pending far too long is counted: `outbox.old_pending`, the
metric OldPending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from postlease.first_use import on_first_use

if TYPE_CHECKING:
    from postlease.retention.duties import LOCK
    from postlease.retention.ending import end, seconds_since_end
    from postlease.retention.erasing import Erasure, erase
    from postlease.retention.rehearsing import Rehearsal, rehearse
    from postlease.retention.running import CHUNK, Retained, Rules, run
    from postlease.retention.spending import PURGE_KEYS, PURGE_TOKENS, PURGE_WINDOWS
else:
    __getattr__ = on_first_use(
        __name__,
        duties="LOCK",
        ending="end seconds_since_end",
        erasing="Erasure erase",
        rehearsing="Rehearsal rehearse",
        running="CHUNK Retained Rules run",
        spending="PURGE_KEYS PURGE_TOKENS PURGE_WINDOWS",
    )
