"""One claimed message's way: prepare, wait its turn, authorize, a last look, send, record."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from postlease.delivery import outcomes
from postlease.errors import PostleaseError
from postlease.model import Blocked, Outcome, Rejected, Settlement, Unknown
from postlease.telemetry import logger, message_fields

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from postlease import gate
    from postlease.delivery.gatekeeping import Gatekeeper, Turn
    from postlease.delivery.preparing import PreparedMail, Preparer
    from postlease.delivery.tally import Tally
    from postlease.delivery.writer import Writer
    from postlease.model import ClaimedMessage, OutgoingMail
    from postlease.providers import Provider


_LAST_TRY_SECONDS = 5.0
"""What the last try at a record may take, and the end of the run after it."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """Monotonic seconds at which a lease and its invocation end, by the worker's own clock.

    The lease's end is reckoned from before the claim was asked, so it is never later than the
    database's.
    """

    lease_ends_at: float
    invocation_ends_at: float

    def has_room(self, needed: timedelta) -> bool:
        """Whether a call that takes needed would end before both."""
        return time.monotonic() <= self.latest_start(needed)

    @property
    def latest_record(self) -> float:
        """The monotonic second after which a record is not tried again: the run ends in order."""
        return self.invocation_ends_at - _LAST_TRY_SECONDS

    def latest_start(self, needed: timedelta) -> float:
        """The monotonic second until which a call that takes needed may begin."""
        return min(self.lease_ends_at, self.invocation_ends_at) - needed.total_seconds()


class Sender:
    """Sends claimed messages, one call of `send` for each, from any number of threads."""

    def __init__(
        self,
        *,
        preparer: Preparer,
        writer: Writer,
        provider: Provider,
        gatekeeper: Gatekeeper,
        tally: Tally,
        needed: timedelta,
    ) -> None:
        self._preparer = preparer
        self._gatekeeper = gatekeeper
        self._writer = writer
        self._provider = provider
        self._tally = tally
        self._needed = needed

    def storage_is_silent(self) -> bool:
        """Whether a message with attachments would only wait for the storage."""
        return self._preparer.storage_is_silent()

    def send(self, message: ClaimedMessage, deadline: Deadline, turn: Turn) -> Outcome | None:
        """Take message as far as its lease and the gate allow, at its turn; never raises.

        Answers the provider's outcome, or None if no call was made.
        """
        try:
            return self._send(message, deadline, turn)
        except Exception as error:  # noqa: BLE001 - one message's trouble never touches another's
            self._log("unexpected", message, {"code": type(error).__name__}, warning=True)
        return None

    def _send(self, message: ClaimedMessage, deadline: Deadline, turn: Turn) -> Outcome | None:
        latest = deadline.latest_start(self._needed)
        if turn.starts_at > latest:
            self._settle(message, outcomes.handed_back(message.claim), deadline)
            return None
        prepared = self._prepare(message, until=latest)
        if isinstance(prepared, Settlement):
            self._settle(message, prepared, deadline)
            return None
        waited = self._gatekeeper.wait_for_turn(message, turn, latest=latest)
        if waited is None:
            self._settle(message, outcomes.handed_back(message.claim), deadline)
            return None
        try:
            verdict = self._writer.authorize(prepared.asked, until=deadline.lease_ends_at)
        except PostleaseError as error:
            # Perhaps it was written that this may go, but nothing has left: the worker lives, and
            # nobody may take it for one that died over this message.
            self._settle(message, outcomes.unauthorized(message, error, chance=_chance()), deadline)
            return None
        if verdict is None:
            self._log("lease_lost", message, warning=True)
            return None
        if verdict.word != "go":
            self._log(verdict.word, message)
            if verdict.word != "no_room":
                self._tally.count("failed")
            return None
        in_turn = self._gatekeeper.take_turn(message, waited, latest=latest)
        if not in_turn or not deadline.has_room(self._needed):
            # The database said go, and then its answer was late: whatever it checked is stale.
            self._settle(message, outcomes.handed_back(message.claim), deadline)
            return None
        return self._call(message, prepared, prepared.without(verdict.struck), deadline)

    def _call(
        self,
        message: ClaimedMessage,
        prepared: PreparedMail,
        mail: OutgoingMail,
        deadline: Deadline,
    ) -> Outcome | None:
        self._tally.time_wait(_milliseconds_waited(message, deadline))
        started = time.monotonic()
        try:
            outcome = self._provider.send(mail)
        except Exception as error:  # noqa: BLE001 - the call may have left, so this is not a failure
            outcome = Unknown(f"unexpected_{type(error).__name__}")
        self._tally.time_send((time.monotonic() - started) * 1000)
        closing = None
        if isinstance(outcome, Blocked):
            closing = self._note(message, outcome, deadline, began_at=started)
        outcome = outcomes.judge(outcome, closing)
        settlement = outcomes.settle(
            message,
            outcome,
            template_version=prepared.template_version,
            chance=_chance(),
            closing=closing,
        )
        if settlement is None:
            self._log("unknown", message, {"code": getattr(outcome, "code", None)}, warning=True)
        else:
            self._settle(message, settlement, deadline)
        if closing and closing.others_pass:
            # A closing that was this message's own trouble is taken back as of now.
            own_trouble = Rejected("closed the gate")
            self._note(message, own_trouble, deadline, began_at=time.monotonic())
        elif not isinstance(outcome, Blocked):
            self._note(message, outcome, deadline, began_at=started)
        return outcome if not isinstance(outcome, Rejected) or outcome.is_answer else None

    def _note(
        self, message: ClaimedMessage, outcome: Outcome, deadline: Deadline, *, began_at: float
    ) -> gate.Closing | None:
        until = deadline.lease_ends_at
        return self._gatekeeper.note(message, outcome, began_at=began_at, until=until)

    def _prepare(self, message: ClaimedMessage, *, until: float) -> PreparedMail | Settlement:
        """The prepared mail, or what becomes of a message that cannot be one."""
        try:
            return self._preparer.prepare(message, until=until)
        except Exception as error:  # noqa: BLE001 - one message's trouble never touches another's
            settlement = outcomes.unprepared(message, error, chance=_chance())
            if settlement.outcome == "deferred":
                self._log("unexpected", message, {"code": settlement.code}, warning=True)
            return settlement

    def _settle(self, message: ClaimedMessage, settlement: Settlement, deadline: Deadline) -> None:
        accepted = settlement.status == "sent"
        fields = {
            "code": settlement.code,
            "detail": settlement.detail,
            "failure_reason": settlement.failure_reason,
            "provider_message_id": settlement.provider_message_id,
        }
        try:
            # Beyond the lease too: the claim fences it, and nobody knows better.
            held = self._writer.record(settlement, until=deadline.latest_record)
        except PostleaseError:
            held = False
        if not held:
            word = "accepted_unrecorded" if accepted else "lease_lost"
            self._log(word, message, fields, warning=True)
            return
        self._log(settlement.outcome, message, fields)
        if settlement.status != "pending":
            self._tally.count(settlement.status)
        if accepted:
            self._tally.time_latency(_milliseconds_waited(message, deadline))

    def _log(
        self,
        word: str,
        message: ClaimedMessage,
        fields: Mapping[str, str | None] | None = None,
        *,
        warning: bool = False,
    ) -> None:
        """Count word, and say it with the message's ids."""
        self._tally.count(word)
        write = logger.warning if warning else logger.info
        known = {name: value for name, value in (fields or {}).items() if value is not None}
        ids = message_fields(message, self._provider.name)
        write("attempt ended", extra=ids | {"outcome": word} | known)


def _chance() -> float:
    """Spreads waits; from 0 to 1."""
    return random.random()  # noqa: S311 - jitter, not a secret


def _milliseconds_waited(message: ClaimedMessage, deadline: Deadline) -> float:
    """From enqueue (or the time it was asked for) to now.

    The lease's end is known on both clocks, the database's and ours, and joins them.
    """
    due = message.available_at if message.claim.attempt == 1 else message.created_at
    lease_left = deadline.lease_ends_at - time.monotonic()
    return ((message.lease_expires_at - due).total_seconds() - lease_left) * 1000
