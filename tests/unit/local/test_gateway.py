"""Real HTTP becomes an API Gateway 2.0 event, and a function's result becomes an answer."""

from __future__ import annotations

import base64
import http.client
import json
import socket
from typing import TYPE_CHECKING, Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from local.gateway import Gateway
from local.template import Cors, Route
from local.web import Front

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from local.functions import Function

ECHO = """
    import json

    def handler(event, context):
        wish = event["headers"].get("x-wish")
        if wish:
            return json.loads(wish)
        return {"statusCode": 200, "headers": {"content-type": "application/json"},
                "body": json.dumps(event)}
"""
CORS = Cors(("https://app.example",), ("GET", "POST"), ("content-type",), ("retry-after",), 600)


@pytest.fixture
def front(make_function: Callable[..., Function]) -> Iterator[Front]:
    """A gateway before one function that answers with its event, or with what x-wish says."""
    routes = [
        Route("$default", "sample", iam=False),
        Route("GET /users/{id}", "sample", iam=False),
        Route("GET /users/me", "sample", iam=False),
        Route("ANY /files/{proxy+}", "sample", iam=False),
        Route("POST /v1/messages", "sample", iam=True),
    ]
    gateway = Gateway(routes, {"sample": make_function(ECHO)}, cors=CORS)
    opened = Front(gateway.respond)
    yield opened
    opened.close()


def exchange(
    front: Front, method: str, target: str, body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """One request on a connection of its own; underscores in header names become dashes."""
    connection = http.client.HTTPConnection("127.0.0.1", front.port, timeout=20)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, target, body, names)
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def event_of(front: Front, method: str, target: str, *args: Any, **headers: str) -> dict[str, Any]:
    """The event that a request became."""
    status, _, body = exchange(front, method, target, *args, **headers)
    assert status == 200
    event: dict[str, Any] = json.loads(body)
    return event


def raw_exchange(front: Front, content: bytes) -> bytes:
    """Send bytes as they are and read until the other side closes."""
    with socket.create_connection(("127.0.0.1", front.port), timeout=20) as connection:
        connection.sendall(content)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def test_an_event_has_the_shape_of_payload_format_2(front: Front) -> None:
    event = event_of(
        front,
        "POST",
        "/a%20b/c?x=1&x=2&y=&z=%C3%A9",
        b'{"a": 1}',
        Content_Type="application/json",
        X_Mixed_Case="Kept",
        Cookie="a=1; b=2",
        User_Agent="test/1",
    )
    assert event["version"] == "2.0"
    assert event["routeKey"] == event["requestContext"]["routeKey"] == "$default"
    assert event["rawPath"] == "/a b/c"
    assert event["rawQueryString"] == "x=1&x=2&y=&z=%C3%A9"
    assert event["queryStringParameters"] == {"x": "1,2", "y": "", "z": "é"}
    assert event["cookies"] == ["a=1", "b=2"]
    assert event["headers"]["x-mixed-case"] == "Kept"
    assert "cookie" not in event["headers"]
    assert (event["body"], event["isBase64Encoded"]) == ('{"a": 1}', False)
    assert event["requestContext"]["http"] == {
        "method": "POST",
        "path": "/a b/c",
        "protocol": "HTTP/1.1",
        "sourceIp": "127.0.0.1",
        "userAgent": "test/1",
    }
    assert event["requestContext"]["stage"] == "$default"
    assert "pathParameters" not in event
    assert "authorizer" not in event["requestContext"]


def test_repeated_headers_are_joined_with_commas(front: Front) -> None:
    request = b"GET / HTTP/1.1\r\nHost: x\r\nX-Two: a\r\nX-Two: b\r\nConnection: close\r\n\r\n"
    head, _, body = raw_exchange(front, request).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert json.loads(body)["headers"]["x-two"] == "a,b"


def test_the_source_address_is_the_peers_whatever_a_header_claims(front: Front) -> None:
    event = event_of(front, "GET", "/", X_Forwarded_For="203.0.113.9", X_Real_Ip="203.0.113.9")
    assert event["requestContext"]["http"]["sourceIp"] == "127.0.0.1"
    assert event["headers"]["x-forwarded-for"].endswith(", 127.0.0.1")


@pytest.mark.parametrize(
    ("content_type", "encoded"),
    [
        ("application/json", False),
        ("application/json; charset=utf-8", False),
        ("text/plain", False),
        ("application/problem+json", False),
        ("application/xml", False),
        ("application/x-www-form-urlencoded", True),
        ("application/octet-stream", True),
        ("", True),
    ],
)
def test_a_body_that_is_neither_text_nor_json_arrives_in_base64(
    front: Front, content_type: str, encoded: bool
) -> None:
    headers = {"Content_Type": content_type} if content_type else {}
    event = event_of(front, "POST", "/", b'{"a":1}', **headers)
    assert event["isBase64Encoded"] is encoded
    body = base64.b64decode(event["body"]) if encoded else event["body"].encode()
    assert body == b'{"a":1}'


