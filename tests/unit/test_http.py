"""The HTTP gate: every event gets an answer, and every wrong one a problem document."""

from __future__ import annotations

import base64
import io
import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postlease import http, problems
from postlease.errors import (
    ConfigurationError,
    ConflictError,
    DatabaseError,
    InvalidInputError,
    MalformedInputError,
    TokenError,
    UnavailableError,
)
from postlease.operations import FORM, Member, Operation, Parameter, Reply, body, text
from postlease.telemetry import logger

CANARY = "canary@example.com"
routes = http.Router()
raised: list[Exception] = []


ANY = text()
FAULTS = (
    problems.EVENT_GONE,
    problems.INVALID_REQUEST,
    problems.INVALID_FIELD,
    problems.TOKEN_INVALID,
    problems.TOKEN_EXPIRED,
    problems.TOKEN_SUPERSEDED,
    problems.TOKEN_USED,
    problems.IDEMPOTENCY_KEY_REUSED,
    problems.IDEMPOTENCY_KEY_IN_PROGRESS,
    problems.Problem(409, "constraint-violated", "Conflict", ""),
)


@routes.post(
    "/things",
    Operation(
        bodies=(body(Member("name", ANY), Member("note", ANY, is_required=False)),),
        replies=(Reply(201, "made", ANY),),
    ),
)
def make(request: http.Request) -> http.Answer:
    """Answers the fields that it read."""
    return http.Answer(201, request.fields())


@routes.post(
    "/either",
    Operation(
        bodies=(
            body(Member("token", ANY)),
            body(Member("email", ANY), Member("code", ANY)),
            body(Member("token", ANY), media_type=FORM),
        ),
        replies=(Reply(200, "read", ANY),),
    ),
)
def either(request: http.Request) -> http.Answer:
    """Answers the fields that it read, out of one of three bodies."""
    return http.Answer(200, request.fields())


@routes.get(
    "/things/{thing_id}",
    Operation(
        parameters=(Parameter("path", "thing_id", ANY), Parameter("header", "X-Tag", ANY)),
        replies=(Reply(200, "found", ANY),),
    ),
)
def show(request: http.Request) -> http.Answer:
    """Answers its path parameter and a header."""
    return http.Answer(
        200, {"id": request.path_parameters["thing_id"], "tag": request.header("X-Tag")}
    )


@routes.get("/page", Operation(replies=(Reply(200, "page", ANY, "text/html"),), is_static=True))
def page(request: http.Request) -> http.Answer:
    """A page."""
    return http.Answer(200, "<p>", headers={"x-own": "1"}, media_type="text/html")


@routes.get("/page.json", Operation(replies=(Reply(200, "found", ANY),), is_static=True))
def dotted(request: http.Request) -> http.Answer:
    """Stands at a path with a dot in it."""
    return http.Answer(200, {})


@routes.get("/fault", Operation(replies=(), problems=FAULTS))
def fault(request: http.Request) -> http.Answer:
    """Raises what the test wants."""
    raise raised.pop()


signed_routes = http.Router(is_signed=True)


@signed_routes.get(
    "/things",
    Operation(
        parameters=(Parameter("query", "a", ANY), Parameter("query", "b", ANY)),
        replies=(Reply(200, "found", ANY),),
    ),
)
def listing(request: http.Request) -> http.Answer:
    """Answers who asks, and for what."""
    return http.Answer(200, {"who": request.principal, **request.parameters()})


SIGNED_PATHS = {"/signed": ["GET", "PATCH"], "/signed/{id}/retry": ["POST"]}
public_routes = http.Router(signed=lambda: SIGNED_PATHS)


def call_signed(query: str = "", **identity: object) -> dict[str, Any]:
    """The signed router's answer to one event, its body parsed."""
    event = {
        "rawPath": "/things",
        "rawQueryString": query,
        "requestContext": {"http": {"method": "GET"}, "authorizer": {"iam": identity}},
    }
    answer = signed_routes(event)
    return answer | {"body": json.loads(answer["body"])}


ARN = "arn:aws:sts::123456789012:assumed-role/support/session"


