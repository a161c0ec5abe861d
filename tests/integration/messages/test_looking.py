"""What a signed caller may know: a message in full, its recipients by another path, counts."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

from postlease import outbox
from tests import arrange
from tests.integration.messages.conftest import sample, send

if TYPE_CHECKING:
    import io

    from postlease.database import Connection
    from tests.integration.messages.conftest import Api


def test_a_message_in_full_shows_what_was_asked_for_and_no_whole_address_and_no_name(
    api: Api, owner: Connection
) -> None:
    event = send(
        api,
        to=[{"email": "reader@example.net", "name": "CANARY-1"}],
        reply_to={"email": "answers@example.net", "name": "CANARY-2"},
        tags={"kind": "receipt"},
        cancel_scope="order 1",
        **{"from": "noreply@example.com"},
    ).json["event_id"]
    owner.execute(
        "INSERT INTO postlease.email_attachments (message_id, position, filename, content_type,"
        " storage_ref, size, sha256) SELECT id, 0, 'CANARY-3.txt', 'text/plain',"
        " 'attachments/shared/CANARY-4', 5, sha256('hello') FROM postlease.email_messages"
    )
    reply = api.call("GET", f"/v1/messages/{event}")
    shown = reply.json
    assert (shown["to"], shown["reply_to"]) == (["r***@example.net"], "a***@example.net")
    assert (shown["from"], shown["tags"]) == ("noreply@example.com", {"kind": "receipt"})
    assert shown["cancel_scope"] == "order 1"
    assert shown["attachments"] == [{"position": 0, "content_type": "text/plain", "size": 5}]
    assert "CANARY" not in reply.text
    for text in ("reader@", "answers@"):
        assert text not in reply.text
    [listed] = api.found()
    assert not {"tags", "from", "attachments"} & set(listed)


def test_recipients_are_told_whole_and_the_log_says_who_looked(
    api: Api, owner: Connection, logs: io.StringIO
) -> None:
    event = send(
        api,
        to=[{"email": "Reader@example.net", "name": "Ada"}, "b@example.net"],
        cc=["c@example.net"],
        bcc=["hidden@example.net"],
        reply_to={"email": "answers@example.net", "name": "Help"},
    ).json["event_id"]
    reply = api.call("GET", f"/v1/messages/{event}/recipients")
    assert reply.json == {
        "event_id": event,
        "from": None,
        "reply_to": '"Help" <answers@example.net>',
        "to": [
            {"email": "Reader@example.net", "name": "Ada"},
            {"email": "b@example.net", "name": None},
        ],
        "cc": [{"email": "c@example.net", "name": None}],
        "bcc": [{"email": "hidden@example.net", "name": None}],
        "attachments": [],
    }
    [line] = [json.loads(text) for text in logs.getvalue().splitlines() if "recipients" in text]
    assert (line["event_id"], line["principal"]) == (event, api.principal)
    assert "@" not in logs.getvalue()


def test_recipients_are_those_of_their_message_alone(api: Api, owner: Connection) -> None:
    first, second = (send(api, to=[f"{name}@example.net"]).json["event_id"] for name in "ab")
    owner.execute(
        "INSERT INTO postlease.email_attachments (message_id, position, filename, content_type,"
        " storage_ref, size, sha256) SELECT id, n, n || '.txt', 'text/plain',"
        " 'attachments/shared/a', 5, sha256('hello')"
        " FROM postlease.email_messages, generate_series(0, 1) AS n"
        " WHERE to_addresses = '{a@example.net}' ORDER BY n DESC"
    )
    found = [api.call("GET", f"/v1/messages/{one}/recipients").json for one in (first, second)]
    assert [one["to"][0]["email"] for one in found] == ["a@example.net", "b@example.net"]
    assert [[a["filename"] for a in one["attachments"]] for one in found] == [
        ["0.txt", "1.txt"],
        [],
    ]


def test_recipients_of_a_message_that_is_not_there_are_a_404(api: Api) -> None:
    reply = api.event(sample("messages-recipients"))
    assert (reply.status, reply.problem) == (404, "message-unknown")
    assert api.call("GET", "/v1/messages/x/recipients").problem == "invalid-request"


def test_stats_count_what_is_unfinished_by_class_and_how_the_last_day_ended(
    api: Api, owner: Connection, application: Connection
) -> None:
    [unknown] = arrange.enqueue(owner)
    arrange.dispatch(application)
    arrange.end_lease(owner, unknown)
    arrange.age(owner, unknown, timedelta(hours=1), "available_at")
    [sent] = arrange.enqueue(owner)
    [message] = arrange.dispatch(application)
    outbox.record(application, [arrange.sent(message.claim)])
    ids = arrange.enqueue(owner, 3)
    outbox.cancel(application, ids[0])
    arrange.enqueue(owner, 2, priority=100)
    arrange.age(owner, ids[1], timedelta(minutes=2), "available_at")
    arrange.auth_message(owner)
    arrange.age(owner, ids[2], timedelta(days=-1), "available_at")
    found = api.event(sample("messages-stats")).json
    assert (found["pending"], found["sending"], found["unknown"]) == (5, 1, 1)
    counts = {name: (one["pending"], one["sending"]) for name, one in found["classes"].items()}
    assert counts == {"auth": (1, 0), "transactional": (2, 1), "bulk": (2, 0)}
    assert found["classes"]["transactional"]["unknown"] == 1
    assert 120 <= found["oldest_due_seconds"] < 3600
    assert found["classes"]["bulk"]["oldest_due_seconds"] < 120
    assert found["last_day"] == {"sent": 1, "failed": 1, "reasons": {"cancelled": 1}}
    assert sent


def test_stats_of_an_empty_table_are_zero_and_old_endings_do_not_count(
    api: Api, owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    outbox.cancel(application, message_id)
    arrange.age(owner, message_id, timedelta(hours=25), "created_at")
    found = api.call("GET", "/v1/stats").json
    assert found["last_day"] == {"sent": 0, "failed": 0, "reasons": {}}
    assert (found["pending"], found["oldest_due_seconds"]) == (0, 0)
    assert found["classes"]["bulk"] == {
        "pending": 0,
        "sending": 0,
        "unknown": 0,
        "oldest_due_seconds": 0,
    }
