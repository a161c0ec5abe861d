"""Attachments in S3: whose they are, how they get there, what they were, and when they leave.

    prefixes   which keys a producer may name
    storage    the S3 client, and what its failures mean
    uploading  a presigned upload under a producer's own prefix
    pinning    version, size and SHA-256 of what a producer names
    loading    the pinned bytes, at send
    deleting   what no message refers to any more
    versions   objects by key and version: listed, written, read, deleted
    orphans    uploads that no message took

Keys are passed on as they are: no room decodes, normalizes or cleans one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from postlease.first_use import on_first_use

if TYPE_CHECKING:
    from postlease.attachments import versions
    from postlease.attachments.deleting import DELETE_LIMIT, Deleted, delete_noted
    from postlease.attachments.loading import load
    from postlease.attachments.orphans import Swept, sweep_orphans
    from postlease.attachments.pinning import Pinned, Seen, Wanted, pin
    from postlease.attachments.prefixes import tag
    from postlease.attachments.storage import ColdError, SilentError
    from postlease.attachments.uploading import Upload, upload
    from postlease.attachments.versions import Version
else:
    __getattr__ = on_first_use(
        __name__,
        deleting="DELETE_LIMIT Deleted delete_noted",
        loading="load",
        orphans="Swept sweep_orphans",
        pinning="Pinned Seen Wanted pin",
        prefixes="tag",
        storage="ColdError SilentError",
        uploading="Upload upload",
        versions="Version",
    )