def call(
    method: str = "POST",
    path: str = "/things",
    body: str | None = None,
    *,
    headers: dict[str, str] | None = None,
    is_base64: bool = False,
    stage: str = "$default",
) -> dict[str, Any]:
    """The router's answer to one event, its body parsed where it is JSON."""
    event = {
        "version": "2.0",
        "rawPath": path,
        "headers": {"content-type": "application/json"} if headers is None else headers,
        "requestContext": {"http": {"method": method}, "stage": stage, "requestId": "r-1"},
        "isBase64Encoded": is_base64,
    }
    if body is not None:
        event["body"] = body
    answer = routes(event)
    assert answer["isBase64Encoded"] is False
    assert answer["headers"]["cache-control"] == "no-store"
    assert answer["headers"]["x-content-type-options"] == "nosniff"
    if "json" in answer["headers"].get("content-type", "") and answer["body"]:
        answer["json"] = json.loads(answer["body"])
    return answer


def assert_problem(answer: dict[str, Any], status: int, slug: str) -> None:
    """The answer is a whole problem document of that status and type."""
    assert answer["statusCode"] == status
    assert answer["headers"]["content-type"] == "application/problem+json"
    document = answer["json"]
    assert document["status"] == status
    assert document["type"] == f"urn:postlease:problem:{slug}"
    assert document["title"]
    assert document["detail"]


def test_a_json_object_of_known_text_members_is_read() -> None:
    assert call(body='{"name": "n", "note": "x"}')["json"] == {"name": "n", "note": "x"}


def test_an_optional_member_may_be_absent_or_null() -> None:
    assert call(body='{"name": "n"}')["json"] == {"name": "n"}
    assert call(body='{"name": "n", "note": null}')["json"] == {"name": "n"}


@pytest.mark.parametrize("body", [None, "", "null", "[]", '"x"', "1", "true", " "])
def test_a_body_that_is_no_object_is_a_400(body: str | None) -> None:
    """HTP-02."""
    answer = call(body=body)
    assert_problem(answer, 400, "invalid-request")
    assert answer["json"]["errors"][0]["pointer"] == "#"


def test_an_empty_object_lacks_its_required_member() -> None:
    answer = call(body="{}")
    assert_problem(answer, 422, "invalid-field")
    assert answer["json"]["errors"] == [{"pointer": "#/name", "detail": "is required"}]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ('{"name": null}', "#/name"),
        ('{"name": 1}', "#/name"),
        ('{"name": ["n"]}', "#/name"),
        ('{"name": {"a": "n"}}', "#/name"),
        ('{"name": true}', "#/name"),
        ('{"name": "n", "note": 5}', "#/note"),
    ],
)
def test_a_member_that_is_no_text_is_a_422_that_names_it(body: str, pointer: str) -> None:
    answer = call(body=body)
    assert_problem(answer, 422, "invalid-field")
    assert answer["json"]["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ("{", "#"),
        ('{"name": "n", "name": "m"}', "#/name"),
        ('{"name": "n", "other": 1}', "#/other"),
        ('{"name": "n", "a/b": 1}', "#/a~1b"),
        ('{"name": "n\\u0000"}', "#/name"),
        ('{"name": "\\ud800"}', "#/name"),
        ('{"name": NaN}', "#/name"),
        ('{"name": 1e999}', "#/name"),
        ("\ufeff{}", "#"),
        ("[" * 10_000, "#"),
        ('{"name": [Infinity]}', "#/name/0"),
        ('{"name": 1' + "0" * 400 + "}", "#/name"),
        ('{"name": ' + "[" * 64 + "]" * 64 + "}", "#"),
    ],
)
def test_a_body_that_cannot_be_read_one_way_is_a_400_that_names_the_place(
    body: str, pointer: str
) -> None:
    """HTP-07: so are a doubled member and a byte order mark."""
    answer = call(body=body)
    assert_problem(answer, 400, "invalid-request")
    assert answer["json"]["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        'application/json;charset="UTF-8"',
        "application/merge-patch+json",
        "application/problem+json",
    ],
)
def test_json_under_any_of_its_names_is_accepted(content_type: str) -> None:
    """HTP-01: the gateway encodes what it does not know to be text."""
    body = '{"name": "n"}'
    headers = {"content-type": content_type}
    encoded = base64.b64encode(body.encode()).decode()
    assert call(body=body, headers=headers)["statusCode"] == 201
    assert call(body=encoded, headers=headers, is_base64=True)["statusCode"] == 201


