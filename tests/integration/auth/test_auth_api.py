"""The auth function as the gateway calls it: real events, a real database, whole answers."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from postlease.database import CONNECT_TIMEOUT_SECONDS
from tests.integration.auth.conftest import EVENTS

if TYPE_CHECKING:
    import io
    from collections.abc import Callable

    from tests.integration.auth.conftest import Api, World

ADDRESS = "canary.ada@example.com"
TABLES = (
    "users",
    "verification_tokens",
    "email_messages",
    "idempotency_keys",
    "rate_limits",
)
ROUTES = [
    ("POST", "/v1/signups"),
    ("POST", "/v1/verifications"),
    ("POST", "/v1/verifications/resend"),
    ("GET", "/v1/events/evt_01JZ8Q4G7N3V5X9B2D6F8H0K1M"),
    ("GET", "/verify"),
    ("GET", "/healthz"),
]


@pytest.fixture
def point_database_at(environment: Callable[..., None], secret_store: Any) -> Callable[[int], None]:
    """Makes the function's database secret name a port of this machine."""

    def point(port: int) -> None:
        login = {"host": "127.0.0.1", "port": port, "dbname": "d", "username": "u", "password": "p"}
        made = secret_store.create_secret(Name=secrets.token_hex(8), SecretString=json.dumps(login))
        environment(DATABASE_SECRET_ARN=made["ARN"])

    return point


def assert_nothing_stored(world: World) -> None:
    """Every table of the API is empty."""
    assert {table: world.count(table) for table in TABLES} == dict.fromkeys(TABLES, 0)


def test_the_main_flow_from_sign_up_to_verified(api: Api, world: World) -> None:
    signed_up = api.call("POST", "/v1/signups", {"email": ADDRESS, "locale": "en"})
    assert signed_up.status == 202
    assert set(signed_up.json) == {"user_id", "verification"}
    event_id = signed_up.json["verification"]["event_id"]
    assert signed_up.json["verification"] == {"status": "queued", "event_id": event_id}

    event = api.call("GET", f"/v1/events/{event_id}")
    assert event.status == 200
    assert set(event.json) == {"event_id", "status", "created_at", "sent_at", "finished_at"}
    assert (event.json["event_id"], event.json["status"]) == (event_id, "queued")

    [token] = world.tokens_of(ADDRESS)
    verified = api.call("POST", "/v1/verifications", {"token": token})
    assert verified.status == 200
    assert set(verified.json) == {"status", "user_id", "verified_at"}
    assert verified.json["status"] == "verified"
    assert verified.json["user_id"] == signed_up.json["user_id"]

    again = api.call("POST", "/v1/verifications", {"token": token})
    assert (again.status, again.text) == (200, verified.text)


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("auth-signup", 202),
        ("auth-signup-base64", 202),
        ("auth-verification", 400),
        ("auth-verification-resend", 202),
        ("auth-event", 410),
        ("auth-verify-page", 200),
        ("auth-verify-form", 400),
        ("auth-reset-page", 404),
        ("auth-openapi", 200),
        ("auth-docs", 200),
        ("auth-healthz", 200),
    ],
)
def test_every_sample_event_is_answered(api: Api, name: str, status: int) -> None:
    assert api.event(json.loads((EVENTS / f"{name}.json").read_text())).status == status


@pytest.mark.parametrize("name", ["idempotency-key", "Idempotency-Key"])
def test_an_equal_request_under_its_key_is_replayed_and_says_so(
    api: Api, world: World, name: str
) -> None:
    """HTP-05: emulators and gateways differ in the header's case."""
    body = {"email": ADDRESS, "locale": "en"}
    first = api.call("POST", "/v1/signups", body, **{name: "k-1"})
    world.end_cooldowns()
    turned = {"locale": "en", "email": ADDRESS}
    again = api.call("POST", "/v1/signups", turned, **{name: '"k-1"'})
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert (again.status, again.text) == (first.status, first.text)
    assert world.count("email_messages") == 1


