"""The pages as the gateway asks for them: looked at for free, the form answered for people."""

from __future__ import annotations

import base64
import json
import re
import secrets
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from tests.integration.auth.conftest import EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.auth.conftest import Api, Reply, World

ADDRESS = "canary.ada@example.com"
ONWARD = "https://app.example.com/welcome"
OTHER = "https://app.example.com/other?a=1"
REFUSED_PORT = 1


def look(api: Api, path: str, query: str = "", method: str = "GET", **headers: str) -> Reply:
    """The answer to one look at a page."""
    event = json.loads((EVENTS / "auth-verify-page.json").read_text())
    event["rawPath"] = event["requestContext"]["http"]["path"] = path
    event["requestContext"]["http"]["method"] = method
    event["rawQueryString"] = query
    event["headers"] |= {name.replace("_", "-"): value for name, value in headers.items()}
    return api.event(event)


def send(api: Api, query: str = "", site: str = "same-origin", **fields: str) -> Reply:
    """The answer to the form, as a browser sends it."""
    event = json.loads((EVENTS / "auth-verify-form.json").read_text())
    event["rawQueryString"] = query
    event["headers"]["sec-fetch-site"] = site
    event["body"] = base64.b64encode(urlencode(fields).encode()).decode()
    return api.event(event)


def heading(reply: Reply) -> str:
    """What the page says first."""
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["referrer-policy"] == "no-referrer"
    found = re.search(r"<h1>(.*?)</h1>", reply.text)
    assert found
    return found[1]


@pytest.fixture
def token(api: Api, world: World) -> str:
    """The token in the mail to an address that signed up."""
    api.call("POST", "/v1/signups", {"email": ADDRESS})
    [made] = world.tokens_of(ADDRESS)
    return made


@pytest.fixture
def unreachable_database(environment: Callable[..., None], secret_store: Any) -> None:
    """Makes the function's secret name a port on which nothing listens."""
    login = {"host": "127.0.0.1", "port": REFUSED_PORT, "dbname": "d", "username": "u"}
    made = secret_store.create_secret(
        Name=secrets.token_hex(8), SecretString=json.dumps(login | {"password": "p"})
    )
    environment(DATABASE_SECRET_ARN=made["ARN"], RESET_URL="https://app.example.com/reset")


