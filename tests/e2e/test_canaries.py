"""No address, token, code, key or secret in logs, metrics, errors and PostgreSQL's own log.

Every flow runs, in good and bad form, with people whose addresses and names nobody can guess. Then
all that was written is searched, in every spelling. PostgreSQL tells as much as an operator may
have it tell. Of its log only the statements of the test itself are left out.
"""

from __future__ import annotations

import json
import re
import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from local import postgres
from local.ses_events import EVENT_KINDS
from local.stack import Stack
from postlease.model import event_id
from tests import arrange, producers
from tests.aviary import LOUD, OURS, Aviary
from tests.canaries import TOKEN, Canaries
from tests.e2e.conftest import signed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SETTINGS = {
    # Whatever asks for more than is good.
    "AWS_LAMBDA_LOG_LEVEL": "DEBUG",
    "POWERTOOLS_LOGGER_LOG_EVENT": "true",
    "CALL_BUDGET_SECONDS": "2",
    "CONNECT_TIMEOUT_SECONDS": "0.5",
    "READ_TIMEOUT_SECONDS": "1.4",
    "START_MARGIN_SECONDS": "1",
    "CALLER_MARGIN_SECONDS": "2",
    "LEASE_SECONDS": "6",
    "UNKNOWN_GRACE_SECONDS": "8",
    "SWEEP_TIMEOUT_SECONDS": "10",
    "SWEEP_LINGER_SECONDS": "0",
    "VERIFY_CODES": "on",
    "SIGNUP_COOLDOWN_SECONDS": "0",
    "MAILBOX_LIMIT_PER_HOUR": "0",
    "MAILBOX_LIMIT_PER_DAY": "0",
    "CLIENT_LIMIT_PER_MINUTE": "0",
    "CLIENT_LIMIT_PER_HOUR": "1000000",
}
QUIET = {
    "log_statement": "none",
    "log_duration": "off",
    "log_min_duration_statement": "-1",
    "log_parameter_max_length_on_error": "0",
}
"""What a server does by default."""

NOBODY = "019ce1a7-f0d2-7c31-8f0a-2b6d9e5c4a11"
FORM = "application/x-www-form-urlencoded"


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    """A server that logs all it can."""
    with postgres.Server(**LOUD) as running:
        yield running


@pytest.fixture(scope="module")
def product(server: postgres.Server) -> Iterator[Stack]:
    """The whole product on it."""
    with Stack(database_url=server.url, settings=SETTINGS, timeouts={"sweep": 10}) as stack:
        yield stack


@pytest.fixture(scope="module")
def secret_words(product: Stack) -> set[str]:
    """Every key, pepper and password that the stack's secrets hold."""
    store = product.aws.client("secretsmanager")
    found: set[str] = set()
    for listed in store.list_secrets()["SecretList"]:
        text = store.get_secret_value(SecretId=listed["ARN"])["SecretString"]
        parts = json.loads(text) if text.startswith("{") else {"pepper": text}
        found |= {
            value
            for name, value in parts.items()
            if name in {"password", "pepper"} or re.fullmatch(r"k\d+", name)
        }
    assert len(found) >= 4
    return found


@pytest.fixture(scope="module")
def read() -> dict[str, int]:
    """How much of each log has been searched."""
    return {}


@pytest.fixture
def aviary(
    product: Stack, server: postgres.Server, secret_words: set[str], read: dict[str, int]
) -> Iterator[Aviary]:
    """The product under watch."""
    product.provider.inbox.clear()
    product.set_faults("accept")
    product.set_events()
    with psycopg.connect(
        product.database_url, autocommit=True, row_factory=dict_row, application_name=OURS
    ) as owner:
        owner.execute("TRUNCATE postlease.users, postlease.email_messages CASCADE")
        owner.execute("TRUNCATE postlease.rate_limits, postlease.idempotency_keys")
        watched = Aviary(product, server, owner, Canaries(set(secret_words)), read=read)
        yield watched
    watched.check()
    watched.done()


def test_what_flies_out_is_seen(aviary: Aviary) -> None:
    """The same statement by another name than the test's: the search is not blind."""
    assert TOKEN.search(aviary.sign_up()[2])
    assert len(aviary.canaries.codes) == 1
    aviary.check()
    person = aviary.person()
    url = make_conninfo(aviary.stack.database_url, application_name="another")
    with psycopg.connect(url) as another:
        another.execute("SELECT %s::text", [person.address])
    with pytest.raises(pytest.fail.Exception, match=person.mailbox):
        aviary.check()
    aviary.canaries.words -= {person.mailbox, person.domain}