@pytest.mark.parametrize("headers", [{}, {"content-type": ""}, {"content-type": " "}])
def test_json_without_a_content_type_arrives_in_base64_and_is_accepted(
    headers: dict[str, str],
) -> None:
    encoded = base64.b64encode(b'{"name": "n"}').decode()
    assert call(body=encoded, headers=headers, is_base64=True)["json"] == {"name": "n"}


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/octet-stream"},
        {"content-type": "text/plain"},
        {"content-type": "text/json"},
        {"content-type": "application/json, text/plain"},
        {"content-type": "application/json", "Content-Type": "application/json"},
        {"content-type": "application/json; charset=utf-16"},
        {"content-type": "multipart/form-data; boundary=x"},
        {"content-type": "application/xml+json/x"},
        {"content-type": "application/json", "content-encoding": "gzip"},
    ],
)
def test_another_media_type_is_a_415(headers: dict[str, str]) -> None:
    """HTP-01: whether the gateway brings it as text or in base64."""
    encoded = base64.b64encode(b'{"name": "n"}').decode()
    assert_problem(
        call(body=encoded, headers=headers, is_base64=True), 415, "unsupported-media-type"
    )
    assert_problem(call(body='{"name": "n"}', headers=headers), 415, "unsupported-media-type")


@pytest.mark.parametrize(
    "body", ["!", "e30", "e30=\n", base64.b64encode(b'{"name": "\xff"}').decode(), "é"]
)
def test_broken_base64_and_broken_utf8_are_a_400(body: str) -> None:
    assert_problem(call(body=body, is_base64=True), 400, "invalid-request")


def test_a_lone_surrogate_in_the_event_itself_is_a_400() -> None:
    assert_problem(call(body='{"name": "\ud800"}'), 400, "invalid-request")


def test_64_kilobytes_pass_and_a_byte_more_is_a_413() -> None:
    def body(size: int) -> str:
        return '{"name": "' + "n" * (size - 12) + '"}'

    assert call(body=body(65_536))["statusCode"] == 201
    assert_problem(call(body=body(65_537)), 413, "payload-too-large")
    encoded = base64.b64encode(body(65_537).encode()).decode()
    assert_problem(call(body=encoded, is_base64=True), 413, "payload-too-large")
    assert_problem(call(body="x" * 6_000_000), 413, "payload-too-large")
    assert_problem(call(body="é" * 40_000), 413, "payload-too-large")


@pytest.mark.parametrize("is_base64", [True, False])
def test_a_body_too_large_that_begins_too_deep_is_a_400(is_base64: bool) -> None:
    def sent(text: str) -> str:
        return base64.b64encode(text.encode()).decode() if is_base64 else text

    for deep in ("[" * 100_000, '[{"":' * 50_000):
        assert_problem(call(body=sent(deep), is_base64=is_base64), 400, "invalid-request")
    shallow = sent("[[" + " " * 300_000)
    assert_problem(call(body=shallow, is_base64=is_base64), 413, "payload-too-large")
    late = sent(" " * 70_000 + "[" * 100)
    assert_problem(call(body=late, is_base64=is_base64), 413, "payload-too-large")


@pytest.mark.parametrize(
    "path",
    ["/", "", "/thing", "/things/", "/things/1/", "/things/1/2", "//things", "/pageXjson"],
)
def test_another_path_is_a_404(path: str) -> None:
    assert_problem(call(path=path), 404, "not-found")
    assert call("GET", "/page.json")["statusCode"] == 200


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/things", "OPTIONS, POST"),
        ("PUT", "/things", "OPTIONS, POST"),
        ("DELETE", "/things/1", "GET, OPTIONS"),
        ("POST", "/page", "GET, HEAD, OPTIONS"),
        ("post", "/things", "OPTIONS, POST"),
        ("get", "/page", "GET, HEAD, OPTIONS"),
        ("TRACE", "/things", "OPTIONS, POST"),
        ("", "/things", "OPTIONS, POST"),
    ],
)
def test_a_wrong_method_is_a_405_with_what_is_allowed(method: str, path: str, allow: str) -> None:
    answer = call(method, path)
    assert_problem(answer, 405, "method-not-allowed")
    assert answer["headers"]["allow"] == allow


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("PUT", "/signed", 405, "GET, OPTIONS, PATCH"),
        ("HEAD", "/signed", 405, "GET, OPTIONS, PATCH"),
        ("OPTIONS", "/signed", 204, "GET, OPTIONS, PATCH"),
        ("GET", "/signed/7/retry", 405, "OPTIONS, POST"),
        ("GET", "/signed", 403, None),
        ("POST", "/signed/7/retry", 403, None),
        ("GET", "/signed/", 404, None),
        ("GET", "/signed/7", 404, None),
    ],
)
def test_what_signed_callers_alone_are_served_is_no_unknown_path_to_others(
    method: str, path: str, status: int, allow: str | None
) -> None:
    answer = public_routes({"rawPath": path, "requestContext": {"http": {"method": method}}})
    assert (answer["statusCode"], answer["headers"].get("allow")) == (status, allow)


