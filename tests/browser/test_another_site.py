"""What a page of another site can do with its visitor's browser, which asks nobody before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.browser.conftest import Browser, Product

# A Blob without a type is sent without Content-Type. The answer may not be read; that it came may.
SEND = """
    const done = arguments[arguments.length - 1];
    const body = new Blob([JSON.stringify({email: arguments[1]})]);
    fetch(arguments[0], {mode: "no-cors", method: "POST", body})
        .then((answer) => done(answer.type), (error) => done(String(error)));
"""


@pytest.mark.parametrize(("host", "accounts"), [("localhost", 0), ("127.0.0.1", 1)])
def test_a_page_of_another_site_signs_nobody_up(
    product: Product, application: str, browser: Browser, host: str, accounts: int
) -> None:
    """Another port of this host is the same site, and shows that the attempt is a real one."""
    browser.open(application.replace("127.0.0.1", host))
    assert browser.heading() == "Welcome"
    browser.requests()
    address = f"from-{host}@example.com"
    url = f"{product.url}/v1/signups"
    assert browser.driver.execute_async_script(SEND, url, address) == "opaque"
    assert browser.requests() == [("POST", url)], "no preflight"
    assert len(product.rows(address)) == accounts