def test_sign_up(aviary: Aviary) -> None:
    key = aviary.canaries.key()
    person, _, _ = aviary.sign_up(idempotency_key=key)
    body = {"email": person.address, "locale": "en"}
    aviary.ask("POST", "/v1/signups", body, status=202, idempotency_key=key)
    other = {"email": aviary.person().address}
    aviary.ask("POST", "/v1/signups", other, status=202, idempotency_key=key)
    aviary.ask("POST", "/v1/signups", {**body, "locale": "de"}, status=422, idempotency_key=key)
    aviary.ask("POST", "/v1/signups", body, status=400, idempotency_key=f"{key} {key}")
    aviary.ask("POST", "/v1/signups", body, status=202)
    aviary.ask("GET", "/v1/signups", status=405)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/signups",
        "/v1/verifications",
        "/v1/verifications/resend",
        "/v1/password-resets",
    ],
)
def test_a_body_that_is_refused(aviary: Aviary, path: str) -> None:
    person = aviary.person()
    address = person.address
    for broken in (f"{address}@{address}", f'"{person.name}" <{address}>', f"{address}\r\nBcc: x"):
        refused = {"code": "000000"} if path == "/v1/verifications" else {}
        aviary.ask("POST", path, {"email": broken, **refused}, status=422)
    for body in (
        f'{{"email": "{address}"'.encode(),
        f'{{"email": "{address}\0"}}'.encode(),
        f'{{"email": "{address}", "email": "{address}"}}'.encode(),
        f'{{"{address}": 1, "{address}": 2}}'.encode(),
        f'"{address}"'.encode(),
        f'{{"email": "{address}'.encode() + b'\xff"}',
        json.dumps({address: person.name}).encode(),
        json.dumps({"email": address, address.upper(): {address: 1e999}}).encode(),
        json.dumps({"email": address, address.replace("@", "%40"): 1}).encode(),
    ):
        aviary.ask("POST", path, body, status=400)
    for member in (7, [address], {address: address}):
        aviary.ask(
            "POST",
            path,
            {"email": member, "code": member},
            status=400 + 22 * (path == "/v1/verifications"),
        )
    typed = {"content_type": f"text/{person.mailbox}"}
    aviary.ask("POST", path, {"email": address}, status=415, **typed)
    aviary.ask("POST", path, {"email": address * 2000}, status=413)
    aviary.ask("POST", f"{path}/{address}?to={address}", {"email": address}, status=404)
    aviary.ask("DELETE", f"{path}?{address}={address}", status=405)


def test_verification(aviary: Aviary) -> None:
    person, _, _ = aviary.sign_up()
    aviary.ask("POST", "/v1/verifications/resend", {"email": person.address}, status=202)
    aviary.sweep()
    first, newest = aviary.tokens(person)
    aviary.ask("POST", "/v1/verifications", {"token": first}, status=410)
    aviary.ask("POST", "/v1/verifications", {"token": newest, "code": "1"}, status=422)
    aviary.ask("POST", "/v1/verifications", {newest: newest}, status=400)
    for _ in range(2):
        aviary.ask("POST", "/v1/verifications", {"token": newest}, status=200)
    aviary.ask("POST", "/v1/verifications/resend", {"email": person.address}, status=202)
    aviary.ask("POST", "/v1/signups", {"email": person.address}, status=202)
    aviary.sweep()
    _, _, late = aviary.sign_up()
    aviary.owner.execute(
        "UPDATE postlease.verification_tokens SET created_at = created_at - interval '3 days',"
        " expires_at = now() - interval '1 second'"
    )
    aviary.ask("POST", "/v1/verifications", {"token": late}, status=410)
    for foreign in (late[::-1], late[:-1], late + late, aviary.person().address):
        aviary.canaries.words.add(foreign)
        aviary.ask("POST", "/v1/verifications", {"token": foreign}, status=400)


def test_codes(aviary: Aviary) -> None:
    person, _, _ = aviary.sign_up()
    [code] = aviary.canaries.codes
    wrong = f"{(int(code) + 1) % 1_000_000:06}"
    aviary.canaries.codes.add(wrong)
    for email in (person.address, aviary.person().address):
        aviary.ask("POST", "/v1/verifications", {"email": email, "code": wrong}, status=400)
    body = {"email": person.address, "code": code}
    for status in (200, 200):
        aviary.ask("POST", "/v1/verifications", body, status=status)


