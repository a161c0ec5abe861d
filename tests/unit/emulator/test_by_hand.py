"""`make emulator`: what it prints is what docs/deploy.md asks for, and its URL leads to the API."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from local.web import Front, Request, Response
from tests.emulator.by_hand import ByHand, forward
from tests.template.deployment import source

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = {"host": "127.0.0.1", "port": 5433, "password": "secret"}


@pytest.fixture
def account() -> Any:
    cloud = SimpleNamespace(
        environment={"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_DEFAULT_REGION": "us-east-1"}
    )
    return SimpleNamespace(
        emulator=SimpleNamespace(cloud=cloud, port=1),
        front=SimpleNamespace(port=5433),
        server_version="18",
        login=SECRET,
        parameters=lambda arn: {"DatabaseHost": "127.0.0.1", "DatabaseOwnerSecretArn": arn},
    )


def test_every_parameter_that_has_no_default_has_its_answer(account: Any) -> None:
    told = ByHand(account, say=str).welcome()
    required = [name for name, one in source()["Parameters"].items() if "Default" not in one]
    answers = told.partition("Answer with these")[2]
    assert [name for name in required if f"\n  {name} " not in answers] == []


def test_the_owner_s_secret_is_printed_as_one_word_of_the_shell(account: Any) -> None:
    told = ByHand(account, say=str).welcome()
    written = told.partition("--secret-string '")[2].partition("'\n")[0]
    assert json.loads(written) == SECRET


@pytest.fixture
def deployed() -> Iterator[tuple[Any, list[Request]]]:
    """A cloud whose API answers 202, and what was asked of it."""
    asked: list[Request] = []

    def respond(request: Request) -> Response:
        asked.append(request)
        return Response(202, b"{}", (("content-type", "application/json"),))

    front = Front(respond)
    cloud = SimpleNamespace(
        url=f"http://{front.address}",
        outputs=lambda _: {"ApiUrl": "http://a1.execute-api.example:1"},
    )
    yield cloud, asked
    front.close()


def test_a_request_reaches_the_deployed_api_by_its_host_s_name(
    deployed: tuple[Any, list[Request]],
) -> None:
    cloud, asked = deployed
    ours = Front(lambda request: forward(cloud, request))
    try:
        request = urllib.request.Request(
            f"http://{ours.address}/v1/signups?a=b", b"{}", {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310  loopback
            assert (answer.status, answer.read()) == (202, b"{}")
            assert answer.headers.get_all("content-length") == ["2"]
    finally:
        ours.close()
    [made] = asked
    assert (made.method, made.target, made.body) == ("POST", "/v1/signups?a=b", b"{}")
    assert made.header("host") == "a1.execute-api.example:1"
    assert made.header("content-type") == "application/json"


def test_before_there_is_a_stack_the_url_says_so() -> None:
    cloud: Any = SimpleNamespace(outputs=lambda _: {})
    ours = Front(lambda request: forward(cloud, request))
    try:
        with pytest.raises(urllib.error.HTTPError, match="503") as told:
            urllib.request.urlopen(f"http://{ours.address}/healthz", timeout=10)
        told.value.close()
    finally:
        ours.close()
