"""The local stack's own endpoints: state, inbox, invoke, kill and faults."""

from __future__ import annotations

import threading
from email import message_from_bytes
from typing import TYPE_CHECKING, Any

import psutil
import psycopg
import pytest

from local.provider import MODES

if TYPE_CHECKING:
    from collections.abc import Callable

    from local.stack import Stack


def test_state_shows_urls_functions_and_schedules(
    stack: Stack, console: Callable[..., Any]
) -> None:
    stack.invoke("web")
    state = console("/api/state").json
    with psycopg.connect(state["database_url"]) as connection:
        assert connection.execute("SELECT count(*) FROM postlease.email_messages").fetchone()
    assert state["endpoint_url"].startswith("http://127.0.0.1:")
    functions = {function["name"]: function for function in state["functions"]}
    assert set(functions) == {"web", "mailer", "migrate"}
    assert psutil.pid_exists(functions["web"]["pid"])
    assert functions["web"]["cold_starts"] >= 1
    assert functions["web"]["last_result"]["rawPath"] == "/healthz"
    assert functions["migrate"]["last_result"] == ["0001.sql"]
    assert state["schedules"] == []


def test_the_page_for_resets_is_ours_and_runs_our_scripts_alone(
    console: Callable[..., Any],
) -> None:
    page = console("/reset")
    assert page.status == 200
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "default-src 'none'" in page.headers["content-security-policy"]
    script = console("/files/reset.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert b".slice(0, 6)" in script.body
    assert console("/files/drawing.py").status == 404
    assert console("/files/..%2Fdrawing.py").status == 404


def test_invoke_sends_the_triggers_own_event(console: Callable[..., Any]) -> None:
    result = console("/api/invoke/mailer", "POST")
    assert result.status == 200
    assert result.json["source"] == "aws.scheduler"
    assert console("/api/invoke/web", "POST").json["requestContext"]["http"]["method"] == "GET"


def test_invoke_sends_the_body_as_the_event(console: Callable[..., Any]) -> None:
    assert console("/api/invoke/web", "POST", {"a": [1]}).json == {"a": [1]}


def test_invoke_says_what_went_wrong(console: Callable[..., Any]) -> None:
    assert console("/api/invoke/nothing", "POST").status == 404
    assert console("/api/invoke/web", "POST", b"{").status == 400
    failed = console("/api/invoke/web", "POST", {"fail": True})
    assert (failed.status, failed.json["errorType"]) == (502, "ValueError")
    wrong = console("/api/invoke/web")
    assert (wrong.status, wrong.headers["allow"]) == (405, "POST")
    assert console("/nothing").status == 404


def test_a_functions_mail_is_in_the_inbox_and_the_inbox_can_be_emptied(
    stack: Stack, console: Callable[..., Any]
) -> None:
    first = stack.invoke("mailer", {"subject": "one"})
    stack.invoke("mailer", {"subject": "two"})
    inbox = console("/api/inbox").json
    assert [mail["subject"] for mail in inbox] == ["one", "two"]
    assert inbox[0]["provider_message_id"] == first["id"]
    assert inbox[0]["to"] == ["ada@example.com"]
    assert first["version"]
    raw = console(f"/api/inbox/{first['id']}/raw")
    assert (raw.status, raw.headers["content-type"]) == (200, "message/rfc822")
    assert message_from_bytes(raw.body)["Subject"] == "one"
    assert console("/api/inbox/nobody/raw").status == 404
    assert console("/api/inbox", "DELETE").status == 204
    assert console("/api/inbox").json == []
    assert console(f"/api/inbox/{first['id']}/raw").status == 404


def test_faults_reach_the_functions_provider(stack: Stack, console: Callable[..., Any]) -> None:
    answer = console("/api/faults", "PUT", {"ses": {"mode": "throttle", "times": 1}})
    assert answer.json == {"ses": {"mode": "throttle", "times": 1, "seconds": 0.0}}
    failed = console("/api/invoke/mailer", "POST")
    assert (failed.status, failed.json["errorType"]) == (502, "TooManyRequestsException")
    assert console("/api/invoke/mailer", "POST").status == 200
    assert len(stack.inbox()) == 1


def test_every_documented_fault_is_known(console: Callable[..., Any]) -> None:
    for mode in MODES:
        body = {"ses": {"mode": mode, "times": None, "seconds": 0.5}}
        assert console("/api/faults", "PUT", body).json == body


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"{", "ses"),
        ([], "ses"),
        ({"ses": "stall"}, "ses"),
        ({"ses": {"mode": "explode"}}, "ses.mode"),
        ({"ses": {}}, "ses.mode"),
        ({"ses": {"mode": "stall", "times": 0}}, "ses.times"),
        ({"ses": {"mode": "stall", "times": True}}, "ses.times"),
        ({"ses": {"mode": "slow", "seconds": -1}}, "ses.seconds"),
        ({"ses": {"mode": "slow", "seconds": "1"}}, "ses.seconds"),
        ({"ses": {"mode": "slow", "second": 1}}, "second"),
        ({"ses": {"mode": "slow"}, "smtp": {}}, "smtp"),
    ],
)
def test_a_malformed_fault_is_a_400_that_names_the_field_and_changes_nothing(
    console: Callable[..., Any], body: Any, named: str
) -> None:
    answer = console("/api/faults", "PUT", body)
    assert (answer.status, named in answer.json["message"]) == (400, True)
    assert console("/api/faults").json["ses"]["mode"] == "accept"