def test_password_resets(aviary: Aviary) -> None:
    person, _, token = aviary.sign_up()
    aviary.ask("POST", "/v1/verifications", {"token": token}, status=200)
    for address in (person.address, aviary.person().address, person.address):
        aviary.ask("POST", "/v1/password-resets", {"email": address}, status=202)
        aviary.sweep()
    _, superseded, token = aviary.tokens(person)
    redeem, key = "/v1/password-resets/redeem", aviary.canaries.key()
    aviary.ask("POST", redeem, {"token": token}, status=403)
    aviary.signed("POST", redeem, {"token": superseded}, status=410)
    for _ in range(2):
        aviary.signed("POST", redeem, {"token": token}, status=200, idempotency_key=key)
    aviary.signed("POST", redeem, {"token": superseded}, status=422, idempotency_key=key)
    aviary.signed("POST", redeem, {"token": token}, status=410)
    aviary.canaries.words.add(token[::-1])
    aviary.signed("POST", redeem, {"token": token[::-1]}, status=400)
    aviary.signed("POST", redeem, {token: person.address}, status=400)
    aviary.signed("POST", f"{redeem}?token={token}", {"token": 7}, status=422)


def test_users(aviary: Aviary) -> None:
    person, user_id, token = aviary.sign_up()
    other, new = aviary.sign_up()[0], aviary.person()
    path = f"/v1/users/{user_id}"
    aviary.signed("PATCH", path, {"email": new.address}, status=200)
    aviary.sweep()
    aviary.ask("POST", "/v1/verifications", {"token": token}, status=410)
    aviary.ask("POST", "/v1/verifications", {"token": aviary.tokens(new)[-1]}, status=200)
    aviary.signed("PATCH", path, {"email": other.address}, status=409)
    aviary.signed("PATCH", path, {"email": f"{new.address}@"}, status=422)
    aviary.signed("PATCH", path, {new.address: new.address}, status=400)
    aviary.signed("PATCH", f"/v1/users/{NOBODY}", {"email": person.address}, status=404)
    for tail in ("", "/revoke-tokens"):
        method = "POST" if tail else "DELETE"
        aviary.signed(method, f"/v1/users/{person.address}{tail}", status=400)
        aviary.signed(method, f"/v1/users/{NOBODY}{tail}", status=404)
        aviary.ask(method, f"{path}{tail}?{person.address}", status=403)
    aviary.signed("POST", f"{path}/revoke-tokens", status=200)
    aviary.signed("DELETE", path, status=204)


def test_events_and_pages(aviary: Aviary) -> None:
    person, _, token = aviary.sign_up()
    answer = aviary.ask("POST", "/v1/signups", {"email": person.address}, status=202)
    event = answer.json["verification"]["event_id"]
    aviary.ask("GET", f"/v1/events/{event}?token={token}", status=200)
    for unknown in (person.address, token):
        aviary.ask("GET", f"/v1/events/{unknown}", status=400)
    for page in ("/verify", "/reset"):
        for method in ("GET", "HEAD"):
            target = f"{page}?token={token}&redirect={person.address}"
            aviary.ask(method, target, status=200, accept_language=person.mailbox)
        aviary.ask("GET", f"{page}/{token}", status=404)
        aviary.ask("PUT", f"{page}?{token}", status=405)
    for form, status in (
        (f"link={token[::-1]}", 400),
        (f"link={person.address}", 400),
        (f"{person.address}={token}", 400),
        (f"{token}={token}", 400),
        (f"email={person.address}%40&code=1", 422),
        (f"email={person.address}&code=1", 400),
        (f"email={aviary.person().address}&code=000000", 400),
        (f"link={token}&{token}=x&email={person.address}", 400),
        (f"link={aviary.tokens(person)[-1]}", 410),
    ):
        aviary.ask("POST", f"/verify?{token}", form.encode(), status=status, content_type=FORM)
    aviary.canaries.words.add(token[::-1])
    aviary.sweep()
    link = f"link=http%3A//x/verify%23token={aviary.tokens(person)[-1]}".encode()
    for _ in range(2):
        aviary.ask("POST", "/verify", link, status=200, content_type=FORM)


