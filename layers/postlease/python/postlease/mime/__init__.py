"""RFC 5322 bytes out of a rendered mail. Pure: the same arguments give the same bytes.

    composing   the whole message: its headers, then one of the next two
    skeleton    text and HTML, nothing attached: a skeleton that is filled in
    building    whatever has attachments or inline images: a tree of parts
    headers     what stands in a header: mailboxes with names, subjects
    filenames   what an attachment may be called, and how a reader sees it

Whom a mail is delivered to is not read from these bytes: that is the envelope's duty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from postlease.first_use import on_first_use

if TYPE_CHECKING:
    from postlease.mime.composing import compose, message_identifier
    from postlease.mime.filenames import FORBIDDEN_EXTENSIONS, is_forbidden_filename
    from postlease.mime.headers import read_mailboxes, subject
else:
    __getattr__ = on_first_use(
        __name__,
        composing="compose message_identifier",
        filenames="FORBIDDEN_EXTENSIONS is_forbidden_filename",
        headers="read_mailboxes subject",
    )
