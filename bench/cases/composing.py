"""MIME alone: the product's against `EmailMessage`, which it must equal."""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import TYPE_CHECKING

from bench.measuring.figures import figure, paired
from bench.measuring.findings import Finding, Table
from bench.measuring.wording import spread
from postlease import mime
from postlease.model import Addressing, Envelope, event_id
from postlease.rendering.filling import Templates
from postlease.rendering.folders import SHIPPED

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.measuring.cluster import Cluster
    from bench.measuring.findings import Scale
    from postlease.model import RenderedMail

BLOCKS = 11
IN_BLOCK = 50
_POLICY = SMTP.clone(cte_type="7bit")
_SENDER = "noreply@example.com"
_READER = "reader@example.com"


def composing(cluster: Cluster, scale: Scale) -> Finding:
    """MIME by the product and by `EmailMessage`, in one thread, by its processor time."""
    del cluster, scale
    parameters = {"order_number": "A-1", "total": "12.00"}
    rendered = Templates(SHIPPED).render("receipt", "en", parameters)
    times: tuple[list[float], list[float]] = ([], [])
    for block in range(BLOCKS):
        for found, build in zip(times, (_own, _stdlib), strict=True):
            seconds = _spent(build, rendered)
            if block:
                found.append(seconds / IN_BLOCK * 1_000)
    own, stdlib = times
    return Finding(
        "MIME",
        f"A receipt of two parts ({len(_stdlib(rendered)):,} bytes), {IN_BLOCK} in turn.",
        (
            Table(
                ("builder", "CPU ms a mail"),
                (
                    ("Postlease", spread(figure(own))),
                    ("`EmailMessage`", spread(figure(stdlib))),
                ),
            ),
        ),
        {"mime_cpu_vs_stdlib": paired(own, stdlib)},
    )


def _spent(build: Callable[[RenderedMail], bytes], rendered: RenderedMail) -> float:
    started = time.thread_time()
    for _ in range(IN_BLOCK):
        build(rendered)
    return time.thread_time() - started


def _own(rendered: RenderedMail) -> bytes:
    return mime.compose(
        envelope=Envelope(_SENDER, (_READER,), (), ()),
        rendered=rendered,
        attachments=(),
        message_id=uuid.uuid4(),
        attempt=1,
        sent_at=datetime.now(UTC),
        shown=Addressing("Example", {}, None),
    )


def _stdlib(rendered: RenderedMail) -> bytes:
    """The same headers and parts, as the library's documentation builds them."""
    message_id = uuid.uuid4()
    message = EmailMessage(policy=_POLICY)
    message["From"] = f"Example <{_SENDER}>"
    message["To"] = _READER
    message["Subject"] = rendered.subject
    message["Date"] = format_datetime(datetime.now(UTC))
    message["Message-ID"] = f"<{message_id}@example.com>"
    message["Auto-Submitted"] = "auto-generated"
    message["X-Auto-Response-Suppress"] = "All"
    message["X-Postlease-Id"] = event_id(message_id)
    message["X-Postlease-Attempt"] = "1"
    message.set_content(rendered.text, cte="quoted-printable")
    message.add_alternative(rendered.html, subtype="html", cte="quoted-printable")
    return message.as_bytes()
