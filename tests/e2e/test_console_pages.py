"""The console's pages about messages, templates and mails, on a running product."""

from __future__ import annotations

import html
import json
import re
from email.message import EmailMessage
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from local.console import charts, figures
from ops import printing, timeline
from postlease.model import event_id
from postlease.rendering import SHIPPED, Templates
from tests import arrange
from tests.e2e.conftest import Answer, ask, signed

if TYPE_CHECKING:
    from collections.abc import Callable

    from local.stack import Stack
    from postlease.database import Connection

    Look = Callable[..., Answer]

MOST_BYTES = 100_000
UNKNOWN = "evt_01M8MAWE46EPBBT1MHDSY4Q8D4"


@pytest.fixture
def look(swept_by_hand: Stack, emptied: Connection) -> Look:
    """A page of the console, by its path under /_local."""
    del emptied

    def get(path: str, status: int = 200) -> Answer:
        page = ask(f"{swept_by_hand.url}/_local{path}")
        assert page.status == status, page.body
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        return page

    return get


def text_of(page: Answer) -> str:
    """What stands on a page, without its marks, with single blanks."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page.body.decode())).split())


def listed(page: Answer) -> list[str]:
    """The event ids of a list of messages."""
    return re.findall(
        r'<th scope="row" class="id"><a href="/_local/messages/(\w+)"', str(page.body)
    )


def test_a_message_s_page_tells_all_that_ops_show_tells(
    swept_by_hand: Stack, emptied: Connection, look: Look
) -> None:
    [message_id] = arrange.enqueue(emptied, delivery="at_least_once", tags={"order": "7"})
    swept_by_hand.set_faults("throttle", times=1)
    swept_by_hand.invoke("sweep")
    emptied.execute("UPDATE postlease.email_messages SET available_at = now()")
    arrange.pass_time(emptied, arrange.GRACE)
    swept_by_hand.invoke("sweep")
    message = signed(swept_by_hand, "GET", f"/v1/messages/{message_id}").json
    page = look(f"/messages/{event_id(message_id)}")
    text = text_of(page)
    assert len(message["attempts"]) == 2
    told = [
        *(f"{name} {said}" for name, said in timeline.about(message)),
        *(f"{printing.moment(at)} {said}" for at, said in timeline.history(message)),
        timeline.now(message),
    ]
    for one in told:
        assert " ".join(one.split()) in text
    for attempt in message["attempts"]:
        cells = [
            str(attempt["attempt"]),
            attempt["outcome"],
            attempt["code"] or "-",
            attempt["owner"],
            printing.moment(attempt["claimed_at"]),
            printing.moment(attempt["lease_expires_at"]),
            printing.moment(attempt["dispatched_at"]),
            printing.moment(attempt["ended_at"]),
            attempt["provider"],
            attempt["provider_message_id"] or "-",
            "yes" if attempt["refunded"] else "no",
        ]
        assert " ".join(cells) in text
    assert f"/_local/inbox/{message['provider_message_id']}" in page.body.decode()
    assert "reader0@" not in text


def test_an_attempt_under_way_and_the_gate_that_is_waited_for_are_on_the_page(
    swept_by_hand: Stack, emptied: Connection, look: Look
) -> None:
    [message_id] = arrange.enqueue(emptied)
    [claimed] = arrange.claim(emptied)
    shown = text_of(look(f"/messages/{message_id}"))
    assert f"1 under way - {claimed.claim.owner}" in shown
    [waiting] = arrange.enqueue(emptied)
    swept_by_hand.set_faults("pause", times=1)
    swept_by_hand.invoke("sweep")
    shown = text_of(look(f"/messages/{waiting}"))
    assert "Now: waits; due at" in shown
    assert "The gate of ses is closed (" in shown


def test_a_list_goes_by_state_reason_and_template_and_has_no_whole_address(
    swept_by_hand: Stack, emptied: Connection, look: Look
) -> None:
    refused, sent = (event_id(one) for one in arrange.enqueue(emptied, 2))
    swept_by_hand.set_faults("reject", times=1)
    swept_by_hand.invoke("sweep")
    message_id, _ = arrange.auth_message(emptied)
    verify = event_id(message_id)
    if "failed" not in text_of(look(f"/messages/{refused}")):
        refused, sent = sent, refused  # they leave at once, in any order
    for query, ids in (
        ("", {refused, sent, verify}),
        ("status=failed", {refused}),
        ("status=failed&reason=rejected", {refused}),
        ("reason=expired", set()),
        ("template=verify_email", {verify}),
        ("status=&reason=&template=", {refused, sent, verify}),
        ("unknown=true", set()),
    ):
        page = look(f"/messages?{query}")
        assert set(listed(page)) == ids, query
        assert "reader@" not in text_of(page)
        assert "r***@example.com" in text_of(page) or not ids
    assert "No message is like that." in text_of(look("/messages?unknown=true"))
    selected = look("/messages?status=failed").body.decode()
    assert "<option selected>failed</option>" in selected


def test_pages_of_a_list_follow_each_other_without_a_gap(emptied: Connection, look: Look) -> None:
    ids = [event_id(one) for one in arrange.enqueue(emptied, 120)]
    found, path = [], "/messages?template=receipt"
    while path:
        page = look(path)
        found += listed(page)
        older = re.search(r'<a href="/_local([^"]+)">Older</a>', page.body.decode())
        path = html.unescape(older[1]) if older else ""
    assert found == sorted(ids, reverse=True)
    assert "Newest" in text_of(page)


def test_an_event_id_leads_to_its_message_and_a_bad_one_to_words(
    emptied: Connection, look: Look
) -> None:
    [message_id] = arrange.enqueue(emptied)
    found = text_of(look(f"/messages?event_id=+{event_id(message_id)}+"))
    assert f"Message {event_id(message_id)}" in found
    assert "That is no event id" in text_of(look("/messages?event_id=%3Cb%3E", 404))
    assert "There is no message of that id" in text_of(look(f"/messages/{UNKNOWN}", 404))
    assert "There is no mail of that id" in text_of(look("/inbox/nobody", 404))
    assert "There is no mail of that id" in text_of(look("/inbox?behind=nobody", 404))
    assert "There is no such template" in text_of(look("/templates/receipt/xx", 404))
    assert "There is no such template" in text_of(look("/templates/..%2F../en", 404))
    assert "no such sample" in text_of(look("/templates/receipt/en/x.json/html", 404))
    assert "There is nothing at this address" in text_of(look("/nothing", 404))
    assert "No such list: status: must be one of" in text_of(look("/messages?status=x", 400))
    assert "No such list: cursor" in text_of(look("/messages?cursor=x", 400))


def test_every_template_is_shown_in_every_language_from_every_sample(look: Look) -> None:
    templates = Templates(SHIPPED)
    overview = look("/templates").body.decode()
    for name in templates.names():
        for locale in templates.locales(name):
            assert f'href="/_local/templates/{name}/{locale}"' in overview
            page = look(f"/templates/{name}/{locale}")
            for sample, parameters in templates.samples(name).items():
                mail = templates.render(name, locale, parameters)
                assert " ".join(mail.subject.split()) in text_of(page)
                assert " ".join(mail.text.split()) in text_of(page)
                source = f"/templates/{name}/{locale}/{sample}/html"
                assert f'src="/_local{source}"' in page.body.decode()
    alone = look(source)
    assert alone.body.decode() == mail.html
    assert alone.headers["content-security-policy"].startswith("sandbox")


def mail(*, is_large: bool) -> bytes:
    """A mail that is hard on a list, or on its own page: all is long, each character an entity."""
    message = EmailMessage()
    message["Subject"] = "&<>" * 60
    message["X-Postlease-Id"] = UNKNOWN
    message.set_content('"\n' * 40_000 if is_large else "short")
    for place in range(100 if is_large else 0):
        message[f"X-Long-{place}"] = "&" * 300
    for place in range(20 if is_large else 0):
        message.add_attachment(b"x", "text", "plain", filename=f"{place}{'&' * 240}.txt")
    return message.as_bytes()


def test_every_page_is_small_with_ten_thousand_messages_and_a_thousand_mails(
    swept_by_hand: Stack, emptied: Connection, look: Look
) -> None:
    [model] = arrange.enqueue(emptied)
    arrange.dispatch(emptied)
    entry = {
        "attempt": 1,
        "owner": "f" * 65,
        **dict.fromkeys(
            ("claimed_at", "lease_expires_at", "dispatched_at", "ended_at"),
            "2026-03-12T09:30:00.123456+00:00",
        ),
        "outcome": "unreachable",
        "code": "&" * 60,
        "provider": "resend",
        "provider_message_id": "i" * 100,
        "refunded": False,
    }
    reasons = ["rejected", "render_error", "attempts_exhausted", "worker_lost", "expired"]
    emptied.execute(
        "INSERT INTO postlease.email_messages (template, to_addresses, producer, status,"
        " failure_reason, finished_at, provider, provider_message_id, sent_at, attempts,"
        " attempt_count)"
        " SELECT 'receipt', ARRAY(SELECT 'r' || n || '@' || repeat('a23456789.', 20) || 'example'"
        "     FROM generate_series(1, CASE WHEN i > 9800 THEN 50 ELSE 1 END) AS a (n)),"
        "     'postgres',"
        "     CASE WHEN i %% 2 = 0 THEN 'sent' ELSE 'failed' END,"
        "     CASE WHEN i %% 2 = 1 THEN (%(reasons)s::text[])[1 + i %% 5] END,"
        "     now() - make_interval(secs => i %% 3599), 'ses', 'id-' || i,"
        "     CASE WHEN i %% 2 = 0 THEN now() - make_interval(secs => i %% 3599) END,"
        "     CASE WHEN i > 9800 THEN %(attempts)s::jsonb ELSE '[]' END, 20"
        " FROM generate_series(1, 10000) AS g (i)",
        {"reasons": reasons, "attempts": json.dumps([entry] * 20)},
    )
    mails = {is_large: mail(is_large=is_large) for is_large in (True, False)}
    for number in range(1_000):
        swept_by_hand.provider.inbox.add(
            provider_message_id=f"mail-{number}",
            content=mails[number == 0],
            recipients={"to": [f"{'&' * 60}{place}@example.com" for place in range(50)]},
        )
    pages = ["/", "/messages", "/messages?status=failed", "/templates", "/inbox"]
    pages += ["/inbox/mail-0", "/inbox/mail-999", "/inbox?behind=mail-500", f"/messages/{model}"]
    pages.append(f"/messages/{listed(look('/messages'))[0]}")
    pages += [f"/templates/{name}/en" for name in Templates(SHIPPED).names()]
    sizes = {path: len(look(path).body) for path in pages}
    assert {path: size for path, size in sizes.items() if size > MOST_BYTES} == {}
    assert "10,000" not in text_of(look("/messages"))
    assert "1,000 mails that the provider accepted" in text_of(look("/inbox"))
    assert "5,000" in text_of(look("/"))
    assert "more characters stand there" in text_of(look("/inbox/mail-0"))


def test_the_figures_of_the_last_hour_are_the_database_s(
    swept_by_hand: Stack, emptied: Connection
) -> None:
    arrange.enqueue(emptied, 4)
    swept_by_hand.set_faults("reject", times=1)
    swept_by_hand.invoke("sweep")
    sent = "UPDATE postlease.email_messages SET {} WHERE status = 'sent'"
    emptied.execute(sent.format("available_at = sent_at - interval '2 seconds'"))
    older = "UPDATE postlease.email_messages SET finished_at = now() - interval '{}' WHERE {}"
    emptied.execute(older.format("150 seconds", "status = 'failed'"))
    read = figures.read(swept_by_hand.database_url)
    assert (read.queue.sent, read.queue.failed, read.queue.queued) == (3, 1, 0)
    assert read.minutes[-1] == figures.Minute(3, 0, 2.0, 2.0)
    assert read.minutes[-3] == figures.Minute(0, 1, None, None)
    assert sum(one.sent + one.failed for one in read.minutes) == 4
    assert read.reasons == {"rejected": 1}
    assert read.outcomes == {"accepted": 3, "rejected": 1}
    emptied.execute(older.format("61 minutes", "true"))
    read = figures.read(swept_by_hand.database_url)
    assert read.minutes == [figures.Minute()] * figures.MINUTES
    assert read.reasons == {}
    assert charts.lines([[one.p50 for one in read.minutes]]).lines == []


def test_the_overview_names_the_database_without_its_password_and_nobody_s_address(
    swept_by_hand: Stack, emptied: Connection, look: Look
) -> None:
    arrange.enqueue(emptied)
    swept_by_hand.invoke("sweep")
    text = text_of(look("/"))
    login = psycopg.conninfo.conninfo_to_dict(swept_by_hand.database_url)
    assert f"{login['dbname']} on 127.0.0.1:" in text or "DATABASE_URL" in text
    assert str(login.get("password") or "no password") not in text
    assert "@example.com" not in text


def test_the_console_writes_nothing_to_the_database(
    swept_by_hand: Stack, emptied: Connection, look: Look
) -> None:
    [message_id] = arrange.enqueue(emptied)
    before = arrange.row(emptied, message_id)
    for path in ("/", "/messages", f"/messages/{message_id}"):
        look(path)
    assert arrange.row(emptied, message_id) == before


def test_a_database_that_is_away_is_told_and_the_rest_still_works(
    swept_by_hand: Stack, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = psycopg.conninfo.make_conninfo(swept_by_hand.database_url, dbname="gone")
    monkeypatch.setattr(swept_by_hand, "database_url", f"{wrong} connect_timeout=2")
    told: Any = text_of(look("/"))
    assert "The database gave no figures: the database server has no such database" in told
    assert "no such database" in text_of(look("/messages", 503))
    look("/inbox")


def test_a_table_that_is_locked_keeps_no_page_waiting(
    swept_by_hand: Stack, emptied: Connection, look: Look
) -> None:
    with emptied.transaction():
        emptied.execute("LOCK TABLE postlease.email_messages IN ACCESS EXCLUSIVE MODE")
        assert "The database gave no figures: the database is busy" in text_of(look("/"))
        assert "the database is busy" in text_of(look("/messages", 503))
        assert "the database is busy" in text_of(look(f"/messages/{UNKNOWN}", 503))