def test_a_client_that_asks_too_often(aviary: Aviary) -> None:
    person, _, _ = aviary.sign_up()
    aviary.owner.execute("UPDATE postlease.rate_limits SET used = 1000000")
    aviary.ask("POST", "/v1/signups", {"email": person.address}, status=429)
    form = f"link={person.address}".encode()
    aviary.ask("POST", "/verify", form, status=429, content_type=FORM)


def test_the_messages_api(aviary: Aviary) -> None:
    sent, refused, unknown = (aviary.enqueue() for _ in range(3))
    aviary.sweep("reject")
    assert {arrange.row(aviary.owner, m)["status"] for m in (sent, refused, unknown)} == {"failed"}
    path = f"/v1/messages/{refused}"
    aviary.signed("POST", f"{path}/retry", status=200)
    aviary.signed("POST", f"{path}/retry", status=409)
    aviary.sweep("lose_response", times=1)
    arrange.end_lease(aviary.owner, refused)
    for search in ("", "?status=failed&limit=10", "?unknown=true", "?reason=rejected"):
        aviary.signed("GET", f"/v1/messages{search}", status=200)
    aviary.signed("GET", path, status=200)
    aviary.signed("POST", f"{path}/resolve", {"as": "sent"}, status=200)
    aviary.signed("POST", f"{path}/resolve", {"as": "sent"}, status=409)
    person = aviary.person()
    address = person.address.replace("@", "%40")
    for name in ("status", "template", "cursor", "created_after", "limit"):
        aviary.signed("GET", f"/v1/messages?{name}={address}", status=422)
    aviary.signed("GET", f"/v1/messages?{address}=1", status=400)
    for method, tail in (("GET", ""), ("POST", "/retry"), ("POST", "/resolve")):
        body = {"as": person.address} if tail == "/resolve" else None
        status = 422 if tail == "/resolve" else 400
        aviary.signed(method, f"/v1/messages/{person.address}{tail}", body, status=status)
        aviary.ask(method, f"/v1/messages/{person.address}{tail}", body, status=403)


def test_mail_asked_for(aviary: Aviary) -> None:
    person, other = aviary.person(), aviary.person()
    message = {
        "template": "receipt",
        "to": [{"email": person.address, "name": person.name}],
        "bcc": [other.address],
        "reply_to": {"email": other.address, "name": other.name},
        "parameters": {"order_number": person.name, "total": person.address},
        "idempotency_key": "receipt-canary",
    }
    answer = aviary.signed("POST", "/v1/messages", message, status=202, idempotency_key="k")
    aviary.signed("POST", "/v1/messages", message, status=202)
    changed = message | {"cc": [aviary.person().address]}
    aviary.signed("POST", "/v1/messages", changed, status=422)
    for wrong in (
        {"to": [person.address, person.address.upper()]},
        {"to": [f"{person.name} <{person.address}>"]},
        {"from": person.address},
        {"template": "no_such"},
        {"parameters": {person.address: person.name}},
        {"parameters": {"order_number": f"https://{person.domain}.example", "total": "1"}},
        {"tags": {person.address: person.name}},
        {"attachments": [{"storage_ref": person.address, "filename": person.name}]},
        {person.address: person.name},
    ):
        asked = message | {"idempotency_key": None} | wrong
        status = 400 if person.address in wrong else 422
        aviary.signed("POST", "/v1/messages", asked, status=status)
        aviary.signed("POST", "/v1/messages/batch", {"messages": [asked]}, status=status)
    # What only the database can refuse: numbers that it writes with three hundred digits each.
    long = message["parameters"] | {"more": [1e300] * 300}
    asked = message | {"idempotency_key": None, "parameters": long}
    aviary.signed("POST", "/v1/messages", asked, status=422)
    path = f"/v1/messages/{answer.json['event_id']}"
    aviary.signed("GET", path, status=200)
    # Its answer is the one that holds whole addresses.
    told = signed(aviary.stack, "GET", f"{path}/recipients")
    assert person.address in told.body.decode()
    listed = {"email": person.address}
    aviary.signed("PUT", "/v1/suppressions", listed, status=200)
    aviary.signed("POST", "/v1/suppressions/lookup", listed, status=200)
    aviary.signed("GET", "/v1/suppressions", status=200)
    aviary.signed("PUT", "/v1/suppressions", listed | {"expires_at": person.name}, status=422)
    aviary.signed("PUT", "/v1/suppressions", {"email": person.name}, status=422)
    aviary.signed("POST", f"{path}/cancel", status=200)
    aviary.signed("POST", f"{path}/cancel", status=409)
    file = {"filename": f"{person.name}.exe", "size": 1, "sha256": "0" * 64}
    aviary.signed("POST", "/v1/attachments", file, status=422)


