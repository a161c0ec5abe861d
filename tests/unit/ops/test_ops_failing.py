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
from botocore.credentials import Credentials, ReadOnlyCredentials

from ops.client import Api
from ops.connecting import Place
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


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://127.0.0.1:99999",
        "http://127.0.0.1:abc",
        "http://[::1",
        "http://127.0.0.1\n",
        "https://exa mple.com",
        "https://\u00e9.example.com",
    ],
)
def test_what_is_no_url_at_all_is_a_wrong_command_line(run: Ops, endpoint: str) -> None:
    result = run("--local", "--endpoint", endpoint, "stats")
    assert (result.status, "must be the URL of the API" in result.err) == (2, True)


@pytest.mark.parametrize(
    "answer", [b"[]", b"3", b'"x"', b"null", b"<html>", b"", b"\xff", b"[" * 100_000]
)
@pytest.mark.parametrize(
    ("request_", "command"),
    [
        ("GET /v1/messages", ["list"]),
        (SHOW, ["show", EVENT]),
        ("GET /v1/gates", ["gate", "show"]),
        (f"POST /v1/messages/{EVENT}/retry", ["retry", EVENT]),
        ("PUT /v1/suppressions", ["suppress", "ada@example.com"]),
    ],
)
def test_an_answer_of_something_else_is_told_and_is_no_traceback(
    ops: Ops, double: Double, request_: str, command: list[str], answer: bytes
) -> None:
    double.say(request_, answer)
    result = ops(*command)
    assert (result.status, result.out) == (5, "")
    assert "not as the API of Postlease does" in result.err


def test_an_answer_without_a_member_is_told_with_its_name(ops: Ops, double: Double) -> None:
    """Another release, or another API that answers JSON."""
    double.say("GET /v1/messages", {"items": []})
    result = ops("list")
    assert (result.status, "lacks 'messages'" in result.err) == (5, True)
    told = message(status="sent")
    del told["claim"]
    double.say(SHOW, told)
    result = ops("show", EVENT)
    assert (result.status, "lacks 'claim'" in result.err) == (5, True)


def test_a_problem_whose_places_are_none_is_told_all_the_same(ops: Ops, double: Double) -> None:
    double.refuse(SHOW, 422, "invalid-input", errors=[3, "x", {"pointer": "/a", "detail": "is b"}])
    result = ops("show", EVENT)
    assert (result.status, result.err) == (1, "ops: /a is b\n")


def test_bytes_that_are_no_text_are_a_wrong_command_line(ops: Ops, double: Double) -> None:
    result = ops("list", "--template", "\udcff")
    assert (result.status, double.asked) == (2, [])
    assert "no text" in result.err


def test_piped_bytes_that_are_no_text_are_a_wrong_command_line() -> None:
    for command in (["cancel", "-"], ["suppress", "-"]):
        ended = subprocess.run(
            [sys.executable, "-m", "ops", "--local", *command],
            cwd=ROOT,
            env=os.environ | {"PYTHONUTF8": "1"},
            input=b"\xff@\n",
            capture_output=True,
            check=False,
        )
        assert (ended.returncode, b"no text" in ended.stderr) == (2, True)


def test_a_terminal_that_knows_less_than_unicode_gets_escapes(double: Double) -> None:
    double.say("GET /v1/messages", {"messages": [message(to=["a", "b"])], "cursor": None})
    ended = subprocess.run(
        [sys.executable, "-m", "ops", "--local", "--endpoint", double.url, "list"],
        cwd=ROOT,
        env=os.environ | {"PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=False,
    )
    assert (ended.returncode, b"\\u2026" in ended.stdout) == (0, True)


@pytest.mark.parametrize("interval", ["nan", "inf", "1e10", "0", "-1"])
def test_an_interval_that_nobody_can_wait_for_is_a_wrong_command_line(
    ops: Ops, double: Double, interval: str
) -> None:
    assert (ops("watch", "--interval", interval).status, double.asked) == (2, [])


def test_nothing_that_the_api_tells_moves_a_cursor(ops: Ops, double: Double) -> None:
    evil = "\x1b[2J\u202e\x9b"
    told = message(
        event_id=evil, status="failed", reason=evil, template=evil, to=[evil], tags={evil: evil}
    )
    entry = {"id": evil, "reason": evil, "created_at": told["created_at"], "expires_at": None}
    double.say("GET /v1/messages", {"messages": [told], "cursor": None})
    double.say(SHOW, told)
    double.say(f"POST /v1/messages/{EVENT}/retry", told)
    double.say("PUT /v1/suppressions", entry)
    double.say("GET /v1/suppressions", {"suppressions": [entry], "cursor": None})
    for command in (
        ["list"],
        ["show", EVENT],
        ["retry", EVENT],
        ["suppress", "ada@example.com"],
        ["suppressions"],
    ):
        result = ops(*command)
        assert result.status == 0
        assert "\\x1b[2J" in result.out
        assert set(evil).isdisjoint({*result.out} - set("[2J"))


def test_each_request_is_signed_with_the_credentials_of_its_moment(double: Double) -> None:
    """Those of a role end within the hour, and somebody may watch for longer."""

    class Renewed(Credentials):
        number = 0

        def get_frozen_credentials(self) -> ReadOnlyCredentials:
            self.number += 1
            return ReadOnlyCredentials(f"KEY{self.number}", "secret", None)

    double.say("GET /v1/stats", {})
    api = Api(Place(double.url, "us-east-1", Renewed("none", "none")))
    for _ in range(2):
        api.get("/v1/stats")
    signed = [one.headers["authorization"].partition("Credential=")[2] for one in double.asked]
    assert [one.partition("/")[0] for one in signed] == ["KEY1", "KEY2"]