@pytest.mark.usefixtures("unreachable_database")
@pytest.mark.parametrize("path", ["/verify", "/reset"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("query", ["", f"token={'A' * 64}", "redirect=%ff&redirect", "&" * 500])
def test_a_page_is_served_without_a_database_whatever_the_query_holds(
    api: Api, path: str, method: str, query: str
) -> None:
    """VER-01, VER-02."""
    reply = look(api, path, query, method)
    assert reply.status == 200
    assert (reply.text == "") == (method == "HEAD")
    assert "A" * 64 not in reply.text


def test_a_pasted_link_verifies_and_again_with_the_same_page(api: Api, token: str) -> None:
    link = f"https://mail.example.com/verify#token={token[:30]}\r\n{token[30:]}"
    first = send(api, link=link)
    assert (first.status, heading(first)) == (200, "Your email address is confirmed")
    again = send(api, link=link)
    assert (again.status, again.text) == (200, first.text)
    assert api.call("POST", "/v1/verifications", {"token": token}).status == 200


def test_a_form_moves_verified_at_once(api: Api, world: World, token: str) -> None:
    send(api, link=token)
    [before] = world.rows("SELECT verified_at FROM postlease.users")
    assert before["verified_at"] is not None
    send(api, link=token)
    assert world.rows("SELECT verified_at FROM postlease.users") == [before]


@pytest.mark.parametrize("link", ["", "x", "A" * 64, "https://mail.example.com/verify", "<script>"])
def test_a_pasted_text_that_holds_no_token_of_ours_is_a_friendly_400(api: Api, link: str) -> None:
    reply = send(api, link=link)
    assert (reply.status, heading(reply)) == (400, "This link is not complete")
    assert "ask for it where you signed up" in reply.text
    assert "<form" in reply.text
    assert "<script" not in reply.text


def test_a_stale_link_is_a_friendly_410_that_says_how_to_ask_again(
    api: Api, world: World, token: str
) -> None:
    world.end_cooldowns()
    api.call("POST", "/v1/verifications/resend", {"email": ADDRESS})
    older, newer = world.tokens_of(ADDRESS)
    assert older == token
    reply = send(api, link=older)
    assert (reply.status, heading(reply)) == (410, "A newer link was sent to you")
    assert "ask for it where you signed up" in reply.text
    world.owner.execute(
        "UPDATE postlease.verification_tokens"
        " SET created_at = now() - interval '2 days', expires_at = now() - interval '1 second'"
    )
    reply = send(api, link=newer)
    assert (reply.status, heading(reply)) == (410, "This link is too old")
    assert "ask for it where you signed up" in reply.text


@pytest.mark.parametrize("switch", ["on", "off"])
def test_a_code_that_is_not_right_is_a_friendly_400(
    api: Api, environment: Callable[..., None], token: str, switch: str
) -> None:
    environment(VERIFY_CODES=switch)
    reply = send(api, email=ADDRESS, code="000000")
    title = "This code does not work" if switch == "on" else "This link is not complete"
    assert (reply.status, heading(reply)) == (400, title)
    assert ('name="code"' in reply.text) == (switch == "on")
    assert ADDRESS not in reply.text


@pytest.mark.parametrize("switch", ["on", "off"])
def test_a_link_that_is_not_whole_is_told_as_one_where_there_are_codes_too(
    api: Api, environment: Callable[..., None], switch: str
) -> None:
    environment(VERIFY_CODES=switch)
    reply = send(api, link="x")
    assert (reply.status, heading(reply)) == (400, "This link is not complete")
    assert ('name="code"' in reply.text) == (switch == "on")
    assert 'name="link"' in reply.text


def test_an_address_that_is_none_is_a_friendly_422(
    api: Api, environment: Callable[..., None]
) -> None:
    environment(VERIFY_CODES="on")
    reply = send(api, email="<b>ada", code="000000")
    assert (reply.status, heading(reply)) == (422, "Please check what you wrote")
    assert "<b>" not in reply.text


@pytest.mark.usefixtures("unreachable_database")
def test_a_database_that_does_not_answer_is_told_by_a_page_with_retry_after(api: Api) -> None:
    reply = send(api, link="A" * 64)
    assert (reply.status, heading(reply)) == (503, "That did not work just now")
    assert reply.headers["retry-after"] == "2"


def test_a_client_that_sends_too_many_forms_is_told_by_a_page(
    api: Api, environment: Callable[..., None], token: str
) -> None:
    environment(CLIENT_LIMIT_PER_MINUTE="1")
    send(api, link="x")
    reply = send(api, link=token)
    assert (reply.status, heading(reply)) == (429, "Too many tries")
    assert int(reply.headers["retry-after"]) > 0
    assert look(api, "/verify").status == 200


def test_a_form_of_another_site_changes_nothing(api: Api, world: World, token: str) -> None:
    before = world.dump()
    reply = send(api, link=token, site="cross-site")
    assert (reply.status, reply.problem) == (403, "form-of-another-site")
    assert world.dump() == before


@pytest.mark.parametrize("path", ["/v1/signups", "/v1/verifications", "/v1/verifications/resend"])
def test_a_form_is_taken_by_the_page_alone(api: Api, world: World, token: str, path: str) -> None:
    before = world.dump()
    event = json.loads((EVENTS / "auth-verify-form.json").read_text())
    event["rawPath"] = event["requestContext"]["http"]["path"] = path
    fields = urlencode({"token": token, "email": ADDRESS}).encode()
    event["body"] = base64.b64encode(fields).decode()
    reply = api.event(event)
    assert (reply.status, reply.problem) == (415, "unsupported-media-type")
    assert world.dump() == before


def test_the_page_takes_no_json(api: Api, token: str) -> None:
    reply = api.call("POST", "/verify", {"link": token})
    assert (reply.status, reply.problem) == (415, "unsupported-media-type")
    assert reply.json["detail"] == "The body must be application/x-www-form-urlencoded."


@pytest.mark.parametrize(
    ("query", "onward"),
    [
        ("", ONWARD),
        (urlencode({"redirect": OTHER}), OTHER),
        (urlencode({"redirect": ONWARD, "utm_source": "mail"}), ONWARD),
        (urlencode({"redirect": "https://evil.example/"}), ONWARD),
        (urlencode({"redirect": f"{ONWARD}/"}), ONWARD),
        (urlencode({"redirect": ONWARD.upper()}), ONWARD),
        (urlencode({"redirect": f"{ONWARD}?a"}), ONWARD),
        (urlencode([("redirect", OTHER), ("redirect", OTHER)]), ONWARD),
        ("redirect=//evil.example", ONWARD),
        ("redirect=javascript:alert(1)", ONWARD),
    ],
)
def test_a_person_is_sent_on_to_a_listed_page_alone(
    api: Api, environment: Callable[..., None], token: str, query: str, onward: str
) -> None:
    environment(VERIFY_REDIRECT_URLS=f"{ONWARD}, {OTHER}")
    page = look(api, "/verify", query)
    assert f'<a class="button" href="{onward}">' in page.text
    assert "evil" not in page.text
    reply = send(api, query, link=token)
    assert (reply.status, reply.headers["location"]) == (303, onward)
    assert heading(reply) == "Your email address is confirmed"


def test_without_a_list_nobody_is_sent_anywhere(api: Api, token: str) -> None:
    query = urlencode({"redirect": ONWARD})
    assert "app.example.com" not in look(api, "/verify", query).text
    reply = send(api, query, link=token)
    assert reply.status == 200
    assert "location" not in reply.headers
    assert "app.example.com" not in reply.text


def test_a_refused_form_sends_nobody_on(api: Api, environment: Callable[..., None]) -> None:
    environment(VERIFY_REDIRECT_URLS=ONWARD)
    reply = send(api, link="A" * 64)
    assert reply.status == 400
    assert "location" not in reply.headers


@pytest.mark.parametrize("path", ["/verify", "/reset"])
def test_a_page_speaks_the_reader_s_language(
    api: Api, environment: Callable[..., None], path: str
) -> None:
    environment(RESET_URL="https://app.example.com/reset")
    german = look(api, path, accept_language="de-CH, en;q=0.5")
    assert german.headers["content-language"] == "de"
    assert german.headers["vary"] == "accept-language"
    assert '<html lang="de">' in german.text
    assert look(api, path, accept_language="fr").headers["content-language"] == "en"
    assert look(api, path, method="HEAD", accept_language="de").headers == german.headers


def test_the_reset_page_is_there_only_where_resets_are_on(
    api: Api, environment: Callable[..., None]
) -> None:
    environment(RESET_URL="")
    assert look(api, "/reset").problem == "not-found"
    assert look(api, "/reset", method="HEAD").status == 404
    environment(RESET_URL="https://app.example.com/reset")
    reply = look(api, "/reset")
    assert (reply.status, heading(reply)) == (200, "Choose a new password")
    assert look(api, "/reset", method="POST").status == 405
