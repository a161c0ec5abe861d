"""Why a command could not do what it was asked for: said clearly, with the right exit status."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.unit.ops.conftest import EVENT, message

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.ops.conftest import Double, Result

    Ops = Callable[..., Result]

ROOT = Path(__file__).parents[3]
SHOW = f"GET /v1/messages/{EVENT}"
HOST = "https://a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com"


def test_without_credentials_it_says_how_to_name_some(run: Ops, double: Double) -> None:
    result = run("--endpoint", double.url, "--region", "us-east-1", "stats")
    assert (result.status, double.asked) == (4, [])
    assert "no credentials: set AWS_PROFILE" in result.err


def test_without_an_endpoint_or_a_region_it_says_how_to_name_one(
    run: Ops, double: Double, bare: pytest.MonkeyPatch
) -> None:
    result = run("stats")
    assert (result.status, "AWS_ENDPOINT_URL_EXECUTE_API" in result.err) == (2, True)
    bare.setenv("AWS_ENDPOINT_URL", double.url)
    result = run("stats")
    assert (result.status, "AWS_DEFAULT_REGION" in result.err) == (2, True)


def test_a_profile_that_is_not_there_is_named(run: Ops, double: Double) -> None:
    result = run("--endpoint", double.url, "--profile", "oncall", "stats")
    assert (result.status, "'oncall'" in result.err) == (2, True)


@pytest.mark.parametrize(
    "endpoint",
    ["http://api.example.com", "api.example.com", "ftp://127.0.0.1", "https://u:p@api.example.com"],
)
def test_nothing_is_sent_to_what_is_no_https_url(run: Ops, endpoint: str) -> None:
    result = run("--local", "--endpoint", endpoint, "stats")
    assert result.status == 2
    assert "u:p" not in result.err


def test_it_signs_with_the_variables_of_aws_for_the_region_that_the_api_names(
    run: Ops, double: Double, bare: pytest.MonkeyPatch
) -> None:
    from ops import connecting  # noqa: PLC0415

    bare.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    bare.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    bare.setenv("AWS_SESSION_TOKEN", "token")
    bare.setenv("AWS_DEFAULT_REGION", "us-west-2")
    bare.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    bare.setenv("AWS_ENDPOINT_URL_EXECUTE_API", f"{double.url}/prod/")
    double.say(f"{SHOW.replace('/v1', '/prod/v1')}", message(status="sending"))
    assert run("show", EVENT).status == 0
    [asked] = double.asked
    assert "AKIDEXAMPLE/" in asked.headers["authorization"]
    assert "/us-west-2/execute-api/" in asked.headers["authorization"]
    assert asked.headers["x-amz-security-token"] == "token"
    assert connecting.connect(connecting.Wish(HOST)).region == "eu-central-1"
    assert connecting.connect(connecting.Wish(HOST, region="eu-west-1")).region == "eu-west-1"


def test_a_profile_s_credentials_and_region_are_used(
    run: Ops, double: Double, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text("[profile oncall]\nregion = eu-north-1\n")
    keys = "aws_access_key_id = AKIDONCALL\naws_secret_access_key = secret\n"
    (tmp_path / "credentials").write_text(f"[oncall]\n{keys}")
    double.say("GET /v1/messages", {"messages": [], "cursor": None})
    assert run("--endpoint", double.url, "--profile", "oncall", "list").status == 0
    [asked] = double.asked
    assert "AKIDONCALL/" in asked.headers["authorization"]
    assert "/eu-north-1/" in asked.headers["authorization"]


def test_a_403_names_what_was_not_allowed_and_what_may_be_wrong(ops: Ops, double: Double) -> None:
    double.say(SHOW, {"message": "Forbidden"}, status=403)
    result = ops("show", EVENT)
    assert result.status == 4
    for part in (SHOW, "execute-api:Invoke", "us-east-1", "clock"):
        assert part in result.err


def test_an_id_that_nobody_knows_is_named(ops: Ops, double: Double) -> None:
    double.refuse(SHOW, 404, "message-unknown")
    result = ops("show", EVENT)
    assert (result.status, result.out) == (3, "")
    assert EVENT in result.err
    assert "because of message-unknown" in result.err


def test_a_refusal_says_what_the_api_says_with_the_place(ops: Ops, double: Double) -> None:
    double.refuse(f"POST /v1/messages/{EVENT}/retry", 409, "message-expired")
    assert ops("retry", EVENT).err == "ops: because of message-expired\n"
    errors = [{"parameter": "template", "detail": "must be a template's name"}]
    double.refuse("GET /v1/messages", 422, "invalid-field", errors=errors)
    result = ops("list", "--template", "A")
    assert (result.status, result.err) == (1, "ops: template must be a template's name\n")


@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_api_that_cannot_answer_now_is_told_from_a_refusal(
    ops: Ops, double: Double, status: int
) -> None:
    double.say(SHOW, {"message": "Service Unavailable"}, status=status)
    result = ops("show", EVENT)
    assert (result.status, f"({status}: Service Unavailable)" in result.err) == (5, True)


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b""])
def test_what_is_no_answer_of_the_api_is_no_success(ops: Ops, double: Double, body: bytes) -> None:
    double.say(SHOW, body, status=502)
    assert ops("show", EVENT).status == 5
    double.say(SHOW, b"<html>", status=200)
    assert ops("show", EVENT).status == 5


def test_another_service_at_the_endpoint_is_told_so(ops: Ops, double: Double) -> None:
    result = ops("show", EVENT)
    assert (result.status, "is no API of Postlease" in result.err) == (5, True)


def test_an_api_that_cannot_be_reached_is_named(run: Ops) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        result = run("--local", "--endpoint", url, "stats")
    assert (result.status, f"{url} cannot be reached" in result.err) == (5, True)


def test_a_change_that_was_not_answered_may_have_been_done_and_a_look_was_not(
    ops: Ops, double: Double
) -> None:
    double.say(f"POST /v1/messages/{EVENT}/cancel", status=0)
    double.say(SHOW, status=0)
    result = ops("cancel", EVENT)
    assert (result.status, "look before you repeat" in result.err) == (5, True)
    result = ops("show", EVENT)
    assert (result.status, "look before you repeat" in result.err) == (5, False)


def test_whoever_reads_only_the_first_lines_gets_no_error(bare: object, double: Double) -> None:
    double.say("GET /v1/messages", {"messages": [message()], "cursor": None})
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "ops", "--local", "--endpoint", double.url, "list"]
    ended = subprocess.run(
        command, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_with_json_an_error_is_json_too(ops: Ops, double: Double) -> None:
    double.refuse(f"POST /v1/messages/{EVENT}/retry", 409, "message-expired")
    for command in (("--json", "retry", EVENT), ("retry", EVENT, "--json")):
        result = ops(*command)
        assert (result.status, result.out) == (1, "")
        assert json.loads(result.err) == {
            "error": {
                "exit": 1,
                "problem": "message-expired",
                "detail": "because of message-expired",
            }
        }
