"""Lists that the API answers in pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ops.client import Api

_PAGE = 100


def first(
    api: Api, path: str, name: str, query: Mapping[str, str | None], limit: int
) -> tuple[list[dict[str, Any]], bool]:
    """The first limit (0: all) of what path lists under name, and whether there are more."""
    found: list[dict[str, Any]] = []
    for one in _pages(api, path, name, query, limit):
        if limit and len(found) == limit:
            return found, True
        found.append(one)
    return found, False


def _pages(
    api: Api, path: str, name: str, query: Mapping[str, str | None], limit: int
) -> Iterator[dict[str, Any]]:
    size = min(limit + 1, _PAGE) if limit else _PAGE
    cursor = None
    while True:
        page = api.get(path, **query, limit=size, cursor=cursor)
        yield from page[name]
        cursor = page["cursor"]
        if cursor is None:
            return
