"""The console of the local stack in a real browser, with and without its script."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.rows import dict_row
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from local.stack import ROOT
from local.web import Front, Request, Response
from postlease.model import event_id
from tests import arrange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from postlease.database import Connection
    from tests.browser.conftest import Browser, Product

OVERFLOW = "return document.documentElement.scrollWidth - window.innerWidth"
MOST_BYTES = 150_000

# As if sweeps had gone on for an hour: what was sent at once ended in different minutes.
SPREAD = """
UPDATE postlease.email_messages AS m
SET finished_at = finished_at - past.by,
    sent_at = sent_at - past.by,
    available_at = sent_at - past.by - make_interval(secs => 0.2 + (past.place * 37 % 23) / 20.0)
FROM (SELECT id, row_number() OVER (ORDER BY id) AS place,
             make_interval(mins => (row_number() OVER (ORDER BY id) * 17 % 53)::int) AS by
      FROM postlease.email_messages WHERE status = 'sent') AS past
WHERE m.id = past.id
"""


@pytest.fixture(scope="module")
def owner(product: Product) -> Iterator[Connection]:
    """The owner's connection to the product's database."""
    url = product.stack.database_url
    with psycopg.connect(url, autocommit=True, row_factory=dict_row) as connection:
        yield connection


@pytest.fixture(scope="module")
def retried(product: Product, owner: Connection) -> str:
    """The id of a message with two attempts, among others of every state."""
    stack = product.stack
    stack.provider.inbox.clear()
    owner.execute("TRUNCATE postlease.email_messages, postlease.provider_gates CASCADE")
    arrange.enqueue(owner, 120)
    stack.invoke("sweep")
    owner.execute(SPREAD)
    stack.set_faults("reject", times=4)
    arrange.enqueue(owner, 6)
    stack.invoke("sweep")
    [message_id] = arrange.enqueue(owner, tags={"order": "A-7"})
    stack.set_faults("throttle", times=1)
    stack.invoke("sweep")
    arrange.pass_time(owner, arrange.GRACE)
    owner.execute(
        "UPDATE postlease.email_messages SET available_at = now() WHERE status = 'pending'"
    )
    stack.invoke("sweep")
    stack.set_faults("lose_response", times=1)
    [unknown] = arrange.enqueue(owner)
    stack.invoke("sweep")
    arrange.end_lease(owner, unknown)
    stack.invoke("reaper")
    return event_id(message_id)


@pytest.fixture
def pages(product: Product, retried: str) -> list[str]:
    """An address of each kind of page."""
    mail_id = product.stack.inbox()[-1]["provider_message_id"]
    paths = ("", "messages", f"messages/{retried}", "messages/evt_0")
    paths += ("templates", "templates/receipt/ar", "inbox", f"inbox/{mail_id}", "reset", "nothing")
    return [f"{product.url}/_local/{path}" for path in paths]


def test_axe_finds_nothing_in_light_or_dark_and_pages_ask_for_nothing_but_their_own(
    product: Product, pages: list[str], browser: Browser
) -> None:
    found: dict[tuple[str, str], list[str]] = {}
    for page in pages:
        browser.open(page)
        for scheme in ("light", "dark"):
            browser.paint(scheme)
            if faults := browser.accessibility_faults():
                found[page, scheme] = faults
    assert found == {}
    asked = {url for _, url in browser.requests() if not url.startswith("data:")}
    assert asked
    assert {url for url in asked if not url.startswith(product.url)} == set()
    assert browser.complaints() == []


def test_every_page_fits_on_a_narrow_phone(pages: list[str], browser: Browser) -> None:
    size = {"width": 320, "height": 640, "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    found = {}
    for page in pages:
        browser.open(page)
        found[page] = browser.driver.execute_script(OVERFLOW)
    assert {page: wide for page, wide in found.items() if wide > 0} == {}


def test_the_keyboard_alone_leads_to_a_message_and_back_to_the_content(
    product: Product, retried: str, browser: Browser
) -> None:
    browser.open(f"{product.url}/_local/")
    browser.press(Keys.TAB)
    assert browser.driver.switch_to.active_element.text == "Skip to the content"
    browser.press(Keys.ENTER)
    assert browser.driver.switch_to.active_element == browser.find("main")
    browser.open(f"{product.url}/_local/")
    browser.press(*[Keys.TAB] * 5)
    assert browser.driver.switch_to.active_element.text == "Inbox"
    browser.tab_to("#event-id")
    browser.press(retried, Keys.ENTER)
    browser.wait_for(f"Message {retried}")


def test_a_button_is_pressed_with_the_keyboard_and_the_page_says_what_was_done(
    product: Product, retried: str, owner: Connection, browser: Browser
) -> None:
    arrange.enqueue(owner)
    browser.open(f"{product.url}/_local/")
    button = browser.find("[aria-label='Tick sweep']")
    browser.driver.execute_script("arguments[0].focus()", button)
    browser.press(Keys.ENTER)
    browser.wait_until(lambda: browser.find(".notice").text == "The sweep has run.")
    assert arrange.statuses(owner).get("pending", 0) == 0


def test_without_javascript_every_page_reads_the_same_and_buttons_work(
    product: Product, pages: list[str], browser: Browser, open_browser: Callable[..., Browser]
) -> None:
    plain = open_browser(javascript=False)
    live = [page for page in pages[1:] if "messages" in page or "inbox" in page]
    for page in live:  # the overview tells the time
        for one in (browser, plain):
            one.open(page)
        without_button = browser.find("main").text.replace("\nLive\n", "\n")
        assert plain.find("main").text == without_button
    plain.open(pages[0])
    assert plain.driver.find_elements(By.CSS_SELECTOR, "#live:not([hidden])") == []
    for section in ("Health", "Messages by state", "The last hour", "Gate", "What runs"):
        assert section in plain.find("main").text
    plain.click("[aria-label='Tick reaper']")
    plain.wait_for_text("The reaper has run.")


def test_a_page_is_kept_fresh_but_not_under_somebody_s_hands(
    product: Product, retried: str, owner: Connection, browser: Browser
) -> None:
    def counted(state: str) -> str:
        return str(browser.find(f".counts a[href$='status={state}']").find_element(
            By.XPATH, "../following-sibling::dd").text)  # fmt: skip

    browser.open(f"{product.url}/_local/")
    before = int(counted("pending"))
    button = browser.find("[aria-label='Tick sweep']")
    browser.driver.execute_script("arguments[0].focus()", button)
    arrange.enqueue(owner, 2)
    browser.wait_until(lambda: int(counted("pending")) == before + 2)
    assert browser.driver.switch_to.active_element == button
    browser.click("#live")
    assert browser.find("#live").get_attribute("aria-pressed") == "false"
    arrange.enqueue(owner, 1)
    browser.driver.execute_async_script("look().then(arguments[arguments.length - 1])")
    assert int(counted("pending")) == before + 2
    browser.click("#live")
    browser.driver.execute_async_script("look().then(arguments[arguments.length - 1])")
    assert int(counted("pending")) == before + 3
    product.stack.invoke("sweep")


def test_what_somebody_marks_or_types_stays_while_the_page_is_kept_fresh(
    product: Product, retried: str, owner: Connection, browser: Browser
) -> None:
    look = "look().then(arguments[arguments.length - 1])"
    browser.open(f"{product.url}/_local/messages")
    browser.find("#event-id").send_keys("evt_")
    browser.driver.execute_script(
        "getSelection().selectAllChildren(document.querySelector('tbody th'))"
    )
    newest = browser.driver.execute_script("return String(getSelection())")
    [message_id] = arrange.enqueue(owner)
    browser.driver.execute_async_script(look)
    assert browser.driver.execute_script("return String(getSelection())") == newest
    assert event_id(message_id) not in browser.find("tbody").text
    browser.driver.execute_script("getSelection().removeAllRanges()")
    browser.driver.execute_async_script(look)
    assert event_id(message_id) in browser.find("tbody").text
    assert browser.find("#event-id").get_attribute("value") == "evt_"
    product.stack.invoke("sweep")


def test_axe_finds_nothing_on_an_open_list_an_empty_page_or_an_error(
    product: Product, retried: str, browser: Browser
) -> None:
    found: dict[tuple[str, str], list[str]] = {}
    paths = ("", "templates/receipt/en", "messages?reason=worker_lost", "messages?status=x")
    for path in paths:
        browser.open(f"{product.url}/_local/{path}")
        opening = "for (const one of document.querySelectorAll('details')) one.open = true"
        browser.driver.execute_script(opening)
        for scheme in ("light", "dark"):
            browser.paint(scheme)
            if faults := browser.accessibility_faults():
                found[path, scheme] = faults
    assert found == {}


def test_what_is_wrong_is_read_aloud_and_a_chart_has_words(
    product: Product, retried: str, browser: Browser
) -> None:
    browser.open(f"{product.url}/_local/")
    assert browser.find("#health").get_attribute("aria-live") == "polite"
    charts = browser.driver.find_elements(By.CSS_SELECTOR, "figure svg")
    names = [chart.get_attribute("aria-label") for chart in charts]
    assert [name.partition(":")[0] for name in names] == [
        "Messages that ended in each of the last 60 minutes",
        "Seconds from due to sent in each of the last 60 minutes",
    ]
    assert " failed in all" in names[0]
    browser.click("summary")
    rows = browser.driver.find_elements(By.CSS_SELECTOR, "details tbody tr")
    assert len(rows) > 20
    assert all(row.is_displayed() for row in rows)


def test_a_mail_s_own_page_runs_no_script_of_the_mail_and_opens_nothing_above_itself(
    product: Product, retried: str, browser: Browser
) -> None:
    product.stack.provider.inbox.add(
        provider_message_id="hostile",
        content=b"Subject: hostile\nContent-Type: text/html\n\n"
        b"<h1>Hello</h1><script>top.document.title = 'stolen'</script>"
        b"<img src=https://evil.example/a.png><form action=/_local/actions/empty method=post>"
        b"<button>Press</button></form>",
        recipients={"to": ["ada@example.com"]},
    )
    browser.open(f"{product.url}/_local/inbox/hostile")
    frame = browser.find("iframe")
    browser.driver.switch_to.frame(frame)
    assert browser.heading() == "Hello"
    browser.click("button")
    browser.driver.switch_to.default_content()
    assert browser.driver.title.startswith("hostile")
    assert len(product.stack.inbox()) > 1
    assert [url for _, url in browser.requests() if "evil" in url] == []


@pytest.fixture
def listening() -> Iterator[tuple[str, list[str]]]:
    """A place that this machine reaches, and what is asked of it."""
    asked: list[str] = []

    def note(request: Request) -> Response:
        asked.append(request.target)
        return Response(
            200,
            b"<link rel=icon href=data:,><title>reached</title>",
            (("content-type", "text/html"),),
        )

    front = Front(note)
    yield f"http://{front.address}", asked
    front.close()


@pytest.mark.parametrize("path", ["/_local/inbox/{}", "/_local/inbox/{}/html"])
def test_nothing_in_a_mail_runs_is_fetched_or_leads_away(
    product: Product, browser: Browser, listening: tuple[str, list[str]], path: str
) -> None:
    there, asked = listening
    product.stack.provider.inbox.add(
        provider_message_id="worst",
        content=f"""Subject: worst\nContent-Type: text/html\n