@pytest.mark.parametrize("path", ["/things", "/things/1", "/fault"])
def test_head_runs_no_route_that_is_not_static(path: str) -> None:
    """VER-02."""
    answer = call("HEAD", path)
    assert answer["statusCode"] == 405
    assert answer["body"] == ""


def test_head_of_a_static_page_is_its_get_without_a_body() -> None:
    get, head = call("GET", "/page"), call("HEAD", "/page")
    assert (get["body"], head["body"]) == ("<p>", "")
    assert get["headers"] == head["headers"]
    assert head["statusCode"] == 200


@pytest.mark.parametrize("path", ["/things", "/fault"])
def test_options_says_what_is_allowed_and_runs_nothing(path: str) -> None:
    answer = call("OPTIONS", path)
    assert (answer["statusCode"], answer["body"]) == (204, "")
    assert "OPTIONS" in answer["headers"]["allow"]


def test_options_of_another_path_is_a_404() -> None:
    assert call("OPTIONS", "/nowhere")["statusCode"] == 404


def test_the_stage_prefix_is_no_part_of_the_path() -> None:
    """HTP-05: it stands in rawPath where the API has a stage of a name."""
    assert call("GET", "/prod/things/7", stage="prod")["json"]["id"] == "7"
    assert call("GET", "/things/7", stage="prod")["json"]["id"] == "7"
    assert call("GET", "/prod/things/7")["statusCode"] == 404


@pytest.mark.parametrize("name", ["x-tag", "X-Tag", "X-TAG"])
def test_a_header_is_found_whatever_its_case(name: str) -> None:
    """HTP-05."""
    assert call("GET", "/things/7", headers={name: "v"})["json"]["tag"] == "v"


def test_a_header_in_two_spellings_is_joined() -> None:
    answer = call("GET", "/things/7", headers={"x-tag": "a", "X-Tag": "b"})
    assert answer["json"]["tag"] == "a,b"


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"requestContext": None, "headers": None, "rawPath": None, "body": None},
        {"requestContext": {"http": None}, "rawPath": "/things"},
        {"version": "1.0", "path": "/things", "httpMethod": "POST"},
    ],
)
def test_an_event_of_another_shape_gets_a_4xx(event: dict[str, Any]) -> None:
    assert routes(event)["statusCode"] in {404, 405}


@pytest.mark.parametrize(
    ("error", "status", "slug"),
    [
        (InvalidInputError("/email", "is wrong"), 422, "invalid-field"),
        (MalformedInputError("/email", "is wrong"), 400, "invalid-request"),
        (TokenError("token-invalid"), 400, "token-invalid"),
        (TokenError("token-expired"), 410, "token-expired"),
        (TokenError("token-superseded"), 410, "token-superseded"),
        (TokenError("token-used"), 410, "token-used"),
        (ConflictError("idempotency-key-reused", "d"), 422, "idempotency-key-reused"),
        (ConflictError("idempotency-key-in-progress", "d"), 409, "idempotency-key-in-progress"),
        (ConflictError("constraint-violated", "d"), 409, "constraint-violated"),
        (UnavailableError("d"), 503, "unavailable"),
        (ConfigurationError("d"), 500, "internal-error"),
        (DatabaseError("23505", "users_pkey"), 500, "internal-error"),
        (KeyError(CANARY), 500, "internal-error"),
        (AssertionError(CANARY), 500, "internal-error"),
        (problems.ProblemError(problems.EVENT_GONE), 410, "event-gone"),
    ],
)
def test_every_error_has_its_problem(error: Exception, status: int, slug: str) -> None:
    raised.append(error)
    answer = call("GET", "/fault")
    assert_problem(answer, status, slug)
    assert CANARY not in answer["body"]


