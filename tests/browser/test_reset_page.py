"""The page that hands a reset's token on, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.keys import Keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.browser.conftest import Browser, Product

TOKEN = "AZq9_-" + "x" * 58


def test_a_click_hands_the_token_on_in_the_fragment_and_nothing_else_does(
    product: Product, browser: Browser
) -> None:
    browser.open(f"{product.url}/reset#token={TOKEN}")
    assert browser.heading() == "Choose a new password"
    browser.requests()
    browser.click("button")
    browser.wait_for_url(f"{product.url}/_local/reset#token={TOKEN}")
    asked = [one for one in browser.requests() if "/_local/files/" not in one[1]]
    assert asked == [("GET", f"{product.url}/_local/reset")]
    assert browser.complaints() == []


def test_the_keyboard_alone_is_enough(product: Product, browser: Browser) -> None:
    browser.open(f"{product.url}/reset#token={TOKEN}")
    browser.tab_to("button")
    browser.press(Keys.ENTER)
    browser.wait_for_url(f"{product.url}/_local/reset#token={TOKEN}")


def test_a_broken_link_leads_nowhere(product: Product, browser: Browser) -> None:
    browser.open(f"{product.url}/reset#token={TOKEN[1:]}")
    assert browser.heading() == "This link is not complete"
    assert browser.driver.find_elements("css selector", "button") == []


def test_without_javascript_the_page_says_what_it_needs(
    product: Product, open_browser: Callable[..., Browser]
) -> None:
    browser = open_browser(javascript=False)
    browser.open(f"{product.url}/reset#token={TOKEN}")
    assert "needs JavaScript" in browser.find("main").text


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("language", ["en", "de"])
def test_axe_finds_nothing(
    product: Product, open_browser: Callable[..., Browser], scheme: str, language: str
) -> None:
    browser = open_browser(language=language)
    browser.paint(scheme)
    for fragment in (f"#token={TOKEN}", ""):
        browser.open(f"{product.url}/reset{fragment}")
        assert browser.accessibility_faults() == []
