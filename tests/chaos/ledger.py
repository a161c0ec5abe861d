"""What the provider saw: every call, and every mail that it took. Counted, never judged."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Call:
    """One call, at a moment of the wall clock.

    attempt is None where the protocol does not carry it. key is the idempotency key; provider_id
    the name that the client gave the mail, where it is the client who does.
    """

    message: UUID
    number: int
    attempt: int | None
    port: int
    at: float
    key: str | None = None
    provider_id: str | None = None


@dataclass(frozen=True, slots=True)
class Mail:
    """One mail that the provider took upon itself."""

    message: UUID
    attempt: int | None
    provider_id: str
    at: float


class Ledger:
    """Shared by all connections of a double."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[UUID, list[Call]] = defaultdict(list)
        self._mails: dict[UUID, list[Mail]] = defaultdict(list)
        self._by_key: dict[str, Mail] = {}
        self._rejected: set[UUID] = set()

    def arrive(self, call: Call) -> int:
        """Note a call and answer the how-manieth for its message it is, from 1."""
        with self._lock:
            self._calls[call.message].append(call)
            return len(self._calls[call.message])

    def accept(self, call: Call) -> Mail:
        """Take the mail: a new one, or under a known key the one that was taken before."""
        with self._lock:
            if call.key is not None and call.key in self._by_key:
                return self._by_key[call.key]
            name = call.provider_id or uuid4().hex
            mail = Mail(call.message, call.attempt, name, time.time())
            self._mails[call.message].append(mail)
            if call.key is not None:
                self._by_key[call.key] = mail
            return mail

    def reject(self, message: UUID) -> None:
        """Note a refusal for good."""
        with self._lock:
            self._rejected.add(message)

    @property
    def accepted_messages(self) -> int:
        """How many messages have become a mail at least once."""
        with self._lock:
            return len(self._mails) + len(self._rejected)

    def calls(self) -> Mapping[UUID, Sequence[Call]]:
        """All calls by message, in the order of their coming."""
        with self._lock:
            return {message: tuple(calls) for message, calls in self._calls.items()}

    def mails(self) -> Mapping[UUID, Sequence[Mail]]:
        """All mails by message."""
        with self._lock:
            return {message: tuple(mails) for message, mails in self._mails.items()}

    def rejected(self) -> frozenset[UUID]:
        """The messages that were refused for good."""
        with self._lock:
            return frozenset(self._rejected)