def test_a_code_is_not_called_a_token() -> None:
    """Whatever is wrong with it: the page says the same."""
    raised.append(TokenError("token-invalid", is_typed=True))
    answer = call("GET", "/fault")
    assert_problem(answer, 400, "token-invalid")
    assert answer["json"]["detail"].startswith("This code cannot be used: ")


def test_a_parameter_outside_the_body_is_named_as_such() -> None:
    raised.append(MalformedInputError("Idempotency-Key", "is wrong"))
    answer = call("GET", "/fault")
    assert answer["json"]["errors"] == [{"parameter": "Idempotency-Key", "detail": "is wrong"}]
    assert answer["json"]["detail"] == "Idempotency-Key: is wrong"


@pytest.mark.parametrize(
    "error", [UnavailableError("d"), ConflictError("idempotency-key-in-progress", "d")]
)
def test_what_may_be_repeated_says_when(error: Exception) -> None:
    raised.append(error)
    assert int(call("GET", "/fault")["headers"]["retry-after"]) in range(1, 10)


def test_only_a_failure_of_ours_is_logged_and_never_its_text() -> None:
    written = io.StringIO()
    stream = logging.StreamHandler(written)
    stream.setFormatter(logger.registered_formatter)
    logger.addHandler(stream)
    for error in (
        InvalidInputError("/email", "is wrong"),
        ValueError(CANARY),
        DatabaseError("23505", "users_pkey"),
    ):
        raised.append(error)
        call("GET", "/fault")
    logger.removeHandler(stream)
    assert CANARY not in written.getvalue()
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [line["error"] for line in lines] == ["ValueError", "DatabaseError"]
    assert [line.get("reason") for line in lines] == [
        None,
        "sqlstate 23505, constraint users_pkey",
    ]
    assert all(line["correlation_id"] == "r-1" for line in lines)
    assert all(line["at"].startswith("test_http.py:") for line in lines)


def test_what_a_caller_sent_comes_back_escaped() -> None:
    answer = call(body='{"name": "n", "\u2028<script>": 1}')
    assert answer["body"].isascii()
    assert answer["json"]["errors"][0]["pointer"] == "#/\u2028<script>"


@given(
    body=st.text(max_size=60),
    method=st.sampled_from(["POST", "GET", "HEAD", "OPTIONS", "X"]),
    is_base64=st.booleans(),
)
def test_any_body_gets_an_answer_below_500(body: str, method: str, is_base64: bool) -> None:
    assert call(method, "/things", body, is_base64=is_base64)["statusCode"] < 500


@pytest.mark.parametrize(
    ("arn", "principal"),
    [
        (ARN, "123456789012:role/support"),
        (
            "arn:aws:sts::123456789012:assumed-role/support/ada@example.com",
            "123456789012:role/support",
        ),
        ("arn:aws:iam::123456789012:user/robots/mailer", "123456789012:user/robots/mailer"),
        ("arn:aws:iam::123456789012:user/ada@example.com", "123456789012:user/AIDAEXAMPLE"),
        (f"arn:aws:iam::123456789012:user/{'p/' * 256}ada", "123456789012:user/AIDAEXAMPLE"),
        ("arn:aws:iam::123456789012:root", "123456789012:root"),
        ("arn:aws-cn:iam::123456789012:user/mailer", "123456789012:user/mailer"),
    ],
)
def test_a_signed_caller_is_an_account_and_a_user_or_role(arn: str, principal: str) -> None:
    assert call_signed(userArn=arn, callerId="AIDAEXAMPLE")["body"]["who"] == principal


@pytest.mark.parametrize("identity", [{}, {"userArn": None}, {"userArn": "arn:aws:iam:::user/x"}])
def test_a_router_for_signed_callers_serves_nobody_else(identity: dict[str, Any]) -> None:
    answer = call_signed(**identity)
    assert (answer["statusCode"], answer["body"]["type"]) == (
        403,
        "urn:postlease:problem:forbidden",
    )


def test_a_query_is_decoded() -> None:
    body = call_signed("a=x%20%26&b=", userArn=ARN)["body"]
    assert (body["a"], body["b"]) == ("x &", "")


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("c=1", "c"),
        ("a=1&a=2", "a"),
        (f"{CANARY}=1", "query"),
        (f"{'c' * 33}=1", "query"),
        ("ada%40example.com=1", "query"),
        ("%2Fc=1", "query"),
        ("=1", "query"),
    ],
)
def test_a_query_of_unknown_or_doubled_parameters_is_refused(query: str, parameter: str) -> None:
    answer = call_signed(query, userArn=ARN)
    assert answer["statusCode"] == 400
    assert answer["body"]["errors"][0]["parameter"] == parameter
    assert CANARY not in json.dumps(answer)


