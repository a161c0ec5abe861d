"""A real Chromium in front of a running stack; `make test-browser` sees to it and to axe."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from local import chromium
from local.stack import ROOT, Stack
from local.web import Front, Request, Response
from tests.e2e.conftest import ask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

AXE = ROOT / ".local" / "axe" / "axe_playwright_python" / "axe.min.js"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=640,520",
    # Whatever is not this machine has no address.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)
PATIENCE = 60

ROWS = """SELECT u.verified_at, t.redeemed_at, t.superseded_at
FROM postlease.users AS u JOIN postlease.verification_tokens AS t ON t.user_id = u.id
WHERE u.email = %s ORDER BY t.version"""


@dataclass
class Browser:
    """One Chromium, as the person in front of it uses it."""

    driver: webdriver.Chrome

    def open(self, url: str) -> None:
        """Go to url in a page of its own, as a click in a mail does."""
        self.driver.get("about:blank")
        self.driver.get(url)

    def find(self, selector: str) -> Any:
        """The one visible element."""
        [found] = [
            element
            for element in self.driver.find_elements(By.CSS_SELECTOR, selector)
            if element.is_displayed()
        ]
        return found

    def click(self, selector: str) -> None:
        """Click with the mouse."""
        self.find(selector).click()

    def press(self, *keys: str) -> None:
        """Press keys, wherever the focus is."""
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def tab_to(self, selector: str) -> None:
        """Press Tab until the element has the focus."""
        for _ in range(5):
            self.press(Keys.TAB)
            if self.driver.switch_to.active_element == self.find(selector):
                return
        raise AssertionError(f"{selector} cannot be reached with Tab")

    def photograph(self, picture: Path) -> None:
        """Keep what is to be seen."""
        assert self.driver.save_screenshot(str(picture))

    def heading(self) -> str:
        """What the page says first."""
        return str(self.find("h1").text)

    def wait_for(self, heading: str) -> None:
        """Wait until that is what the page says first."""

        def says(_: object) -> bool:
            script = "return Array.from(document.querySelectorAll('h1'), (h) => h.innerText)"
            return heading in self.driver.execute_script(script)

        WebDriverWait(self.driver, PATIENCE).until(says, heading)

    def wait_for_text(self, text: str) -> None:
        """Wait until the page says it, anywhere."""
        self.wait_until(lambda: text in self.find("main").text)

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until that holds; a page that goes away meanwhile is asked again."""
        gone = (StaleElementReferenceException, ValueError)
        WebDriverWait(self.driver, PATIENCE, ignored_exceptions=gone).until(lambda _: holds())

    def wait_for_url(self, url: str) -> None:
        """Wait until the browser is there."""
        WebDriverWait(self.driver, PATIENCE).until(lambda driver: driver.current_url == url, url)

    def paint(self, scheme: str) -> None:
        """Prefer dark or light."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def accessibility_faults(self) -> list[str]:
        """What axe-core finds against the page as it stands: rule and place."""
        self.driver.execute_script(AXE.read_text("utf-8"))
        script = """
            const done = arguments[arguments.length - 1];
            axe.run(document, {resultTypes: ["violations"]}).then((found) => done(
                found.violations.flatMap((rule) => rule.nodes.map((node) =>
                    rule.id + ": " + node.html + " " + node.failureSummary))));
        """
        found: list[str] = self.driver.execute_async_script(script)
        return found

    def requests(self) -> list[tuple[str, str]]:
        """Method and URL of each request since the last question, without the browser's own."""
        entries = [json.loads(entry["message"]) for entry in self.driver.get_log("performance")]
        sent = [
            entry["message"]["params"]["request"]
            for entry in entries
            if entry["message"]["method"] == "Network.requestWillBeSent"
        ]
        own = ("chrome:", "about:")
        return [
            (one["method"], one["url"])
            for one in sent
            if not one["url"].startswith(own) and not one["url"].endswith("/favicon.ico")
        ]

    def complaints(self) -> list[str]:
        """What the page's policy, or an error of its script, made the browser say."""
        entries = self.driver.get_log("browser")
        told = [entry["message"] for entry in entries if entry["level"] == "SEVERE"]
        # Answers of 4xx are told, too.
        return [text for text in told if "Failed to load resource" not in text]