def test_events_are_told_of_the_next_accepted_mails(
    stack: Stack, console: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(stack.provider, "publish", told.append)
    body = {"ses": {"types": ["Send", "PermanentBounce"], "times": 1, "delay": 0.0}}
    assert console("/api/events", "PUT", body).json == body
    first = stack.invoke("mailer", {"subject": "one"})
    stack.invoke("mailer", {"subject": "two"})
    assert [event["detail"]["eventType"] for event in told] == ["Send", "Bounce"]
    assert {event["detail"]["mail"]["messageId"] for event in told} == {first["id"]}
    assert console("/api/events").json["ses"]["times"] == 0


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"{", "ses"),
        ({"ses": {}}, "ses.types"),
        ({"ses": {"types": "Send"}}, "ses.types"),
        ({"ses": {"types": ["Open"]}}, "ses.types"),
        ({"ses": {"types": [{}]}}, "ses.types"),
        ({"ses": {"types": [], "times": 0}}, "ses.times"),
        ({"ses": {"types": [], "delay": "1"}}, "ses.delay"),
        ({"ses": {"types": [], "seconds": 1}}, "seconds"),
    ],
)
def test_malformed_events_are_a_400_that_names_the_field(
    console: Callable[..., Any], body: Any, named: str
) -> None:
    answer = console("/api/events", "PUT", body)
    assert (answer.status, named in answer.json["message"]) == (400, True)


def test_kill_ends_the_worker_that_waits_for_the_provider(
    stack: Stack, console: Callable[..., Any]
) -> None:
    stack.set_faults("stall", times=1)
    results: list[Any] = []
    held = stack.provider.counts.held
    caller = threading.Thread(
        target=lambda: results.append(console("/api/invoke/mailer", "POST")), daemon=True
    )
    caller.start()
    assert stack.provider.wait_for(lambda counts: counts.held == held + 1, seconds=20)
    (pid,) = console("/api/kill/mailer", "POST").json["killed"]
    caller.join(20)
    assert not psutil.pid_exists(pid)
    assert (results[0].status, results[0].json["errorType"]) == (502, "Runtime.ExitError")
    assert stack.provider.wait_for(lambda counts: counts.held == held, seconds=20)
    assert stack.inbox() == []
    assert console("/api/kill/mailer", "POST").json == {"killed": []}
    assert console("/api/kill/nothing", "POST").status == 404


def test_the_inbox_escapes_everything_and_runs_no_script_of_a_mail(
    stack: Stack, console: Callable[..., Any]
) -> None:
    stack.invoke("mailer", {"subject": "<img src=x onerror=alert(1)>"})
    mail_id = stack.inbox()[0]["provider_message_id"]
    for path in ("/inbox", f"/inbox/{mail_id}"):
        page = console(path)
        text = page.body.decode()
        assert page.status == 200
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "'unsafe-inline'" not in page.headers["content-security-policy"]
        assert "&lt;img src=x" in text
        assert "<img" not in text
        assert text.count("<script") == 1
    assert (
        f'sandbox="allow-popups" title="HTML of the mail" src="/_local/inbox/{mail_id}/html"'
        in text
    )
    assert "text &amp; more" in text


def test_the_overview_says_so_where_the_database_has_no_figures(
    console: Callable[..., Any],
) -> None:
    page = console("/")
    assert page.status == 200
    text = page.body.decode()
    assert "The database gave no figures: its schema is not ours, see the log of migrate" in text
    assert "sqlstate 42703" in text
    assert "<dd>?</dd>" in text
    assert "<dd>0</dd>" not in text
    assert console("/messages").status == 503


