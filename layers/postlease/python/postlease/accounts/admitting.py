"""How many requests one client may make. Its own transaction: what is refused later counts too."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from postlease import limits
from postlease.accounts import ground
from postlease.config import settings
from postlease.errors import LimitError

if TYPE_CHECKING:
    from postlease.database import Database


def admit(database: Database, *, client: str) -> None:
    """Count one request of a client, by its IP address as the gateway saw it; commits.

    Raises LimitError with the seconds to wait, UnavailableError.
    """
    counted = (
        ("minute", timedelta(minutes=1), settings().client_limit_per_minute),
        ("hour", timedelta(hours=1), settings().client_limit_per_hour),
    )
    if all(most is None for _, _, most in counted):
        return
    pepper = ground.pepper()
    windows = [
        limits.Window(limits.client_digest(pepper, client, use=name), length, most)
        for name, length, most in counted
        if most is not None
    ]
    with ground.transaction(database) as connection:
        seconds = limits.count(connection, windows)
    if seconds:
        raise LimitError(seconds)