def test_another_request_under_the_same_key_is_a_422(api: Api, world: World) -> None:
    api.call("POST", "/v1/signups", {"email": ADDRESS}, idempotency_key="k")
    other = api.call("POST", "/v1/signups", {"email": ADDRESS, "locale": "de"}, idempotency_key="k")
    assert (other.status, other.problem) == (422, "idempotency-key-reused")


def test_a_request_that_is_still_running_is_a_409_that_says_when(api: Api, world: World) -> None:
    api.call("POST", "/v1/signups", {"email": ADDRESS}, idempotency_key="k")
    with world.owner.transaction():
        world.owner.execute("UPDATE postlease.idempotency_keys SET expires_at = expires_at")
        held = api.call("POST", "/v1/signups", {"email": ADDRESS}, idempotency_key="k")
    assert (held.status, held.problem) == (409, "idempotency-key-in-progress")
    assert held.headers["retry-after"] == "1"


@pytest.mark.parametrize("key", ["", "a b", "é", "k" * 256, '"'])
def test_a_malformed_key_is_a_400_that_names_the_header(api: Api, world: World, key: str) -> None:
    answer = api.call("POST", "/v1/signups", {"email": ADDRESS}, idempotency_key=key)
    assert (answer.status, answer.problem) == (400, "invalid-request")
    assert answer.json["errors"][0]["parameter"] == "Idempotency-Key"
    assert_nothing_stored(world)


@pytest.mark.parametrize(
    ("body", "status", "pointer"),
    [
        pytest.param("{", 400, "#", id="malformed JSON"),
        pytest.param('{"email": "a@example.com",}', 400, "#", id="trailing comma"),
        pytest.param("", 400, "#", id="no body"),
        pytest.param("null", 400, "#", id="null"),
        pytest.param("[]", 400, "#", id="an array"),
        pytest.param('"a@example.com"', 400, "#", id="a text"),
        pytest.param("{}", 422, "#/email", id="a missing address"),
        pytest.param('{"email": null}', 422, "#/email", id="a null address"),
        pytest.param('{"email": 5}', 422, "#/email", id="an address that is a number"),
        pytest.param('{"email": ""}', 422, "#/email", id="an empty address"),
        pytest.param('{"email": "ada"}', 422, "#/email", id="an address without @"),
        pytest.param('{"email": "a@b@c.example"}', 422, "#/email", id="two @"),
        pytest.param('{"email": "a@example.com\\u0000"}', 400, "#/email", id="NUL"),
        pytest.param('{"em\\u0000ail": "a@example.com"}', 400, "#/em\0ail", id="NUL in a name"),
        pytest.param('{"email": "\\ud800@example.com"}', 400, "#/email", id="lone surrogate"),
        pytest.param(
            '{"email": "a@example.com", "email": "b@example.com"}', 400, "#/email", id="doubled"
        ),
        pytest.param('\ufeff{"email": "a@example.com"}', 400, "#", id="byte order mark"),
        pytest.param('{"email": NaN}', 400, "#/email", id="NaN"),
        pytest.param('{"email": 1e999}', 400, "#/email", id="1e999"),
        pytest.param(
            '{"email": "a@example.com", "role": "admin"}', 400, "#/role", id="unknown member"
        ),
        pytest.param(
            '{"email": "a@example.com", "locale": "en_US.UTF-8"}', 422, "#/locale", id="locale"
        ),
        pytest.param(
            '{"email": "a@example.com", "locale": ["en"]}', 422, "#/locale", id="locale list"
        ),
        pytest.param("[" * 20_000, 400, "#", id="deep nesting"),
        pytest.param('{"email": ' + "9" * 5_000 + "}", 400, "#/email", id="huge integer"),
    ],
)
def test_a_bad_body_is_a_4xx_that_names_the_place_and_stores_nothing(
    api: Api, world: World, body: str, status: int, pointer: str
) -> None:
    answer = api.call("POST", "/v1/signups", body)
    assert answer.status == status
    assert answer.problem == ("invalid-request" if status == 400 else "invalid-field")
    assert answer.json["errors"][0]["pointer"] == pointer
    assert_nothing_stored(world)