def test_what_an_operator_does(aviary: Aviary) -> None:
    """Many at once, numbers, gates, and back off the list."""
    people = [aviary.person() for _ in range(3)]
    receipts = [
        {
            "template": "receipt",
            "to": [{"email": person.address, "name": person.name}],
            "parameters": {"order_number": person.name, "total": person.address},
            "idempotency_key": aviary.canaries.key(),
        }
        for person in people
    ]
    batch = {"messages": receipts}
    aviary.signed("POST", "/v1/messages/batch", batch, status=202, idempotency_key="batch")
    aviary.sweep("reject")
    retry: dict[str, Any] = {"reason": "rejected"}
    for confirm in (False, True):
        aviary.signed("POST", "/v1/messages/retry", retry | {"confirm": confirm}, status=200)
    aviary.signed("POST", "/v1/messages/retry", {"reason": people[0].address}, status=422)
    aviary.signed("POST", "/v1/messages/retry", {people[0].address: True}, status=400)
    aviary.signed("GET", "/v1/stats", status=200)
    for ruling in ({"state": "paused", "reason": "a test"}, {"state": "open", "reason": "over"}):
        aviary.signed("PUT", "/v1/gates/ses", ruling, status=200)
        aviary.signed("GET", "/v1/gates", status=200)
        aviary.signed("GET", "/v1/gates/ses", status=200)
    wrong = {"state": people[0].name, "reason": people[0].address}
    aviary.signed("PUT", "/v1/gates/ses", wrong, status=422)
    listed = {"email": people[0].address}
    found = aviary.signed("PUT", "/v1/suppressions", listed, status=200)
    aviary.sweep()
    aviary.signed("DELETE", f"/v1/suppressions/{found.json['id']}", status=204)
    file = {"filename": "a.txt", "content_type": "text/plain", "size": 5, "sha256": "0" * 64}
    aviary.signed("POST", "/v1/attachments", file, status=201)


METHODS = {"get", "post", "put", "patch", "delete"}


def test_every_route_asked_with_somebody_in_every_place(aviary: Aviary) -> None:
    """Whatever route there will be: in its path, query, headers, members and values."""
    described = aviary.ask("GET", "/openapi.json", status=200).json["paths"]
    routes = [(m, path, one[m]) for path, one in described.items() for m in METHODS & one.keys()]
    assert len(routes) >= 33
    for method, path, operation in routes:
        person, key = aviary.person(), aviary.canaries.key()
        members = {
            name: person.address
            for kind in operation.get("requestBody", {}).get("content", {}).values()
            for form in (kind["schema"], *kind["schema"].get("oneOf", ()))
            for name in form.get("properties", {})
        }
        place = person.address.replace("@", "%40")
        bodies: list[Any] = [None]
        if method not in {"get", "delete"}:
            bodies = [members, {person.address: {person.address: [person.name]}}]
        for body in bodies:
            aviary.try_out(
                method.upper(),
                f"{re.sub(r'{[^}]+}', place, path)}?{place}={place}",
                body,
                is_signed="security" in operation,
                idempotency_key=key,
                user_agent=person.mailbox,
                accept_language=person.name,
            )


def test_what_a_provider_answers(aviary: Aviary) -> None:
    """RET-05: it quotes addresses in its refusals; it may also say nothing."""
    for fault in ("accept", "reject", "throttle", "pause", "unavailable", "stall", "lose_response"):
        aviary.enqueue(to=[aviary.person().address for _ in range(3)])
        aviary.sweep(fault)
        aviary.owner.execute("UPDATE postlease.email_messages SET available_at = now()")
    arrange_late = "UPDATE postlease.email_messages SET claimed_at = claimed_at - interval '1 h'"
    aviary.owner.execute(
        f"{arrange_late}, dispatched_at = dispatched_at - interval '1 h',"
        " lease_expires_at = lease_expires_at - interval '1 h' WHERE status = 'sending'"
    )
    aviary.run("reaper")
    refused = aviary.owner.execute(
        "SELECT count(*) AS n FROM postlease.email_messages WHERE failure_reason = 'rejected'"
    ).fetchone()
    assert refused == {"n": 1}


