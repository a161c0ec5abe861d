"""One client makes so many requests a minute and an hour, over all processes, by its address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from postlease import accounts
from postlease.errors import LimitError
from tests.integration.auth.test_accounts import together

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.database import Database
    from tests.integration.auth.conftest import Api, World

CLIENT = "192.0.2.10"
POSTS = [
    "/v1/signups",
    "/v1/verifications",
    "/v1/verifications/resend",
    "/v1/password-resets",
    "/verify",
]


@pytest.fixture
def limited(environment: Callable[..., None], world: World) -> None:
    """Three requests a minute, five an hour."""
    environment(
        CLIENT_LIMIT_PER_MINUTE="3",
        CLIENT_LIMIT_PER_HOUR="5",
        RESET_URL="https://app.example.com/new-password",
    )


def end_minute(world: World) -> None:
    """The minute passes; the hour, whose row is the other one, goes on."""
    world.owner.execute(
        "UPDATE postlease.rate_limits SET window_started_at = now() - interval '2 minutes',"
        " window_ends_at = now() - interval '1 minute'"
        " WHERE window_ends_at - window_started_at = interval '1 minute'"
    )


@pytest.mark.usefixtures("limited")
def test_beyond_its_limit_a_client_is_told_how_long_to_wait(api: Api, world: World) -> None:
    for _ in range(3):
        assert api.call("POST", "/v1/verifications", {"token": "x"}, client=CLIENT).status == 400
    refused = api.call("POST", "/v1/signups", {"email": "ada@example.com"}, client=CLIENT)
    assert (refused.status, refused.problem) == (429, "too-many-requests")
    assert 50 < int(refused.headers["retry-after"]) <= 60
    assert world.count("users") == 0
    end_minute(world)
    assert api.call("POST", "/v1/verifications", {"token": "x"}, client=CLIENT).status == 400
    hourly = api.call("POST", "/v1/signups", {"email": "ada@example.com"}, client=CLIENT)
    assert hourly.status == 429
    assert 3500 < int(hourly.headers["retry-after"]) <= 3600


@pytest.mark.usefixtures("limited")
def test_every_post_counts_and_nothing_else_does(api: Api, world: World) -> None:
    for method, path in [("GET", "/healthz"), ("GET", "/verify"), ("PUT", "/v1/signups")] * 3:
        api.call(method, path, client=CLIENT)
    api.call("POST", "/nowhere", {}, client=CLIENT)
    assert world.count("rate_limits") == 0
    for path in POSTS[:3]:
        assert api.call("POST", path, "{", client=CLIENT).status in {400, 415}
    for path in POSTS:
        assert api.call("POST", path, {"email": "ada@example.com"}, client=CLIENT).status == 429


@pytest.mark.usefixtures("limited")
def test_clients_do_not_share_a_limit_and_no_header_makes_another_client(api: Api) -> None:
    for number in range(3):
        api.call("POST", "/v1/signups", {}, client=CLIENT, x_forwarded_for=f"192.0.2.{number}")
    forged = {"x_forwarded_for": "198.51.100.1", "forwarded": "for=198.51.100.1"}
    assert api.call("POST", "/v1/signups", {}, client=CLIENT, **forged).status == 429
    assert api.call("POST", "/v1/signups", {}, client="192.0.2.11").status == 422


@pytest.mark.usefixtures("limited")
def test_the_addresses_of_one_network_of_ipv6_are_one_client(api: Api) -> None:
    for number in range(3):
        api.call("POST", "/v1/signups", {}, client=f"2001:db8:1:2::{number}")
    assert api.call("POST", "/v1/signups", {}, client="2001:db8:1:2:f::").status == 429
    assert api.call("POST", "/v1/signups", {}, client="2001:db8:1:3::").status == 422


@pytest.mark.usefixtures("limited")
def test_the_form_is_refused_with_a_page(api: Api) -> None:
    form = {"content_type": "application/x-www-form-urlencoded"}
    for _ in range(3):
        api.call("POST", "/verify", "link=x", client=CLIENT, **form)
    refused = api.call("POST", "/verify", "link=x", client=CLIENT, **form)
    assert refused.status == 429
    assert refused.headers["content-type"].startswith("text/html")
    assert int(refused.headers["retry-after"]) > 50


@pytest.mark.usefixtures("limited")
def test_all_processes_count_together(world: World, open_database: Callable[[], Database]) -> None:
    processes = [open_database() for _ in range(20)]
    answers = together(20, lambda n: accounts.admit(processes[n], client=CLIENT))
    assert answers.count(None) == 3
    assert all(isinstance(answer, LimitError) for answer in answers if answer is not None)


def test_a_limit_of_zero_counts_nothing(api: Api, world: World) -> None:
    for _ in range(40):
        assert api.call("POST", "/v1/signups", {}, client=CLIENT).status == 422
    assert world.count("rate_limits") == 0


def test_neither_client_nor_mailbox_is_stored_but_as_a_digest(
    api: Api, environment: Callable[..., None], world: World
) -> None:
    environment(CLIENT_LIMIT_PER_MINUTE="3")
    api.call("POST", "/v1/verifications/resend", {"email": "canary@example.com"}, client=CLIENT)
    assert world.count("rate_limits") == 1 + 5
    assert CLIENT not in world.dump()
    assert "canary" not in world.dump()