@pytest.mark.parametrize("path", ["/v1/signups", "/v1/verifications", "/v1/verifications/resend"])
def test_an_oversized_body_is_a_413_and_stores_nothing(api: Api, world: World, path: str) -> None:
    answer = api.call("POST", path, {"email": "a" * 70_000})
    assert (answer.status, answer.problem) == (413, "payload-too-large")
    assert_nothing_stored(world)


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_another_content_type_is_a_415_and_stores_nothing(
    api: Api, world: World, content_type: str
) -> None:
    answer = api.call("POST", "/v1/signups", {"email": ADDRESS}, content_type=content_type)
    assert (answer.status, answer.problem) == (415, "unsupported-media-type")
    assert answer.json["detail"] == "The body must be application/json."
    assert_nothing_stored(world)


def test_a_base64_body_without_content_type_is_read(api: Api, world: World) -> None:
    event = json.loads((EVENTS / "auth-signup-base64.json").read_text())
    event["headers"].pop("content-type", None)
    assert event["isBase64Encoded"]
    assert api.event(event).status == 202
    event["body"] = "%%%"
    assert (api.event(event).status, api.event(event).problem) == (400, "invalid-request")


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("wrong", ["PUT", "DELETE", "PATCH", "TRACE", "get", "post", "BREW"])
def test_a_wrong_method_is_a_405_with_what_is_allowed(
    api: Api, method: str, path: str, wrong: str
) -> None:
    answer = api.call(wrong, path, {"email": ADDRESS})
    assert (answer.status, answer.problem) == (405, "method-not-allowed")
    assert method in answer.headers["allow"].split(", ")


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_head_and_options_never_touch_the_database(
    api: Api, point_database_at: Callable[[int], None], method: str, path: str
) -> None:
    """VER-02: they are answered although no database is there."""
    point_database_at(1)
    head, options = api.call("HEAD", path), api.call("OPTIONS", path)
    assert head.status in {200, 405}
    assert options.status == 204
    assert head.text == options.text == ""


@pytest.mark.parametrize(
    "path", ["/v1/signups/", "/v1", "/", "/v1/events/", "/verify/", "/V1/signups"]
)
def test_another_path_is_a_404(api: Api, path: str) -> None:
    assert (api.call("POST", path, {}).status, api.call("GET", path).problem) == (404, "not-found")


@pytest.mark.parametrize(
    "address",
    [
        "a@example.com\0 junk",
        "\u200bada@example.com",
        "ada@exam\u200bple.com",
        "\ufeffada@example.com",
        "victim+test\u037eattacker@example.com",
        "x\u1fefy@example.com",
        "aa@.com",
        f"a@{'b' * 64}.com",
        "a@\U0001f600.example",
        "a@example.com.",
        "a@-x.com",
        "a@1.2.3.4",
        "a@example.com, b@example.com",
        "Ada <a@example.com>",
        "a" * 65 + "@example.com",
        "jos\u00e9@example.com",
    ],
)
@pytest.mark.parametrize("path", ["/v1/signups", "/v1/verifications/resend"])
def test_an_address_we_cannot_send_to_is_refused_by_name(
    api: Api, world: World, path: str, address: str
) -> None:
    """SGN-04, SGN-05, SGN-07, SGN-08."""
    answer = api.call("POST", path, {"email": address})
    assert answer.status in {400, 422}
    assert answer.json["errors"][0]["pointer"] == "#/email"
    assert_nothing_stored(world)