def test_text_that_is_not_utf_8_arrives_in_base64(front: Front) -> None:
    event = event_of(front, "POST", "/", b"\xff\xfe", Content_Type="application/json")
    assert event["isBase64Encoded"] is True
    assert base64.b64decode(event["body"]) == b"\xff\xfe"


def test_an_empty_body_is_no_body(front: Front) -> None:
    event = event_of(front, "POST", "/", b"")
    assert "body" not in event
    assert event["isBase64Encoded"] is False


@pytest.mark.parametrize(
    ("method", "target", "key", "parameters"),
    [
        ("GET", "/users/me", "GET /users/me", None),
        ("GET", "/users/7%2F8", "GET /users/{id}", {"id": "7/8"}),
        ("GET", "/users/7/more", "$default", None),
        ("POST", "/users/7", "$default", None),
        ("DELETE", "/files/a/b", "ANY /files/{proxy+}", {"proxy": "a/b"}),
        ("PATCH", "/", "$default", None),
    ],
)
def test_the_most_specific_route_wins(
    front: Front, method: str, target: str, key: str, parameters: dict[str, str] | None
) -> None:
    event = event_of(front, method, target)
    assert event["routeKey"] == key
    assert event.get("pathParameters") == parameters


def test_head_reaches_the_function_and_gets_no_body(front: Front) -> None:
    wish = json.dumps({"statusCode": 405, "headers": {"allow": "GET"}, "body": "no"})
    status, headers, body = exchange(front, "HEAD", "/", X_Wish=wish)
    assert (status, headers["allow"], headers["content-length"], body) == (405, "GET", "2", b"")


def test_options_without_an_origin_reaches_the_function(front: Front) -> None:
    event = event_of(front, "OPTIONS", "/v1/signups")
    assert event["requestContext"]["http"]["method"] == "OPTIONS"


def test_a_preflight_is_answered_for_the_allowed_origin_alone(front: Front) -> None:
    ask = {"Access_Control_Request_Method": "POST"}
    status, headers, _ = exchange(front, "OPTIONS", "/", Origin="https://app.example", **ask)
    assert status == 204
    assert headers["access-control-allow-origin"] == "https://app.example"
    assert headers["access-control-allow-methods"] == "GET,POST"
    assert headers["access-control-max-age"] == "600"
    status, headers, _ = exchange(front, "OPTIONS", "/", Origin="https://evil.example", **ask)
    assert status == 204
    assert "access-control-allow-origin" not in headers


def test_an_answer_to_the_allowed_origin_says_so(front: Front) -> None:
    _, headers, _ = exchange(front, "GET", "/", Origin="https://app.example")
    assert headers["access-control-allow-origin"] == "https://app.example"
    assert headers["access-control-expose-headers"] == "retry-after"
    _, headers, _ = exchange(front, "GET", "/", Origin="https://evil.example")
    assert "access-control-allow-origin" not in headers


def test_a_result_becomes_status_headers_cookies_and_body(front: Front) -> None:
    wish = {
        "statusCode": 202,
        "headers": {"X-Number": 5, "Content-Type": "application/octet-stream"},
        "cookies": ["a=1; HttpOnly", "b=2"],
        "body": base64.b64encode(b"\x00\xff").decode(),
        "isBase64Encoded": True,
    }
    request = (
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Wish: "
        + json.dumps(wish).encode()
        + b"\r\n\r\n"
    )
    head, _, body = raw_exchange(front, request).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 202")
    assert b"X-Number: 5" in head
    assert head.count(b"set-cookie: ") == 2
    assert body == b"\x00\xff"


def test_a_result_without_a_status_is_json_with_200(front: Front) -> None:
    status, headers, body = exchange(front, "GET", "/", X_Wish='{"a": 1}')
    assert (status, headers["content-type"]) == (200, "application/json")
    assert json.loads(body) == {"a": 1}


@pytest.mark.parametrize(
    "wish",
    [
        {"statusCode": "many"},
        {"statusCode": 99},
        {"statusCode": 200, "body": {"no": "text"}},
        {"statusCode": 200, "body": "%", "isBase64Encoded": True},
        {"statusCode": 200, "headers": {"x": "a\r\nset-cookie: stolen"}},
        {"statusCode": 200, "headers": ["x"]},
    ],
)
def test_a_malformed_result_is_a_500(front: Front, wish: dict[str, Any]) -> None:
    status, _, body = exchange(front, "GET", "/", X_Wish=json.dumps(wish))
    assert (status, json.loads(body)) == (500, {"message": "Internal Server Error"})