def test_a_mail_that_cannot_be_rendered(aviary: Aviary) -> None:
    person = aviary.person()
    wrong: list[dict[str, Any]] = [
        {"order_number": person.name, person.address: person.address},
        {"order_number": {person.address: person.name}, "total": [person.address]},
        {"order_number": f"{person.name}\r\nBcc: {person.address}", "total": person.address},
        {"order_number": f"{{{{ {person.name} }}}}\x7f", "total": person.address},
    ]
    ids = [aviary.enqueue(parameters=parameters) for parameters in wrong]
    ids.append(aviary.enqueue(template=person.name))
    ids.append(aviary.enqueue(locale=person.name))
    aviary.canaries.words.discard(person.name)  # as a template's name it may be told
    aviary.sweep()
    reasons = [arrange.row(aviary.owner, message_id)["failure_reason"] for message_id in ids]
    assert reasons.count("render_error") >= 2


def test_bounces_complaints_and_what_is_no_event(aviary: Aviary) -> None:
    for kind in EVENT_KINDS:
        aviary.stack.set_events(kind)
        aviary.enqueue()
        aviary.sweep()
    for _ in EVENT_KINDS:
        aviary.run("feedback")
    count = aviary.owner.execute("SELECT count(*) AS n FROM postlease.suppressions").fetchone()
    assert count
    assert count["n"] >= 2
    person = aviary.person()
    bodies = [
        person.address,
        f'{{"detail": {{"mail": "{person.address}"',
        json.dumps({"source": "aws.ses", "detail-type": person.address, "detail": person.address}),
        json.dumps({"detail": {"eventType": person.name, "mail": {"tags": {person.address: []}}}}),
    ]
    records = [{"messageId": secrets.token_hex(4), "body": body} for body in bodies]
    for function in ("feedback", "doorbell"):
        assert aviary.run(function, {"Records": records}).error is None


def test_a_producer_that_binds_its_arguments(aviary: Aviary) -> None:
    """What the function refuses, an ordinary log does not repeat."""
    _produce(aviary, QUIET)


DISCREET = {"log_error_verbosity": "terse", "log_min_error_statement": "panic"}
"""What docs/deploy.md wants of a producer's role."""


def test_a_producer_that_writes_its_arguments_into_its_statements(aviary: Aviary) -> None:
    _produce(aviary, QUIET | DISCREET, literal=True)


@pytest.mark.parametrize("name", DISCREET)
def test_without_its_setting_a_producer_is_told(aviary: Aviary, name: str) -> None:
    kept = {other: value for other, value in DISCREET.items() if other != name}
    _produce(aviary, QUIET | kept, literal=True)
    with pytest.raises(pytest.fail.Exception, match="user=shop_"):
        aviary.check()
    aviary.forget()


def test_without_its_setting_the_application_is_told(aviary: Aviary) -> None:
    role = sql.SQL("ALTER ROLE postlease_application IN DATABASE {} {}")
    name = sql.Identifier(str(conninfo_to_dict(aviary.stack.database_url)["dbname"]))
    changes = ("RESET log_error_verbosity", "SET log_error_verbosity = terse")
    for change in map(sql.SQL, changes):
        aviary.owner.execute(role.format(name, change))
        aviary.owner.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE usename = 'postlease_application' AND datname = current_database()"
        )
        if change.as_string() == changes[0]:
            aviary.sign_up()
            with pytest.raises(pytest.fail.Exception, match="user=postlease_application"):
                aviary.check()
            aviary.forget()
    aviary.sign_up()