def test_outer_whitespace_of_an_address_is_trimmed(api: Api, world: World) -> None:
    assert api.call("POST", "/v1/signups", {"email": f" {ADDRESS}\n"}).status == 202
    assert len(world.tokens_of(ADDRESS)) == 1


def test_a_known_an_unknown_and_a_verified_address_are_answered_alike(
    api: Api, world: World
) -> None:
    for name in ("known", "verified"):
        api.call("POST", "/v1/signups", {"email": f"{name}@example.com"})
    [token] = world.tokens_of("verified@example.com")
    api.call("POST", "/v1/verifications", {"token": token})
    world.end_cooldowns()
    asked = {
        name: api.call("POST", "/v1/verifications/resend", {"email": f"{name}@example.com"})
        for name in ("unknown", "known", "verified")
    }
    assert {reply.text for reply in asked.values()} == {'{"status": "accepted"}'}
    world.end_cooldowns()
    asked |= {
        f"{name} again": api.call("POST", "/v1/signups", {"email": f"{name}@example.com"})
        for name in ("unknown", "known", "verified")
    }
    assert {reply.status for reply in asked.values()} == {202}
    assert len({json.dumps(reply.headers) for reply in asked.values()}) == 1
    shapes = {
        (len(reply.text), reply.json["verification"]["status"])
        for name, reply in asked.items()
        if name.endswith("again")
    }
    assert len(shapes) == 1


@pytest.mark.parametrize(
    "body", [{"token": ""}, {"token": "x"}, {"token": "A" * 64}, {"token": "é"}]
)
def test_a_text_that_is_no_token_is_a_400(api: Api, body: dict[str, str]) -> None:
    answer = api.call("POST", "/v1/verifications", body)
    assert (answer.status, answer.problem) == (400, "token-invalid")


def test_a_token_is_told_from_a_missing_one(api: Api) -> None:
    assert api.call("POST", "/v1/verifications", {}).json["errors"][0]["pointer"] == "#/token"


def test_a_stale_token_is_a_410_that_says_how_to_go_on(api: Api, world: World) -> None:
    api.call("POST", "/v1/signups", {"email": ADDRESS})
    world.end_cooldowns()
    api.call("POST", "/v1/verifications/resend", {"email": ADDRESS})
    older, newer = world.tokens_of(ADDRESS)
    answer = api.call("POST", "/v1/verifications", {"token": older})
    assert (answer.status, answer.problem) == (410, "token-superseded")
    assert "/v1/verifications/resend" in answer.json["detail"]
    world.owner.execute(
        "UPDATE postlease.verification_tokens"
        " SET created_at = now() - interval '2 days', expires_at = now() - interval '1 second'"
    )
    answer = api.call("POST", "/v1/verifications", {"token": newer})
    assert (answer.status, answer.problem) == (410, "token-expired")
    assert "/v1/verifications/resend" in answer.json["detail"]


def test_an_event_that_is_not_there_is_a_404_an_old_one_a_410_a_broken_id_a_400(
    api: Api, world: World
) -> None:
    unknown = world.rows("SELECT postlease.uuid_v7() AS id")[0]["id"]
    from postlease.model import event_id  # noqa: PLC0415

    answer = api.call("GET", f"/v1/events/{event_id(unknown)}")
    assert (answer.status, answer.problem) == (404, "event-unknown")
    answer = api.call("GET", "/v1/events/evt_01" + "0" * 24)
    assert (answer.status, answer.problem) == (410, "event-gone")
    for malformed in ("evt_1", str(unknown)):
        answer = api.call("GET", f"/v1/events/{malformed}")
        assert (answer.status, answer.problem) == (400, "invalid-request")
        assert answer.json["errors"][0]["parameter"] == "event_id"


