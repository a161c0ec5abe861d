"""What a reader sees of a message: names, whom to answer, images, files that nobody carries."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest
from psycopg.types.json import Jsonb

from tests import arrange
from tests.hostile import read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from uuid import UUID

    from postlease.database import Connection
    from tests.integration.delivery.conftest import Sweeps

LONG = "A v\u00e9ry long name with non-ASCII char and, comma that goes on"


def attach(owner: Connection, message_id: UUID, *files: tuple[str, str, str | None]) -> None:
    """Attach files, each a name, a media type and perhaps a content id; they hold `hello`."""
    for position, (filename, content_type, content_id) in enumerate(files):
        owner.execute(
            "INSERT INTO postlease.email_attachments (message_id, position, filename,"
            " content_type, storage_ref, size, sha256, content_id) VALUES"
            " (%s, %s, %s, %s, 'attachments/shared/hello', 5, %s, %s)",
            [
                message_id,
                position,
                filename,
                content_type,
                hashlib.sha256(b"hello").digest(),
                content_id,
            ],
        )


def content(sweeps: Sweeps) -> bytes:
    [mail] = sweeps.inbox()
    found = sweeps.provider.inbox.content(mail["provider_message_id"])
    assert found is not None
    return found


def test_names_stand_in_the_headers_and_never_in_the_envelope(
    sweeps: Sweeps, owner: Connection
) -> None:
    """MIM-01, MIM-10."""
    [message_id] = arrange.enqueue(owner, to=["Reader@Example.com", "second@example.com"])
    owner.execute(
        "UPDATE postlease.email_messages SET recipient_names = %s, cc_addresses = %s,"
        " bcc_addresses = %s, reply_to = %s WHERE id = %s",
        [
            Jsonb({"reader@example.com": LONG, "third@example.com": "Cy", "last@example.com": "B"}),
            ["third@example.com"],
            ["last@example.com"],
            '"Help, please" <help@example.com>',
            message_id,
        ],
    )
    assert sweeps.run().counts["sent"] == 1
    found, headers = read(content(sweeps))
    assert found.to == ((LONG, "Reader@Example.com"), ("", "second@example.com"))
    assert found.cc == (("Cy", "third@example.com"),)
    assert found.reply_to == (("Help, please", "help@example.com"),)
    assert "bcc" not in headers
    assert b"last@" not in content(sweeps)
    [mail] = sweeps.inbox()
    assert (mail["to"], mail["cc"], mail["bcc"]) == (
        ["Reader@Example.com", "second@example.com"],
        ["third@example.com"],
        ["last@example.com"],
    )


@pytest.mark.parametrize(
    "reply_to", ["nobody", "a@example.com, b@example.com", "A\u202e <a@b.example>"]
)
def test_a_message_that_nobody_could_answer_fails_and_never_leaves(
    sweeps: Sweeps, owner: Connection, reply_to: str
) -> None:
    [message_id] = arrange.enqueue(owner)
    owner.execute("UPDATE postlease.email_messages SET reply_to = %s", [reply_to])
    assert sweeps.run().counts["failed"] == 1
    stored = arrange.row(owner, message_id)
    assert stored["failure_reason"] == "rejected"
    assert stored["attempts"][-1]["code"] == "invalid_reply_to"
    assert sweeps.provider.counts.requests == 0


def test_an_image_that_the_template_names_is_shown_inside(
    sweeps: Sweeps,
    owner: Connection,
    environment: Callable[..., None],
    bucket: Callable[[str, bytes], str],
    tmp_path: Path,
) -> None:
    folder = tmp_path / "receipt" / "en"
    folder.mkdir(parents=True)
    (folder / "subject.txt.j2").write_text("Receipt")
    (folder / "body.txt.j2").write_text("{{ order_number }} {{ total }}")
    (folder / "body.html.j2").write_text(
        '<img src="cid:logo" alt="">{{ order_number }} {{ total }}'
    )
    environment(TEMPLATES_DIRECTORY=str(tmp_path))
    bucket("attachments/shared/hello", b"hello")
    [message_id] = arrange.enqueue(owner)
    attach(owner, message_id, ("a.png", "image/png", "logo"), ("b.png", "image/png", "other"))
    assert sweeps.run().counts["sent"] == 1
    assert read(content(sweeps))[0].files == (
        ("a.png", b"hello", "logo"),
        ("b.png", b"hello", None),
    )


def test_an_image_without_a_place_in_the_html_is_an_ordinary_attachment(
    sweeps: Sweeps, owner: Connection, bucket: Callable[[str, bytes], str]
) -> None:
    bucket("attachments/shared/hello", b"hello")
    [message_id] = arrange.enqueue(owner)
    attach(owner, message_id, ("a.png", "image/png", "logo"), ("b.pdf", "application/pdf", None))
    assert sweeps.run().counts["sent"] == 1
    assert read(content(sweeps))[0].files == (("a.png", b"hello", None), ("b.pdf", b"hello", None))


@pytest.mark.parametrize("filename", ["a.exe", "invoice.pdf.JS", "a.exe. ", "a.\u200bcmd"])
def test_a_file_that_providers_refuse_is_not_even_loaded(
    sweeps: Sweeps, owner: Connection, filename: str
) -> None:
    """ATT-03: without a storage the message still ends, and the others go on."""
    [message_id] = arrange.enqueue(owner)
    attach(
        owner, message_id, ("a.pdf", "application/pdf", None), (filename, "application/pdf", None)
    )
    [other] = arrange.enqueue(owner)
    assert sweeps.run().counts["failed"] == 1
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["failure_reason"]) == ("failed", "rejected")
    assert stored["attempts"][-1]["code"] == "forbidden_filename"
    assert stored["dispatched_at"] is None
    assert arrange.row(owner, other)["status"] == "sent"