def _produce(aviary: Aviary, settings: Mapping[str, str], *, literal: bool = False) -> None:
    """Ask for one mail that is sent, and for a dozen that are refused, as a role so set."""
    person = aviary.person()
    url = make_conninfo(aviary.stack.database_url, application_name=OURS)
    key, many = aviary.canaries.key(), [aviary.person().address for _ in range(51)]
    good = json.dumps({"order_number": person.name, "total": "1"})
    calls: list[tuple[Any, ...]] = [
        ("receipt", [person.address], good, key),
        ("receipt", [person.address], good.replace("1", "2"), key),
        ("receipt", [person.address, person.address.upper()], good, None),
        ("receipt", [f"{person.name} <{person.address}>"], good, None),
        ("receipt", [f"{person.address}\r\nBcc: x"], good, None),
        ("receipt", [], good, None),
        ("receipt", many, good, None),
        ("receipt", [person.address], json.dumps([person.address]), None),
        (person.address, [person.address], good, None),
        ("verify_email", [person.address], good, None),
        ("receipt", [person.address, None], good, None),
        ("receipt", None, good, None),
        ("receipt", [person.address], good, key * 20),
    ]
    if literal:
        # Refused before the function is called, with the text as PostgreSQL's detail.
        calls.append(("receipt", [person.address], person.address, None))
    with producers.login(url) as login:
        role = sql.Identifier(str(conninfo_to_dict(login)["user"]))
        for name, value in settings.items():
            change = sql.SQL("ALTER ROLE {} SET {} = {}")
            aviary.owner.execute(change.format(role, sql.Identifier(name), sql.Literal(value)))
        factory = psycopg.ClientCursor if literal else psycopg.Cursor
        named = make_conninfo(login, application_name="shop")
        with psycopg.connect(named, autocommit=True, cursor_factory=factory) as shop:
            refused = []
            for call in calls:
                try:
                    shop.execute(
                        "SELECT postlease.enqueue_email(%s::text, %s::text[], %s::jsonb,"
                        " idempotency_key => %s::text)",
                        call,
                    )
                except psycopg.Error as error:
                    refused.append(f"{error.diag.message_primary} {error.diag.constraint_name}")
    assert len(refused) == len(calls) - 1
    aviary.results += refused
    aviary.sweep()


