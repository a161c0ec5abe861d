"""A place for an attachment: the bytes go to the storage itself, and no function holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from postlease import attachments
from postlease.errors import InvalidInputError, RefusedInputError

if TYPE_CHECKING:
    from collections.abc import Mapping


def upload(document: Mapping[str, Any], *, principal: str) -> dict[str, Any]:
    """A place for one attachment, and how to bring it there; asks nobody."""
    said = {name: value for name, value in document.items() if value is not None}
    producer = said.pop("producer", principal)
    content_type = said.pop("content_type", None)
    size = int(said.pop("size"))
    try:
        place = attachments.upload(producer, content_type=content_type, size=size, **said)
    except InvalidInputError as error:
        raise RefusedInputError(error.pointer, error.detail) from None
    return {
        "storage_ref": place.storage_ref,
        "upload": {
            "method": place.method,
            "url": place.url,
            "headers": dict(place.headers),
            "expires_at": place.expires_at.isoformat(),
        },
    }