def test_looking_at_a_link_changes_nothing_however_often(api: Api, world: World) -> None:
    """VER-01, VER-02: scanners open the link, with the token in every place, before the human."""
    api.call("POST", "/v1/signups", {"email": ADDRESS})
    [token] = world.tokens_of(ADDRESS)
    before = world.dump()
    for agent in ("curl/8", "Mozilla/5.0", "Slackbot", "", "Outlook-SafeLinks"):
        for method in ("GET", "HEAD"):
            assert api.call(method, "/verify", user_agent=agent).status == 200
            api.call(method, f"/verify/{token}", user_agent=agent)
            api.call(method, "/v1/verifications", user_agent=agent)
    page = json.loads((EVENTS / "auth-verify-page.json").read_text())
    page["rawQueryString"], page["queryStringParameters"] = f"token={token}", {"token": token}
    assert api.event(page).status == 200
    assert world.dump() == before
    assert api.call("POST", "/v1/verifications", {"token": token}).status == 200


def test_the_page_is_safe_to_serve(api: Api) -> None:
    page = api.call("GET", "/verify")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert "noindex" in page.headers["x-robots-tag"]
    assert page.headers["content-security-policy"].startswith("default-src 'none'; script-src 'sha")
    assert api.call("HEAD", "/verify").headers == page.headers


def test_health_is_the_databases_answer(api: Api, point_database_at: Callable[[int], None]) -> None:
    assert api.call("GET", "/healthz").json == {"status": "ok"}
    point_database_at(1)
    answer = api.call("GET", "/healthz")
    assert (answer.status, answer.problem) == (503, "unavailable")
    assert answer.headers["retry-after"] == "2"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/signups", {"email": ADDRESS}),
        ("/v1/verifications", {"token": "A" * 64}),
        ("/v1/verifications/resend", {"email": ADDRESS}),
    ],
)
def test_a_database_that_refuses_is_a_503_with_retry_after(
    api: Api, point_database_at: Callable[[int], None], path: str, body: dict[str, str]
) -> None:
    point_database_at(1)
    answer = api.call("POST", path, body)
    assert (answer.status, answer.problem) == (503, "unavailable")
    assert int(answer.headers["retry-after"]) > 0


def test_a_database_that_does_not_answer_is_a_503_by_the_connect_timeout(
    api: Api, point_database_at: Callable[[int], None]
) -> None:
    """It would stay silent for ever."""
    assert CONNECT_TIMEOUT_SECONDS < 3
    with socket.create_server(("127.0.0.1", 0)) as silent:
        point_database_at(silent.getsockname()[1])
        answer = api.call("POST", "/v1/signups", {"email": ADDRESS})
    assert (answer.status, answer.problem) == (503, "unavailable")


def test_a_connection_cut_while_the_environment_slept_is_replaced(api: Api, world: World) -> None:
    """DBL-01."""
    assert api.call("GET", "/healthz").status == 200
    world.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE usename = 'postlease_application' AND datname = current_database()"
    )
    assert api.call("POST", "/v1/signups", {"email": ADDRESS}).status == 202


def test_a_request_after_a_failed_one_is_served(api: Api, world: World) -> None:
    """DBL-07: the failed transaction is over, and its connection still good."""
    api.call("POST", "/v1/signups", {"email": ADDRESS})
    world.end_cooldowns()
    with world.owner.transaction():
        world.owner.execute("SELECT FROM postlease.users FOR UPDATE")
        assert api.call("POST", "/v1/signups", {"email": ADDRESS}).status == 503
    assert api.call("POST", "/v1/signups", {"email": ADDRESS}).status == 202


def test_a_refused_statement_is_a_500_without_its_text(
    api: Api, world: World, logs: io.StringIO
) -> None:
    """A rule of the schema that the code does not know of: neither answer nor log tells the row."""
    world.owner.execute(
        "ALTER TABLE postlease.users ADD CONSTRAINT test_refuses CHECK (locale <> 'xx') NOT VALID"
    )
    try:
        answer = api.call("POST", "/v1/signups", {"email": ADDRESS, "locale": "xx"})
    finally:
        world.owner.execute("ALTER TABLE postlease.users DROP CONSTRAINT test_refuses")
    assert (answer.status, answer.problem) == (500, "internal-error")
    [line] = [json.loads(line) for line in logs.getvalue().splitlines()]
    assert line["error"] == "DatabaseError"
    assert line["reason"] == "sqlstate 23514, constraint test_refuses"
    assert "canary" not in answer.text + logs.getvalue()
    assert_nothing_stored(world)


