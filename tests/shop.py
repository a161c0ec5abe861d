"""A shop that places its orders by the examples of docs/producers.md, as a producer of its own."""

from __future__ import annotations

import hashlib
import re
from contextlib import contextmanager
from dataclasses import dataclass
from email import message_from_bytes
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row

from tests import producers
from tests.conftest import ROOT
from tests.e2e.conftest import ask, signed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from local.stack import Stack

PAGE = ROOT / "docs" / "producers.md"
CONTENT = b"%PDF-1.7 \xe2\xe3\xcf\xd3 a receipt\n"
TAKEN = "A-1000"
"""The number of an order that exists."""


def example(heading: str) -> str:
    """The first piece of code below a heading of the page."""
    text = PAGE.read_text("utf-8")
    section = re.search(
        rf"^### {re.escape(heading)}\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL
    )
    assert section, heading
    code = re.search(r"^```\w+\n(.*?)^```$", section[1], re.MULTILINE | re.DOTALL)
    assert code, heading
    return code[1]


@dataclass(frozen=True)
class Shop:
    """login is its own; owner's is a connection that sees everything."""

    stack: Stack
    login: str
    owner: psycopg.Connection[dict[str, Any]]

    @property
    def name(self) -> str:
        """Its role's name."""
        return str(conninfo_to_dict(self.login)["user"])

    def receipt(self) -> dict[str, Any]:
        """A new file in the bucket, of the shop's own, as an attachment names it."""
        announced = {
            "filename": "receipt.pdf",
            "content_type": "application/pdf",
            "size": len(CONTENT),
            "sha256": hashlib.sha256(CONTENT).hexdigest(),
        }
        place = signed(self.stack, "POST", "/v1/attachments", announced | {"producer": self.name})
        upload = place.json["upload"]
        headers = {name.replace("-", "_"): value for name, value in upload["headers"].items()}
        put = ask(upload["url"], upload["method"], CONTENT, **headers)
        assert put.status == 200, put.body[:500]
        return announced | {
            "storage_ref": place.json["storage_ref"],
            "version_id": put.headers["x-amz-version-id"],
        }

    def orders(self) -> list[str]:
        """The numbers of all orders."""
        rows = self.owner.execute("SELECT number FROM orders ORDER BY number")
        return [row["number"] for row in rows]

    def expect_nothing(self) -> None:
        """Assert that what was rolled back mailed nobody and left no trace."""
        assert self.owner.execute("SELECT FROM postlease.email_messages").fetchall() == []
        assert self.owner.execute("SELECT FROM postlease.email_attachments").fetchall() == []
        self.stack.invoke("sweep")
        assert self.stack.inbox() == []
        assert self.orders() == [TAKEN]

    def expect_one(self, number: str, email: str, *, attached: bool = True) -> dict[str, Any]:
        """Assert that what was committed mailed one receipt, file and all; answers the mail."""
        self.stack.invoke("sweep")
        [mail] = self.stack.inbox()
        assert (mail["to"], mail["cc"], mail["bcc"]) == ([email], [], [])
        assert number in mail["subject"] + mail["text"]
        sent = self.stack.provider.inbox.content(mail["provider_message_id"])
        parts = message_from_bytes(sent or b"").walk()
        files = [
            (part.get_filename(), part.get_content_type(), part.get_payload(decode=True))
            for part in parts
            if part.get_content_disposition() is not None
        ]
        assert files == [("receipt.pdf", "application/pdf", CONTENT)] * attached
        assert self.orders() == [TAKEN, number]
        self.stack.invoke("sweep")
        assert len(self.stack.inbox()) == 1
        found = self.owner.execute(
            "SELECT producer, status FROM postlease.email_messages"
        ).fetchall()
        assert found == [{"producer": self.name, "status": "sent"}]
        return mail


@contextmanager
def opened(stack: Stack) -> Iterator[Shop]:
    """A shop with its own login and a table of orders, in the stack's database without messages."""
    stack.provider.inbox.clear()
    stack.set_faults("accept")
    with (
        psycopg.connect(stack.database_url, autocommit=True, row_factory=dict_row) as owner,
        producers.login(stack.database_url) as login,
    ):
        owner.execute("TRUNCATE postlease.email_messages CASCADE")
        user = sql.Identifier(str(conninfo_to_dict(login)["user"]))
        owner.execute("CREATE TABLE orders (number text PRIMARY KEY, email text NOT NULL)")
        owner.execute(sql.SQL("ALTER TABLE orders OWNER TO {}").format(user))
        owner.execute(sql.SQL("GRANT CREATE ON SCHEMA public TO {}").format(user))
        owner.execute("INSERT INTO orders VALUES (%s, 'first@example.com')", [TAKEN])
        try:
            yield Shop(stack, login, owner)
        finally:
            owner.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(user))
