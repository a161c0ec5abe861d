"""One claimed message's way: prepare, wait its turn, authorize, a last look, send, record."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from postlease.delivery import outcomes
from postlease.delivery.crew import elsewhere
from postlease.delivery.requests import carried
from postlease.errors import PostleaseError
from postlease.model import Accepted, Blocked, Outcome, Rejected, Settlement, Unknown
from postlease.telemetry import attempt_ended

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from postlease import gate
    from postlease.delivery.deadline import Deadline
    from postlease.delivery.gatekeeping import Gatekeeper
    from postlease.delivery.preparing import PreparedMail, Preparer
    from postlease.delivery.requests import Request
    from postlease.delivery.tally import Tally
    from postlease.delivery.turns import Turn
    from postlease.delivery.writer import Writer
    from postlease.model import ClaimedMessage, OutgoingMail
    from postlease.outbox import Asked, Verdict
    from postlease.providers import Provider


_NONE: Outcome = Unknown("no_answer")

_VERDICT_SECONDS = 1.0
"""A verdict that waited longer than this for its call is asked for again."""


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

    def ahead(self) -> int:
        """How many messages may be claimed beyond those that can be called for at once."""
        return 0 if self._gatekeeper.is_paced else self._writer.ahead()

    def send(self, message: ClaimedMessage, deadline: Deadline, turn: Turn) -> Outcome | None:
        """Do what `sending` does; the thread waits wherever there is something to wait for."""
        return carried(self.sending(message, deadline, turn))

    async def sending(
        self, message: ClaimedMessage, deadline: Deadline, turn: Turn
    ) -> Outcome | None:
        """Take message as far as its lease and the gate allow, at its turn; never raises.

        Answers the provider's outcome, or None if no call was made. Awaits requests to the writer
        alone.
        """
        try:
            return await self._send(message, deadline, turn)
        except Exception as error:  # noqa: BLE001 - one message's trouble never touches another's
            self._log("unexpected", message, {"code": type(error).__name__}, warning=True)
        return None

    async def _send(
        self, message: ClaimedMessage, deadline: Deadline, turn: Turn
    ) -> Outcome | None:
        latest = deadline.latest_start(self._needed)
        if turn.starts_at > latest:
            await self._settle(message, outcomes.handed_back(message.claim), deadline)
            return None
        prepared = self._prepare(message, until=latest)
        if isinstance(prepared, Settlement):
            await self._settle(message, prepared, deadline)
            return None
        waited = self._gatekeeper.wait_for_turn(message, turn, latest=latest)
        if waited is None:
            await self._settle(message, outcomes.handed_back(message.claim), deadline)
            return None
        mail = await self._let_call(message, prepared, waited, deadline, latest)
        return None if mail is None else await self._call(message, prepared, mail, deadline)

    async def _let_call(
        self,
        message: ClaimedMessage,
        prepared: PreparedMail,
        turn: Turn,
        deadline: Deadline,
        latest: float,
    ) -> OutgoingMail | None:
        """The mail, to be called for now, and then `let_go` is owed; None: it is settled."""
        mail = None
        try:
            asked = self._writer.authorizing(prepared.asked, until=latest, urgency=message.priority)
            verdict, in_turn = await asked, True
            if _is_go(verdict):
                in_turn = self._gatekeeper.take_turn(message, turn, latest=latest)
            if in_turn:
                verdict = self._fresh(verdict, asked, latest)
                in_turn = not self._gatekeeper.has_closed_since(turn)
            if verdict is None:
                self._log("lease_lost", message, warning=True)
                return None
            if verdict.word != "go":
                self._log(verdict.word, message)
                if verdict.word != "no_room":
                    self._tally.count("failed")
                return None
            if not in_turn or not deadline.has_room(self._needed):
                # The database said go, and then its answer was late: what it checked is stale.
                await self._settle(message, outcomes.handed_back(message.claim), deadline)
                return None
            mail = prepared.without(verdict.struck)
        except PostleaseError as error:
            # Perhaps it was written that this may go, but nothing has left: the worker lives, and
            # nobody may take it for one that died over this message.
            settlement = outcomes.unauthorized(message, error, chance=_chance())
            await self._settle(message, settlement, deadline)
        finally:
            if mail is None:
                self._writer.let_go()
        return mail

    def _fresh(
        self,
        verdict: Verdict | None,
        asked: Request[Asked, Verdict | None],
        latest: float,
    ) -> Verdict | None:
        """verdict, or another if it waited long for its call and its turn; the call waits for it.

        The thread keeps its place among those that call: no other call comes in between again.
        """
        while _is_go(verdict) and asked.answered_at + _VERDICT_SECONDS < time.monotonic() <= latest:
            asked = self._writer.renewing(asked.item, until=latest)
            with elsewhere():
                verdict = asked.wait()
        return verdict

    async def _call(
        self,
        message: ClaimedMessage,
        prepared: PreparedMail,
        mail: OutgoingMail,
        deadline: Deadline,
    ) -> Outcome | None:
        self._tally.time_wait(deadline.milliseconds_waited(message))
        started, outcome = time.monotonic(), _NONE
        try:
            with elsewhere():
                outcome = self._provider.send(mail)
        except Exception as error:  # noqa: BLE001 - the call may have left, so this is not a failure
            outcome = Unknown(f"unexpected_{type(error).__name__}")
        finally:
            seconds = time.monotonic() - started
            self._writer.let_go(seconds if isinstance(outcome, Accepted) else None)
        self._tally.time_send(seconds * 1000)
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
            await self._settle(message, settlement, deadline)
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

    async def _settle(
        self, message: ClaimedMessage, settlement: Settlement, deadline: Deadline
    ) -> None:
        accepted = settlement.status == "sent"
        fields = {
            "code": settlement.code,
            "detail": settlement.detail,
            "failure_reason": settlement.failure_reason,
            "provider_message_id": settlement.provider_message_id,
        }
        try:
            # Beyond the lease too: the claim fences it, and nobody knows better.
            held = await self._writer.recording(settlement, until=deadline.latest_record)
        except PostleaseError:
            held = False
        if not held:
            word = "accepted_unrecorded" if accepted else "lease_lost"
            self._log(word, message, fields, warning=True)
            return
        self._log(settlement.outcome, message, fields)
        if settlement.status != "pending":
            self._tally.end(settlement.status, settlement.failure_reason)
        if accepted:
            self._tally.time_latency(deadline.milliseconds_waited(message))

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
        attempt_ended(message, self._provider.name, word, fields or {}, warning=warning)


def _is_go(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.word == "go"


def _chance() -> float:
    """Spreads waits; from 0 to 1."""
    return random.random()  # noqa: S311 - jitter, not a secret