<html><head><base href="{there}/base/" target="_top">
<meta http-equiv="refresh" content="0;url={there}/refresh">
<link rel="stylesheet" href="{there}/style">
<link rel="preload" as="image" href="{there}/preload">
<link rel="prefetch" href="{there}/prefetch"><link rel="icon" href="{there}/icon">
<style>@import "{there}/import"; body {{ background: url({there}/ground) }}
@font-face {{ font-family: f; src: url({there}/font) }} h1 {{ font-family: f }}</style></head>
<body onload="location = '{there}/onload'"><h1>Hello</h1>
<script>fetch('{there}/script'); top.location = '{there}/top'</script>
<script src="{there}/source"></script>
<img src="{there}/image" srcset="{there}/set 2x"
onerror="location = '{there}/onerror'">
<img src="relative"><picture><source srcset="{there}/picture"></picture>
<video src="{there}/video" poster="{there}/poster" autoplay></video>
<audio src="{there}/audio" autoplay></audio>
<object data="{there}/object"></object><embed src="{there}/embed">
<iframe src="{there}/frame"></iframe>
<iframe srcdoc="<script>top.location='{there}/doc'</script>"></iframe>
<svg><image href="{there}/svg"/><use href="{there}/use#a"/>
<a href="javascript:location='{there}/js'"><text y="20">x</text></a></svg>
<table background="{there}/table"></table>
<form action="{there}/form"><input autofocus onfocus="this.form.submit()">
<button>Press</button></form>
</body></html>""".encode(),
        recipients={"to": ["ada@example.com"]},
    )
    url = product.url + path.format("worst")
    browser.open(url)
    if frames := browser.driver.find_elements(By.CSS_SELECTOR, "iframe[sandbox]"):
        browser.driver.switch_to.frame(frames[0])
    assert browser.heading() == "Hello"
    browser.click("button")
    browser.driver.switch_to.default_content()
    assert browser.driver.current_url == url
    browser.open(f"{there}/last")
    assert browser.driver.title == "reached"
    assert asked == ["/last"]


@pytest.mark.parametrize(
    ("name", "path", "scheme", "height"),
    [
        ("console-light", "", "light", 940),
        ("console-dark", "", "dark", 940),
        ("console-timeline", "messages/{}", "light", 860),
    ],
)
def test_the_console_is_photographed(
    product: Product,
    retried: str,
    browser: Browser,
    name: str,
    path: str,
    scheme: str,
    height: int,
) -> None:
    """Into docs/ where SCREENSHOTS=docs asks for it."""
    size: dict[str, Any] = {"width": 1100, "height": height, "deviceScaleFactor": 1}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size | {"mobile": False})
    browser.paint(scheme)
    browser.open(f"{product.url}/_local/{path.format(retried)}")
    folder = ROOT / os.environ.get("SCREENSHOTS", ".local/screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    picture = folder / f"{name}.png"
    browser.photograph(picture)
    assert 10_000 < picture.stat().st_size < MOST_BYTES