def test_secrets_that_are_wrong_are_a_500_that_the_log_explains(
    api: Api, environment: Callable[..., None], secret_store: Any, logs: io.StringIO
) -> None:
    made = secret_store.create_secret(
        Name=secrets.token_hex(8), SecretString='{"current": "k1", "k1": "short-canary"}'
    )
    environment(TOKEN_KEYS_SECRET_ARN=made["ARN"])
    answer = api.call("POST", "/v1/signups", {"email": ADDRESS})
    assert (answer.status, answer.problem) == (500, "internal-error")
    assert "the token key k1 is not 43 characters" in logs.getvalue()
    assert "canary" not in answer.text + logs.getvalue()


def test_a_secret_store_that_does_not_answer_is_a_503(
    api: Api, environment: Callable[..., None]
) -> None:
    """It would stay silent for ever, and boto3 would ask it five times for a minute each."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environment(AWS_ENDPOINT_URL=f"http://127.0.0.1:{silent.getsockname()[1]}")
        begun = time.monotonic()
        answer = api.call("POST", "/v1/signups", {"email": ADDRESS})
        assert time.monotonic() - begun < 60
    assert (answer.status, answer.problem) == (503, "unavailable")


def test_a_missing_secret_is_a_503(api: Api, environment: Callable[..., None]) -> None:
    environment(
        PEPPER_SECRET_ARN="arn:aws:secretsmanager:us-east-1:123456789012:secret:none-aaaaaa"
    )
    answer = api.call("POST", "/v1/signups", {"email": ADDRESS})
    assert (answer.status, answer.problem) == (503, "unavailable")


def test_logs_carry_ids_and_no_address_and_no_token(
    api: Api, world: World, logs: io.StringIO
) -> None:
    """RET-05."""
    signed_up = api.call("POST", "/v1/signups", {"email": ADDRESS}, idempotency_key="canary-key")
    [token] = world.tokens_of(ADDRESS)
    api.call("POST", "/v1/verifications", {"token": token[:-1]})
    api.call("POST", "/v1/verifications", {"token": token})
    api.call("POST", "/v1/verifications/resend", {"email": ADDRESS})
    api.call("POST", "/v1/signups", {"email": f"{ADDRESS}@"})
    lines = [json.loads(line) for line in logs.getvalue().splitlines()]
    assert lines[0]["event_id"] == signed_up.json["verification"]["event_id"]
    assert lines[0]["user_id"] == lines[1]["user_id"] == signed_up.json["user_id"]
    assert "canary" not in logs.getvalue()
    assert token[:-1] not in logs.getvalue()


@pytest.mark.parametrize(
    "variable",
    [
        "DATABASE_SECRET_ARN",
        "TOKEN_KEYS_SECRET_ARN",
        "PEPPER_SECRET_ARN",
        "PUBLIC_URL",
        "FROM_ADDRESS",
        "ATTACHMENTS_BUCKET",
    ],
)
def test_a_missing_variable_stops_the_function_at_start_by_its_name(
    environment: Callable[..., None], variable: str
) -> None:
    root = EVENTS.parent
    path = os.pathsep.join([str(root), str(root / "layers/postlease/python")])
    inherited = {name: value for name, value in os.environ.items() if name != variable}
    started = subprocess.run(
        [sys.executable, "-c", "import functions.auth.app"],
        env={**inherited, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert started.returncode == 1
    assert started.stderr.splitlines()[-1] == (
        f"postlease.errors.ConfigurationError: {variable} is not set"
    )
