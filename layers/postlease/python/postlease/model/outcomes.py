"""What became of a call to a provider, and what that makes of its message."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from postlease.model.values import value

if TYPE_CHECKING:
    from datetime import timedelta

    from postlease.model.claims import Claim
    from postlease.model.words import FailureReason, Status


@value
class Accepted:
    """The provider took the message and named it.

    is_earlier: it took an earlier attempt's mail, which need not be the one of this attempt.
    """

    provider_message_id: str
    is_earlier: bool = False


@value
class Rejected:
    """This message is refused for good; by the provider, or before it was asked (not is_answer)."""

    code: str
    is_answer: bool = True


@value
class Deferred:
    """This message is refused for now; the attempt counts."""

    code: str


@value
class Unreachable:
    """Nothing was accepted because nobody was reached; not the message's fault."""

    code: str


@value
class Throttled:
    """Too fast for the account; not the message's fault."""

    code: str


@value
class Blocked:
    """The account or our identity may not send; not the message's fault."""

    code: str


@value
class Unknown:
    """The call left and no answer came: neither sent nor not sent."""

    code: str


Outcome: TypeAlias = Accepted | Rejected | Deferred | Unreachable | Throttled | Blocked | Unknown


@value
class Settlement:
    """What one ended claim makes of its message; `outbox.record` writes it, fenced by the claim.

    outcome is the word for the attempt's entry (`accepted`, `rejected`, ..., `handed_back`,
    `render_error`); delay is how long a pending message waits. refunded: the claim was not the
    message's fault and does not count. closed_gate: its answer closed the provider's gate. detail
    is for the log alone: what is wrong, without any value.
    """

    claim: Claim
    status: Status
    outcome: str
    code: str | None = None
    failure_reason: FailureReason | None = None
    provider_message_id: str | None = None
    template_version: str | None = None
    delay: timedelta | None = None
    refunded: bool = False
    closed_gate: bool = False
    detail: str | None = None
