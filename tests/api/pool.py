"""What a request must name to go well, made by the product itself: real sign-ups, links out of the
inbox, mails that a provider refused or whose answers it lost.

What can be used once only is handed out once; after that the last ones come again.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
import urllib.request
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import dict_row

from postlease.model import event_id
from tests import arrange

if TYPE_CHECKING:
    from pathlib import Path

    from local.stack import Stack

ONCE = ("failed", "unknown", "resets", "closing", "fresh", "pending", "suppressed")
_LINK = re.compile(r"https?://\S+/(verify|reset)#token=([A-Za-z0-9_-]{64})")
_CODE = re.compile(r"[: ](\d{6})$", re.MULTILINE)
_ANY = 40
"""How many there are of what can be used again and again."""


@dataclass
class Pool:
    """The things by kind; those in ONCE go from their list when they are taken."""

    things: dict[str, list[str]] = field(default_factory=dict)
    _turns: count[int] = field(default_factory=count)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, kind: str) -> str:
        """One thing of that kind."""
        things = self.things[kind]
        with self._lock:
            if kind in ONCE and len(things) > 1:
                return things.pop()
        return things[next(self._turns) % len(things)]

    def split(self, number: int) -> Pool:
        """Another pool with so many of each kind that can be used once, which this one loses."""
        other = {kind: list(things) for kind, things in self.things.items()}
        for kind in ONCE:
            things = self.things.get(kind, [])
            other[kind], self.things[kind] = things[:number], things[number:]
        return Pool(other)

    def save(self, path: Path) -> None:
        """Write the things down for another process."""
        path.write_text(json.dumps(self.things))

    @classmethod
    def read(cls, path: Path) -> Pool:
        """The pool that was written down."""
        return cls(json.loads(path.read_text()))


def make(stack: Stack, *, once: int) -> Pool:
    """A pool out of a fresh stack with so many of each kind that can be used once."""
    pool = Pool()
    answers = _sign_up(stack, "pool", _ANY)
    # Who asks again for a mail ends the link before: links are not those of addresses.
    pool.things["addresses"] = [f"again{place}@example.com" for place in range(_ANY)]
    pool.things["fresh"] = [f"fresh{place}@example.com" for place in range(2 * once)]
    pool.things["events"] = [answer["verification"]["event_id"] for answer in answers]
    _sweep(stack)
    pool.things["links"] = _links(stack, "verify")
    pool.things["tokens"] = [link.rpartition("=")[2] for link in pool.things["links"]]
    pool.things["codes"] = _codes(stack)
    _sign_up(stack, "again", _ANY)
    pool.things["users"] = [answer["user_id"] for answer in _sign_up(stack, "users", _ANY)]
    pool.things["closing"] = [answer["user_id"] for answer in _sign_up(stack, "closing", once)]
    _sign_up(stack, "resets", once)
    for number in range(once):
        _post(stack, "/v1/password-resets", {"email": f"resets{number}@example.com"})
    _sweep(stack)
    pool.things["resets"] = [link.rpartition("=")[2] for link in _links(stack, "reset")]
    _make_messages(stack, pool, once)
    return pool


def _sign_up(stack: Stack, name: str, number: int) -> list[Any]:
    return [
        _post(stack, "/v1/signups", {"email": f"{name}{place}@example.com"})
        for place in range(number)
    ]


def _make_messages(stack: Stack, pool: Pool, once: int) -> None:
    with psycopg.connect(stack.database_url, autocommit=True, row_factory=dict_row) as owner:
        arrange.enqueue(owner, once)
        stack.set_faults("reject")
        _sweep(stack)
        arrange.enqueue(owner, once, delivery="at_most_once")
        stack.set_faults("lose_response")
        _sweep(stack)
        stack.set_faults("accept")
        owner.execute(
            "UPDATE postlease.email_messages SET claimed_at = claimed_at - %(by)s,"
            " dispatched_at = dispatched_at - %(by)s, lease_expires_at = lease_expires_at - %(by)s"
            " WHERE status = 'sending'",
            {"by": timedelta(minutes=1)},
        )
        later = datetime.now(UTC) + timedelta(days=30)
        arrange.enqueue(owner, once, send_at=later)
        rows = owner.execute("SELECT id, status FROM postlease.email_messages ORDER BY id")
        found = [(event_id(row["id"]), str(row["id"]), row["status"]) for row in rows]
        listed = [secrets.token_bytes(32) for _ in range(once)]
        owner.execute(
            "INSERT INTO postlease.suppressions (address_digest, reason)"
            " SELECT unnest(%s::bytea[]), 'manual'",
            [listed],
        )
    pool.things["suppressed"] = [digest.hex() for digest in listed]
    pool.things["failed"] = [name for name, _, status in found if status == "failed"]
    pool.things["unknown"] = [name for name, _, status in found if status == "sending"]
    pool.things["pending"] = [name for name, _, status in found if status == "pending"]
    pool.things["messages"] = [name for pair in found[: _ANY // 2] for name in pair[:2]]


def _sweep(stack: Stack) -> None:
    """Until nothing waits."""
    while stack.queue().get("pending", 0):
        stack.invoke("sweep")


def _links(stack: Stack, page: str) -> list[str]:
    found = [_LINK.search(mail["text"]) for mail in stack.inbox()]
    return [match[0] for match in found if match and match[1] == page]


def _codes(stack: Stack) -> list[str]:
    """Each mail's code with the address that it was sent to, where mails show codes."""
    found = [(_CODE.search(mail["text"]), mail["to"][0]) for mail in stack.inbox()]
    return [f"{match[1]} {address}" for match, address in found if match]


def _post(stack: Stack, path: str, content: dict[str, str]) -> Any:
    request = urllib.request.Request(  # noqa: S310  loopback
        stack.url + path, json.dumps(content).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310  loopback
        return json.load(answer)