def test_a_function_that_fails_is_a_500_without_its_reason(
    make_function: Callable[..., Function],
) -> None:
    broken = make_function("def handler(event, context):\n    raise ValueError('secret')", name="b")
    front = Front(Gateway([Route("$default", "b", iam=False)], {"b": broken}).respond)
    try:
        status, headers, body = exchange(front, "GET", "/")
    finally:
        front.close()
    assert (status, json.loads(body)) == (500, {"message": "Internal Server Error"})
    assert headers["content-type"] == "application/json"


def test_a_throttled_function_is_a_503(make_function: Callable[..., Function]) -> None:
    none_left = make_function(ECHO, name="none", concurrency=0, reserved=True)
    front = Front(Gateway([Route("$default", "none", iam=False)], {"none": none_left}).respond)
    try:
        status, _, body = exchange(front, "GET", "/")
    finally:
        front.close()
    assert (status, json.loads(body)) == (503, {"message": "Service Unavailable"})


def test_an_iam_route_is_served_to_nobody_unsigned(front: Front) -> None:
    status, _, body = exchange(front, "POST", "/v1/messages", b"{}")
    assert (status, json.loads(body)) == (403, {"message": "Forbidden"})
    forged = "AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/execute-api/aws4_request, "
    forged += "SignedHeaders=host;x-amz-date, Signature=" + "0" * 64
    status, _, _ = exchange(front, "POST", "/v1/messages", b"{}", Authorization=forged)
    assert status == 403


def test_an_iam_route_is_served_signed_and_names_the_caller(front: Front) -> None:
    url = f"http://127.0.0.1:{front.port}/v1/messages"
    sample = AWSRequest(method="POST", url=url, data=b"{}")
    SigV4Auth(Credentials("local", "local"), "execute-api", "us-east-1").add_auth(sample)
    names = {name.replace("-", "_"): value for name, value in sample.headers.items()}
    event = event_of(front, "POST", "/v1/messages", b"{}", **names)
    assert event["routeKey"] == "POST /v1/messages"
    assert event["requestContext"]["authorizer"]["iam"]["accessKey"] == "local"


def test_no_route_is_a_404(make_function: Callable[..., Function]) -> None:
    function = make_function(ECHO, name="one")
    front = Front(Gateway([Route("GET /only", "one", iam=False)], {"one": function}).respond)
    try:
        assert exchange(front, "GET", "/else")[0] == 404
        assert exchange(front, "POST", "/only")[0] == 404
        assert exchange(front, "GET", "/only")[0] == 200
    finally:
        front.close()


def test_oversized_requests_are_refused_before_the_function(front: Front) -> None:
    body = b"x" * (6 * 1024 * 1024)
    for content_type in ("text/plain", "application/octet-stream"):
        status, _, answer = exchange(front, "POST", "/", body, Content_Type=content_type)
        assert (status, json.loads(answer)) == (413, {"message": "Request Entity Too Large"})
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10485761\r\n\r\n"
    assert raw_exchange(front, head).startswith(b"HTTP/1.1 413")
    assert exchange(front, "GET", "/", X_Long="y" * 10_240)[0] == 431


def test_a_chunked_body_arrives_whole(front: Front) -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    chunks = b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nT: 1\r\n\r\n"
    body = raw_exchange(front, head + chunks).partition(b"\r\n\r\n")[2]
    assert json.loads(body)["body"] == "hello world"


def test_a_client_that_asks_first_is_told_to_continue(front: Front) -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n"
    with socket.create_connection(("127.0.0.1", front.port), timeout=20) as connection:
        connection.sendall(head + b"Expect: 100-continue\r\nConnection: close\r\n\r\n")
        assert connection.recv(65_536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"hello")
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["body"] == "hello"


def test_a_responders_own_error_is_a_500_and_the_front_lives_on(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("our own mistake")

    broken = Front(fail)
    try:
        for _ in range(2):
            status, _, body = exchange(broken, "GET", "/")
            assert (status, json.loads(body)) == (500, {"message": "Internal Server Error"})
    finally:
        broken.close()
    assert "our own mistake" in capfd.readouterr().err


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: five\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n",
    ],
)
def test_malformed_http_is_a_400_and_the_gateway_lives_on(
    front: Front, request_bytes: bytes
) -> None:
    assert b" 400 " in raw_exchange(front, request_bytes).partition(b"\r\n")[0]
    assert exchange(front, "GET", "/")[0] == 200


def test_a_client_that_leaves_in_the_middle_harms_nobody(front: Front) -> None:
    assert raw_exchange(front, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc") == b""
    assert raw_exchange(front, b"POST / HT") != b"HTTP/1.1 200"
    assert exchange(front, "GET", "/")[0] == 200


def test_a_connection_is_kept_alive(front: Front) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", front.port, timeout=20)
    ports = set()
    try:
        for method in ("GET", "HEAD", "POST", "GET"):
            connection.request(method, "/", headers={"X-Wish": '{"statusCode": 204}'})
            ports.add(connection.sock.getsockname()[1] if connection.sock else None)
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (204, b"")
    finally:
        connection.close()
    assert len(ports) == 1
