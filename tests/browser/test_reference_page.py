"""The API's description as a page, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.browser.conftest import Browser, Product


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_the_page_asks_for_nothing_but_itself(
    product: Product, browser: Browser, scheme: str
) -> None:
    browser.paint(scheme)
    browser.open(f"{product.url}/docs")
    browser.requests()
    browser.open(f"{product.url}/docs")
    assert browser.requests() == [("GET", f"{product.url}/docs")]
    assert browser.accessibility_faults() == []
    assert browser.complaints() == []