@pytest.mark.parametrize(
    ("table", "moment", "function"),
    [
        ("users", "INSERT", None),
        ("verification_tokens", "INSERT", None),
        ("email_messages", "INSERT", None),
        ("email_messages", "UPDATE", "sweep"),
        ("email_messages", "UPDATE", "reaper"),
        ("email_messages", "DELETE", "retention"),
        ("suppressions", "INSERT", "feedback"),
    ],
)
def test_a_database_that_refuses(
    aviary: Aviary, table: str, moment: str, function: str | None
) -> None:
    """By a trigger that repeats the row, by a missing grant, by a constraint."""
    name = sql.Identifier("postlease", table)
    act = sql.SQL(moment)
    aviary.owner.execute(
        "CREATE OR REPLACE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " RAISE EXCEPTION 'refused' USING ERRCODE = 'check_violation', DETAIL = coalesce("
        " to_jsonb(NEW), to_jsonb(OLD))::text, HINT = coalesce(to_jsonb(NEW),to_jsonb(OLD))::text;"
        " END $$"
    )
    refusals = [
        (
            (
                "CREATE TRIGGER refuse BEFORE {act} ON {name}"
                " FOR EACH ROW EXECUTE FUNCTION public.refuse()"
            ),
            "DROP TRIGGER refuse ON {name}",
        ),
        (
            "REVOKE {act} ON {name} FROM postlease_application",
            "GRANT {act} ON {name} TO postlease_application",
        ),
    ]
    if moment != "DELETE":
        refusals.append(
            (
                "ALTER TABLE {name} ADD CONSTRAINT refuse CHECK (false) NOT VALID",
                "ALTER TABLE {name} DROP CONSTRAINT refuse",
            )
        )
    if (table, moment) == ("email_messages", "INSERT"):
        del refusals[1]  # what may insert there is a function of the owner's
    for forbid, allow in refusals:
        provoke = _prepared(aviary, function)
        aviary.owner.execute(sql.SQL(forbid).format(act=act, name=name))
        begun = aviary.server.log.stat().st_size
        try:
            provoke()
        finally:
            aviary.owner.execute(sql.SQL(allow).format(act=act, name=name))
        told = aviary.server.log.read_bytes()[begun:].decode()
        assert "user=postlease_application app=: ERROR:" in told.replace("[unknown]", "")


def test_a_trigger_that_tells_the_row_itself(aviary: Aviary) -> None:
    """Its first line stands in PostgreSQL's log, as whoever made the trigger wants; in no other."""
    aviary.owner.execute(
        "CREATE OR REPLACE FUNCTION public.tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " RAISE EXCEPTION '%', to_jsonb(NEW); END $$"
    )
    for table, function in (("users", None), ("email_messages", "sweep")):
        provoke = _prepared(aviary, function)
        name = sql.Identifier("postlease", table)
        aviary.owner.execute(
            sql.SQL(
                "CREATE TRIGGER tell BEFORE INSERT OR UPDATE ON {}"
                " FOR EACH ROW EXECUTE FUNCTION public.tell()"
            ).format(name)
        )
        try:
            provoke()
        finally:
            aviary.owner.execute(sql.SQL("DROP TRIGGER tell ON {}").format(name))
    aviary.check_product()
    aviary.forget()


def _prepared(aviary: Aviary, function: str | None) -> Any:
    """What makes the application run into the refusal."""
    if function is None:
        person = aviary.person()
        body = {"email": person.address}
        key = aviary.canaries.key()
        return lambda: aviary.ask("POST", "/v1/signups", body, status=500, idempotency_key=key)
    message_id = aviary.enqueue()
    if function == "feedback":
        aviary.stack.set_events("PermanentBounce", times=1)
        aviary.sweep()
    if function == "reaper":
        arrange.dispatch(aviary.owner)
        aviary.owner.execute(
            "UPDATE postlease.email_messages SET claimed_at = claimed_at - interval '1 h',"
            " dispatched_at = dispatched_at - interval '1 h',"
            " lease_expires_at = lease_expires_at - interval '1 h' WHERE id = %s",
            [message_id],
        )
    if function == "retention":
        aviary.sweep()
        _age(aviary)
    return lambda: aviary.run(function)


def _age(aviary: Aviary) -> None:
    aviary.owner.execute(
        "UPDATE postlease.email_messages SET created_at = created_at - interval '1 y',"
        " finished_at = finished_at - interval '1 y'"
    )


def test_retention(aviary: Aviary) -> None:
    aviary.enqueue()
    aviary.sweep()
    _age(aviary)
    assert aviary.run("retention").value["messages"] == 1


def test_a_person_who_wants_to_be_erased(aviary: Aviary) -> None:
    """Their address is the event: finished mail, mail that waits, an address that nobody knows."""
    person, _, _ = aviary.sign_up()
    aviary.ask("POST", "/v1/verifications/resend", {"email": person.address}, status=202)
    assert aviary.run("retention", {"dry_run": True}).error is None
    assert aviary.run("retention", {"erase": person.address}).value["redacted"] >= 1
    assert aviary.run("retention", {"erase": aviary.person().address}).error is None
    for wrong in (person.name, {person.address: person.name}, f"{person.address}@"):
        assert aviary.run("retention", {"erase": wrong}).error
    assert aviary.run("retention", {"erase": person.address, person.name: person.address}).error


def test_a_doorbell_that_is_rung(aviary: Aviary) -> None:
    rings = [{"messageId": str(n), "body": event_id(aviary.enqueue())} for n in range(2)]
    assert aviary.run("doorbell", {"Records": rings}).error is None
    aviary.stack.set_faults("reject")
    rings[0]["body"] = event_id(aviary.enqueue())
    assert aviary.run("doorbell", {"Records": rings}).error is None


def test_migrate(aviary: Aviary) -> None:
    aviary.sign_up()
    assert aviary.run("migrate", {}).error is None
    drift = "UPDATE postlease.schema_migrations SET sha256 = sha256(%s) WHERE name LIKE %s"
    kept = aviary.owner.execute("SELECT name, sha256 FROM postlease.schema_migrations").fetchall()
    aviary.owner.execute(drift, [aviary.person().address.encode(), "migrations/0001%"])
    assert aviary.run("migrate", {}).error
    for row in kept:
        aviary.owner.execute(
            "UPDATE postlease.schema_migrations SET sha256 = %(sha256)s WHERE name = %(name)s", row
        )


def test_a_database_that_goes_away(product: Stack, server: postgres.Server, aviary: Aviary) -> None:
    """While calls are under way, and while nobody asks it."""
    aviary.sign_up()
    for _ in range(5):
        aviary.enqueue()
    product.set_faults("slow", seconds=0.5)
    held = product.provider.counts.held
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(aviary.run, "sweep")
        assert product.provider.wait_for(lambda counts: counts.held > held, seconds=10)
        server.restart()
        running.result()
    aviary.owner = psycopg.connect(  # the fixture's is cut
        product.database_url, autocommit=True, row_factory=dict_row, application_name=OURS
    )
    with aviary.owner:
        aviary.sign_up()
        server.restart(crash=True)
        person = aviary.person()
        aviary.ask("POST", "/v1/signups", {"email": person.address}, status=202)