@pytest.fixture
def open_browser(tmp_path: Path) -> Iterator[Callable[..., Browser]]:
    """Starts browsers with nothing in them."""
    found = chromium.find()
    if found is None or not AXE.exists():
        pytest.fail("run `make test-browser`, which installs what is missing")
    opened: list[webdriver.Chrome] = []

    def start(*, language: str = "en", javascript: bool = True) -> Browser:
        options = webdriver.ChromeOptions()
        options.binary_location = str(found.browser)
        for flag in FLAGS:
            options.add_argument(flag)
        options.add_argument(f"--user-data-dir={tmp_path / f'profile-{len(opened)}'}")
        content = {"javascript": 1 if javascript else 2}
        options.add_experimental_option(
            "prefs",
            {
                "intl.accept_languages": language,
                "profile.managed_default_content_settings": content,
            },
        )
        options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
        service = Service(str(found.driver), log_output=str(tmp_path / "driver.log"))
        opened.append(webdriver.Chrome(options, service))
        opened[-1].set_script_timeout(PATIENCE)
        return Browser(opened[-1])

    yield start
    for driver in opened:
        driver.quit()


@pytest.fixture
def browser(open_browser: Callable[..., Browser]) -> Browser:
    """An English browser."""
    return open_browser()


class Product:
    """A running stack, and what a person gets from it."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.url = stack.url

    def post(self, path: str, content: dict[str, str]) -> None:
        """Ask the API."""
        answer = ask(self.url + path, "POST", content)
        assert answer.status < 300, answer.body

    def mail(self, address: str, part: str = "text") -> str:
        """The text or html of the newest mail to address, which is sent now."""
        self.stack.invoke("sweep")
        [*_, mail] = [mail for mail in self.stack.inbox() if mail["to"] == [address]]
        return str(mail[part])

    def link(self, address: str) -> str:
        """Sign up, and take the link out of the mail."""
        self.post("/v1/signups", {"email": address})
        return link_in(self.mail(address))

    def rows(self, address: str) -> list[tuple[Any, ...]]:
        """When the address was verified, and what became of its tokens."""
        with psycopg.connect(self.stack.database_url) as connection:
            return connection.execute(ROWS, (address,)).fetchall()


def link_in(text: str) -> str:
    """The verification link of a mail."""
    found = re.search(r"http\S+/verify#token=[A-Za-z0-9_-]{64}(?=\s)", text)
    assert found
    return found[0]


SETTINGS = {
    "SIGNUP_COOLDOWN_SECONDS": "0",
    "SWEEP_LINGER_SECONDS": "0",
    "CLIENT_LIMIT_PER_MINUTE": "0",
    "CLIENT_LIMIT_PER_HOUR": "0",
}


@pytest.fixture(scope="session")
def product(server_url: str) -> Iterator[Product]:
    """The product as it is set up by default."""
    with Stack(settings=SETTINGS, database_url=server_url) as stack:
        yield Product(stack)


@pytest.fixture(scope="session")
def application() -> Iterator[str]:
    """The URL of an application's page."""

    def answer(_: Request) -> Response:
        page = b"<!DOCTYPE html><html lang=en><title>Application</title><h1>Welcome</h1></html>"
        return Response(200, page, (("content-type", "text/html"),))

    front = Front(answer)
    yield f"http://{front.address}/welcome"
    front.close()


@pytest.fixture(scope="session")
def onward_product(server_url: str, application: str) -> Iterator[Product]:
    """The product with codes, and with pages that people are sent on to."""
    settings = {"VERIFY_CODES": "on", "VERIFY_REDIRECT_URLS": f"{application},{application}?b=1"}
    with Stack(settings=SETTINGS | settings, database_url=server_url) as stack:
        yield Product(stack)
