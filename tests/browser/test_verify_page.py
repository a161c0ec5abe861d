"""The page behind a verification's link, in a real browser, as people and their machines use it."""

from __future__ import annotations

import os
import re
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.keys import Keys

from local.stack import ROOT
from tests.browser.conftest import link_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.browser.conftest import Browser, Product

CONFIRMED = "Your email address is confirmed"
AGENTS = (
    "curl/8.11.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15",
    "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
    "Microsoft Office/16.0 (Microsoft Outlook; SafeLinks)",
    "Barracuda Sentinel",
)


def look(method: str, url: str, agent: str) -> int:
    """The status of one look at url."""
    request = urllib.request.Request(  # noqa: S310  loopback
        url, method=method, headers={"User-Agent": agent}
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310  loopback
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_ten_looks_change_nothing_and_a_person_s_click_verifies_once(
    product: Product, browser: Browser
) -> None:
    """VER-01, VER-02."""
    link = product.link("looks@example.com")
    token = link.rpartition("=")[2]
    before = product.rows("looks@example.com")
    for agent in AGENTS:
        for method in ("GET", "HEAD"):
            assert look(method, link, agent) == 200
            assert look(method, f"{product.url}/verify?token={token}", agent) == 200
            assert look(method, f"{product.url}/verify/{token}", agent) == 404
    browser.open(link)
    assert browser.heading() == "Confirm your email address"
    assert product.rows("looks@example.com") == before == [(None, None, None)]

    browser.click("button")
    browser.wait_for(CONFIRMED)
    [(verified_at, redeemed_at, superseded_at)] = product.rows("looks@example.com")
    assert (verified_at == redeemed_at, superseded_at) == (True, None)
    assert verified_at is not None


def test_a_second_click_is_the_same_success_and_moves_nothing(
    product: Product, browser: Browser
) -> None:
    """VER-04."""
    link = product.link("again@example.com")
    browser.open(link)
    browser.click("button")
    browser.wait_for(CONFIRMED)
    after = product.rows("again@example.com")
    browser.open(link)
    browser.click("button")
    browser.wait_for(CONFIRMED)
    assert product.rows("again@example.com") == after


def test_the_page_asks_for_nothing_but_itself_and_its_one_post(
    product: Product, browser: Browser
) -> None:
    link = product.link("requests@example.com")
    browser.open(link)
    browser.requests()
    browser.open(link)
    assert browser.requests() == [("GET", f"{product.url}/verify")]
    browser.click("button")
    browser.wait_for(CONFIRMED)
    assert browser.requests() == [("POST", f"{product.url}/v1/verifications")]
    assert browser.complaints() == []


@pytest.mark.parametrize("part", ["text", "html"])
def test_the_link_in_either_part_of_a_mail_to_a_sub_address_verifies(
    product: Product, browser: Browser, part: str
) -> None:
    """VER-07, VER-09."""
    address = f"ada+{part}@example.com"
    product.post("/v1/signups", {"email": address})
    mail = product.mail(address, part)
    if part == "html":
        browser.driver.get("about:blank")
        browser.driver.execute_script("document.body.innerHTML = arguments[0]", mail)
        link = browser.driver.execute_script("return document.querySelector('a[href]').href")
    else:
        link = link_in(mail)
    browser.open(link)
    browser.click("button")
    browser.wait_for(CONFIRMED)
    [(verified_at, *_)] = product.rows(address)
    assert verified_at is not None


def test_the_keyboard_alone_is_enough_and_the_focus_goes_to_the_outcome(
    product: Product, browser: Browser
) -> None:
    browser.open(product.link("keyboard@example.com"))
    browser.tab_to("button")
    browser.press(Keys.ENTER)
    browser.wait_for(CONFIRMED)
    assert browser.driver.switch_to.active_element.text == CONFIRMED
    assert browser.driver.title == CONFIRMED


def test_an_older_link_says_that_a_newer_one_was_sent(product: Product, browser: Browser) -> None:
    older = product.link("older@example.com")
    product.post("/v1/verifications/resend", {"email": "older@example.com"})
    newer = product.mail("older@example.com")
    browser.open(older)
    browser.click("button")
    browser.wait_for("A newer link was sent to you")
    assert older not in newer


def test_another_link_opened_in_the_same_place_is_not_taken_for_the_first(
    product: Product, browser: Browser
) -> None:
    """The fragment alone differs, so that the browser does not load the page again by itself."""
    browser.open(f"{product.url}/verify#token=short")
    browser.wait_for("This link is not complete")
    browser.driver.get(product.link("same.place@example.com"))
    browser.wait_for("Confirm your email address")
    browser.click("#confirm")
    browser.wait_for(CONFIRMED)


def test_an_answer_that_does_not_come_leaves_the_button_to_try_again(
    product: Product, browser: Browser
) -> None:
    browser.open(product.link("offline@example.com"))
    browser.driver.execute_cdp_cmd("Network.enable", {})
    conditions = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    browser.driver.execute_cdp_cmd("Network.emulateNetworkConditions", conditions)
    browser.click("button")
    browser.wait_for_text("That did not work just now")
    conditions |= {"offline": False, "downloadThroughput": -1, "uploadThroughput": -1}
    browser.driver.execute_cdp_cmd("Network.emulateNetworkConditions", conditions)
    browser.click("button")
    browser.wait_for(CONFIRMED)


@pytest.mark.parametrize(
    ("status", "slug", "told"),
    [
        (429, "too-many-requests", "Please wait a few minutes"),
        (503, "unavailable", "That did not work just now"),
        (500, "internal-error", "That did not work just now"),
    ],
)
def test_a_refusal_that_passes_is_told_and_leaves_the_button(
    product: Product, browser: Browser, status: int, slug: str, told: str
) -> None:
    browser.open(f"{product.url}/verify#token={'A' * 64}")
    browser.driver.execute_script(
        "const [text, status] = arguments;"
        "window.fetch = () => Promise.resolve(new Response(text, {status}));",
        f'{{"type": "urn:postlease:problem:{slug}"}}',
        status,
    )
    browser.click("button")
    browser.wait_for_text(told)
    assert browser.heading() == "Confirm your email address"
    assert browser.find("button").is_enabled()


def test_without_javascript_the_pasted_link_verifies(
    product: Product, open_browser: Callable[..., Browser]
) -> None:
    link = product.link("pasted@example.com")
    browser = open_browser(javascript=False)
    browser.open(link)
    assert browser.heading() == "Confirm your email address"
    browser.tab_to("input")
    browser.press("https://example.com/verify#token=wrong", Keys.ENTER)
    browser.wait_until(lambda: browser.heading() == "This link is not complete")
    browser.find("input").send_keys(link)
    browser.click("button")
    browser.wait_until(lambda: browser.heading() == CONFIRMED)
    assert product.rows("pasted@example.com")[0][0] is not None
    assert browser.complaints() == []


def test_without_javascript_the_code_verifies_where_codes_are_on(
    onward_product: Product, open_browser: Callable[..., Browser], application: str
) -> None:
    address = "code+tag@example.com"
    onward_product.post("/v1/signups", {"email": address})
    mail = onward_product.mail(address)
    code = re.search(r"code.*: ([0-9]{6})$", mail, re.MULTILINE)
    assert code
    browser = open_browser(javascript=False)
    browser.open(link_in(mail))
    browser.tab_to("#email")
    wrong = f"{(int(code[1]) + 1) % 1_000_000:06}"
    browser.press(address, Keys.TAB, wrong, Keys.ENTER)
    browser.wait_until(lambda: browser.heading() == "This code does not work")
    assert onward_product.rows(address) == [(None, None, None)]
    browser.find("#email").send_keys(address)
    browser.find("#code").send_keys(code[1])
    browser.click("#code ~ button")
    browser.wait_for_url(application)
    assert onward_product.rows(address)[0][0] is not None


def test_without_javascript_the_link_verifies_after_a_code_that_did_not(
    onward_product: Product, open_browser: Callable[..., Browser], application: str
) -> None:
    address = "code+link@example.com"
    link = onward_product.link(address)
    browser = open_browser(javascript=False)
    browser.open(link)
    browser.find("#email").send_keys(address)
    browser.find("#code").send_keys("none")
    browser.click("#code ~ button")
    browser.wait_until(lambda: browser.heading() == "This code does not work")
    browser.find("#link").send_keys(link)
    browser.click("#link ~ button")
    browser.wait_for_url(application)
    assert onward_product.rows(address)[0][0] is not None


def test_a_person_is_sent_on_to_the_application(
    onward_product: Product, browser: Browser, application: str
) -> None:
    link = onward_product.link("onward@example.com")
    browser.open(link)
    browser.click("button")
    browser.wait_for_url(application)
    wanted = f"{application}?b=1"
    place, _, fragment = link.partition("#")
    browser.open(f"{place}?redirect={wanted}#{fragment}")
    browser.click("button")
    browser.wait_for_url(wanted)
    browser.open(f"{place}?redirect=https://elsewhere.example/#{fragment}")
    browser.click("button")
    browser.wait_for_url(application)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("language", ["en", "de"])
def test_axe_finds_nothing_on_the_page_and_its_outcomes(
    product: Product, open_browser: Callable[..., Browser], scheme: str, language: str
) -> None:
    browser = open_browser(language=language)
    browser.paint(scheme)
    browser.open(product.link(f"axe.{scheme}.{language}@example.com"))
    assert browser.driver.find_element("css selector", "html").get_attribute("lang") == language
    assert browser.accessibility_faults() == []
    first = browser.heading()
    browser.click("button")
    browser.wait_until(lambda: browser.heading() != first)
    assert browser.accessibility_faults() == []
    browser.open(f"{product.url}/verify")
    assert browser.accessibility_faults() == []
    browser.find("input").send_keys("x")
    browser.click("button")
    # The page that is posted to has the same address, and no script.
    browser.wait_until(lambda: browser.driver.find_elements("css selector", "script") == [])
    assert browser.accessibility_faults() == []


def test_axe_finds_nothing_on_the_form_for_codes(onward_product: Product, browser: Browser) -> None:
    browser.open(f"{onward_product.url}/verify")
    assert browser.heading() == "Confirm your email address"
    assert len(browser.driver.find_elements("css selector", "input")) == 3
    assert browser.accessibility_faults() == []


def test_axe_finds_something_on_a_page_that_has_a_fault(product: Product, browser: Browser) -> None:
    browser.open(f"{product.url}/verify")
    browser.driver.execute_script("document.querySelector('label').remove()")
    assert [fault.partition(":")[0] for fault in browser.accessibility_faults()] == ["label"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_photographed(product: Product, browser: Browser, scheme: str) -> None:
    """Into docs/ where SCREENSHOTS=docs asks for it."""
    browser.paint(scheme)
    browser.open(product.link(f"photo.{scheme}@example.com"))
    folder = ROOT / os.environ.get("SCREENSHOTS", ".local/screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    picture = folder / f"verify-{scheme}.png"
    browser.photograph(picture)
    assert 2_000 < picture.stat().st_size < 60_000