def test_a_button_s_form_is_taken_from_our_own_pages_alone(
    stack: Stack, console: Callable[..., Any]
) -> None:
    form = b"function=mailer"
    assert console("/actions/tick", "POST", form).status == 403
    assert console("/actions/tick", "POST", form, Origin="https://evil.example").status == 403
    assert console("/actions/tick", "POST", form, Origin="null").status == 403
    assert stack.inbox() == []
    assert console("/actions/tick", Origin=stack.url).status == 405
    page = console("/actions/tick", "POST", form, Origin=stack.url)
    assert page.status == 200
    assert "The mailer has run." in page.body.decode()
    assert len(stack.inbox()) == 1


@pytest.mark.parametrize(
    ("action", "form", "said"),
    [
        ("tick", b"function=nothing", "There is no function of that name."),
        ("kill", b"", "There is no function of that name."),
        ("schedule", b"name=x&to=off", "There is no schedule of that name."),
        ("fault", b"mode=explode", "That fault cannot be: ses.mode must be one of"),
        ("fault", b"mode=slow&seconds=-1", "That fault cannot be: ses.seconds"),
        ("fault", b"mode=slow&times=many", "The form holds what it should not."),
        ("fault", b"mode=%ff", "That fault cannot be"),
        ("fault", b"\xff", "The form holds what it should not."),
    ],
)
def test_a_form_that_asks_for_what_cannot_be_changes_nothing(
    stack: Stack, console: Callable[..., Any], action: str, form: bytes, said: str
) -> None:
    page = console(f"/actions/{action}", "POST", form, Origin=stack.url)
    assert page.status == 400
    assert said in page.body.decode()
    assert stack.provider.fault.mode == "accept"


def test_forms_inject_a_fault_empty_the_inbox_and_kill_nobody_who_is_idle(
    stack: Stack, console: Callable[..., Any]
) -> None:
    stack.invoke("mailer")
    for action, form, said in (
        ("fault", b"mode=slow&times=2&seconds=0.5", "The fault is injected."),
        ("empty", b"", "The inbox is empty."),
        ("kill", b"function=mailer", "0 workers of the mailer killed."),
    ):
        page = console(f"/actions/{action}", "POST", form, Origin=stack.url)
        assert said in page.body.decode()
    fault = stack.provider.fault
    assert (fault.mode, fault.times, fault.seconds) == ("slow", 2, 0.5)
    assert stack.inbox() == []
    assert '<p class="notice"' not in console("/?done=kill:%3Cb%3E:1").body.decode()


def test_a_mails_html_is_shown_in_a_sandbox(stack: Stack, console: Callable[..., Any]) -> None:
    stack.invoke("mailer")
    mail_id = stack.inbox()[0]["provider_message_id"]
    html, text = console(f"/inbox/{mail_id}/html"), console(f"/inbox/{mail_id}/text")
    policy = html.headers["content-security-policy"]
    assert policy.startswith("sandbox")
    assert "allow-scripts" not in policy
    assert "default-src 'none'" in policy
    assert b"<p>html</p>" in html.body
    assert text.headers["content-type"].startswith("text/plain")
    assert text.headers["x-content-type-options"] == "nosniff"
    assert text.body.strip() == b"text & more"
    assert console("/inbox/none/html").status == 404


def test_another_sites_page_gets_nothing(console: Callable[..., Any]) -> None:
    assert console("/api/inbox", Origin="https://evil.example").status == 403
    assert console("/api/inbox", Host="evil.example").status == 403
    assert console("/api/invoke/web", "POST", {}, Origin="null").status == 403
    for malformed in ("[::1", "", "localhost.evil.example"):
        assert console("/api/inbox", Host=malformed).status == 403
    assert console("/api/inbox", Origin="http://[").status == 403
    answer = console("/api/inbox", Host="localhost")
    assert answer.status == 200
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"].startswith("sandbox;")


def test_a_body_too_deep_to_be_read_is_a_400(console: Callable[..., Any]) -> None:
    assert console("/api/faults", "PUT", b"[" * 100_000).status == 400
    assert console("/api/invoke/web", "POST", b"[" * 100_000).status == 400


def test_everything_else_goes_to_the_functions(stack: Stack, console: Callable[..., Any]) -> None:
    del console
    other = stack.invoke("web", {"rawPath": "/_localhost"})
    assert other == {"rawPath": "/_localhost"}