def test_a_query_that_is_not_utf8_or_endless_is_refused() -> None:
    for query in ("a=%ff", "&".join(["a=1"] * 60)):
        answer = call_signed(query, userArn=ARN)
        assert (answer["statusCode"], answer["body"]["errors"][0]["parameter"]) == (400, "query")


@pytest.mark.parametrize(
    ("body", "status", "pointer"),
    [
        ('{"token": "t"}', 200, None),
        ('{"email": "e", "code": "c"}', 200, None),
        ("{}", 422, "#/token"),
        ('{"email": "e"}', 422, "#/code"),
        ('{"code": "c"}', 422, "#/email"),
        ('{"token": "t", "code": "c"}', 422, "#/code"),
        ('{"email": "e", "code": "c", "token": null}', 422, "#/token"),
        ('{"token": "t", "other": "o"}', 400, "#/other"),
    ],
)
def test_a_body_is_one_of_its_alternatives_and_no_mixture(
    body: str, status: int, pointer: str | None
) -> None:
    answer = call(path="/either", body=body)
    assert answer["statusCode"] == status
    assert (answer["json"]["errors"][0]["pointer"] if pointer else None) == pointer


FORM_TYPE = {"content-type": FORM}


@pytest.mark.parametrize("is_base64", [True, False])
def test_a_form_is_read_where_a_route_takes_one(is_base64: bool) -> None:
    body = "token=a%2Bb+c"
    if is_base64:
        body = base64.b64encode(body.encode()).decode()
    answer = call(path="/either", body=body, headers=FORM_TYPE, is_base64=is_base64)
    assert answer["json"] == {"token": "a+b c"}
    assert_problem(call(body="name=n", headers=FORM_TYPE), 415, "unsupported-media-type")


@pytest.mark.parametrize(
    ("body", "status", "pointer"),
    [
        ("token=a&token=b", 400, "#/token"),
        ("token=%00", 400, "#/token"),
        ("token=%ff", 400, "#"),
        ("token=a&other=b", 400, "#/other"),
        ("&".join(["token=a"] * 60), 400, "#"),
        ("x", 400, "#/x"),
        ("", 422, "#/token"),
        ("email=e&code=c", 400, "#/email"),
    ],
)
def test_a_form_is_read_as_strictly_as_json(body: str, status: int, pointer: str) -> None:
    answer = call(path="/either", body=body, headers=FORM_TYPE)
    assert answer["statusCode"] == status
    assert answer["json"]["errors"][0]["pointer"] == pointer


def test_an_answer_that_its_route_does_not_describe_is_given_and_told(
    undescribed: list[tuple[str, str]],
) -> None:
    answers = [
        http.Answer(202, {}),
        http.Answer(200, "<p>", media_type="text/html"),
        http.Answer(200),
        http.Answer(200, {}),
    ]
    refusals = [problems.ProblemError(problems.EVENT_GONE), InvalidInputError("/a", "is wrong")]

    def view(request: http.Request) -> http.Answer:
        if answers:
            return answers.pop(0)
        raise refusals.pop(0)

    lone = http.Router()
    lone.get("/x", Operation(replies=(Reply(200, "", ANY),)))(view)
    event = {"rawPath": "/x", "requestContext": {"http": {"method": "GET"}}}
    statuses = [lone(event)["statusCode"] for _ in range(6)]
    assert statuses == [202, 200, 200, 200, 410, 422]
    assert undescribed == [
        ("GET /x", answer) for answer in ("202", "200", "200", "event-gone", "invalid-field")
    ]
    undescribed.clear()


def test_a_route_describes_the_parameters_of_its_path_and_reads_no_others() -> None:
    lone = http.Router()
    with pytest.raises(LookupError):
        lone.get("/x/{id}", Operation(replies=()))
    with pytest.raises(LookupError):
        lone.get("/x", Operation(replies=(), parameters=(Parameter("path", "id", ANY),)))
    lone.get("/x", Operation(replies=()))(lambda request: http.Answer(200, request.header("x-a")))
    event = {"rawPath": "/x", "requestContext": {"http": {"method": "GET"}}}
    assert lone(event)["statusCode"] == 500
