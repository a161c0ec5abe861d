"""Claim, prepare, authorize, send, record: what leaves, what does not, and what is written."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from postlease import outbox, suppression, tokens
from postlease.model import TokenFacts
from tests import arrange
from tests.deployed import KEYS, PEPPER

if TYPE_CHECKING:
    import io
    from collections.abc import Callable
    from pathlib import Path

    from postlease.database import Connection
    from postlease.model import Purpose
    from tests.integration.delivery.conftest import Sweeps


def real_auth_message(
    owner: Connection,
    *,
    key_id: str = "k2",
    key: str | None = None,
    purpose: Purpose = "verify_email",
) -> str:
    """A pending mail whose link can be derived; answers the token's text."""
    message_id, token_id = arrange.auth_message(owner)
    owner.execute(
        "UPDATE postlease.verification_tokens SET purpose = %s WHERE id = %s", [purpose, token_id]
    )
    owner.execute(
        "UPDATE postlease.email_messages SET template = %s WHERE id = %s", [purpose, message_id]
    )
    found = owner.execute(
        "SELECT user_id FROM postlease.verification_tokens WHERE id = %s", [token_id]
    ).fetchone()
    assert found
    text = tokens.derive(
        (key or KEYS[key_id]).encode(),
        purpose=purpose,
        token_id=token_id,
        version=1,
        user_id=found["user_id"],
    )
    owner.execute(
        "UPDATE postlease.verification_tokens SET token_hash = %s, key_id = %s WHERE id = %s",
        [tokens.token_hash(text), key_id, token_id],
    )
    return text


def test_a_due_message_is_sent_once_and_recorded(sweeps: Sweeps, owner: Connection) -> None:
    [message_id] = arrange.enqueue(owner)
    assert sweeps.run().counts["sent"] == 1
    [mail] = sweeps.inbox()
    assert mail["to"] == ["reader0@example.com"]
    stored = arrange.row(owner, message_id)
    assert stored["provider_message_id"] == mail["provider_message_id"]
    assert stored["template_version"]
    assert sweeps.run().counts["claimed"] == 0
    assert len(sweeps.inbox()) == 1


def test_a_reset_s_link_leads_to_its_own_page_and_says_its_own_time(
    sweeps: Sweeps, owner: Connection, environment: Callable[..., None]
) -> None:
    environment(RESET_TOKEN_SECONDS="1500")
    token = real_auth_message(owner, purpose="reset_password")
    sweeps.run()
    [mail] = sweeps.inbox()
    for body in (mail["text"], mail["html"]):
        assert f"https://mail.example.com/reset#token={token}" in body
        assert "25 minutes" in body


@pytest.mark.parametrize("purpose", ["verify_email", "reset_password"])
@pytest.mark.parametrize("switch", ["on", "off"])
def test_a_verification_mail_shows_its_code_where_codes_are_on(
    sweeps: Sweeps,
    owner: Connection,
    environment: Callable[..., None],
    switch: str,
    purpose: Purpose,
) -> None:
    environment(VERIFY_CODES=switch)
    real_auth_message(owner, purpose=purpose)
    [facts] = owner.execute(
        "SELECT id, user_id, purpose, version, key_id, token_hash"
        " FROM postlease.verification_tokens"
    ).fetchall()
    ring = tokens.KeyRing.from_secret(KEYS)
    code = tokens.code_again(ring, TokenFacts(**facts))
    sweeps.run()
    [mail] = sweeps.inbox()
    is_shown = switch == "on" and purpose == "verify_email"
    for body in (mail["text"], mail["html"]):
        assert bool(re.search(rf"\b{code}\b", body)) == is_shown
    dump = owner.execute("SELECT m::text AS line FROM postlease.email_messages AS m").fetchall()
    assert not re.search(rf"\b{code}\b", str(dump))


def test_the_link_is_made_when_it_is_needed_and_only_there(
    sweeps: Sweeps, owner: Connection
) -> None:
    token = real_auth_message(owner)
    sweeps.run()
    [mail] = sweeps.inbox()
    link = f"https://mail.example.com/verify#token={token}"
    assert link in mail["text"]
    assert link in mail["html"]
    dump = owner.execute("SELECT m::text AS line FROM postlease.email_messages AS m").fetchall()
    assert token not in str(dump)


def test_the_sender_s_name_stands_before_its_address(
    sweeps: Sweeps, owner: Connection, environment: Callable[..., None]
) -> None:
    environment(FROM_NAME="Ada, Inc.")
    arrange.enqueue(owner)
    sweeps.run()
    [mail] = sweeps.inbox()
    assert mail["from"] == '"Ada, Inc." <noreply@example.com>'


def test_the_mail_tells_how_long_its_link_works(
    sweeps: Sweeps, owner: Connection, environment: Callable[..., None]
) -> None:
    environment(VERIFY_TOKEN_SECONDS="7200")
    real_auth_message(owner)
    sweeps.run()
    [mail] = sweeps.inbox()
    assert "2 hours" in mail["text"]
    assert "2 hours" in mail["html"]


def test_the_template_is_rendered_at_send_time(
    sweeps: Sweeps, owner: Connection, tmp_path: Path, environment: Callable[..., None]
) -> None:
    """A template mended while messages wait lets them go out correctly."""
    folder = tmp_path / "receipt" / "en"
    folder.mkdir(parents=True)
    (tmp_path / "receipt" / "sample.json").write_text("{}")
    (folder / "subject.txt.j2").write_text("Receipt")
    (folder / "body.html.j2").write_text("<p>{{ order_number }}</p>")
    (folder / "body.txt.j2").write_text("{{ no_such_thing }}")
    environment(TEMPLATES_DIRECTORY=str(tmp_path))
    arrange.enqueue(owner, 2)
    (folder / "body.txt.j2").write_text("mended {{ order_number }}")
    assert sweeps.run().counts["sent"] == 2
    assert {mail["text"].strip() for mail in sweeps.inbox()} == {"mended A-0", "mended A-1"}


def test_a_render_error_is_a_permanent_error(sweeps: Sweeps, owner: Connection) -> None:
    [unrenderable] = arrange.enqueue(owner, parameters={"order_number": "A-1"})
    [unknown_template] = arrange.enqueue(owner, template="no_such_template")
    arrange.enqueue(owner)
    tally = sweeps.run()
    assert (tally.counts["failed"], tally.counts["sent"]) == (2, 1)
    for message_id in (unrenderable, unknown_template):
        stored = arrange.row(owner, message_id)
        assert (stored["status"], stored["failure_reason"]) == ("failed", "render_error")
        assert stored["dispatched_at"] is None


def test_the_log_says_what_a_template_lacks_and_no_value(
    sweeps: Sweeps, owner: Connection, logs: io.StringIO
) -> None:
    given = {"order_number": "A-1", "x@shop.example": "geheim"}
    arrange.enqueue(owner, parameters=given)
    arrange.enqueue(owner, parameters=given | {"total": ["geheim"]})
    arrange.enqueue(owner, parameters=given | {"total": {"x@shop.example": "www.shop.example"}})
    sweeps.run()
    lines = [json.loads(line) for line in logs.getvalue().splitlines()]
    told = {line["code"]: line.get("detail") for line in lines if line.get("code")}
    assert told["parameter_missing"] == "receipt/en lacks total"
    assert re.fullmatch(
        r"receipt/en/body.txt.j2, line \d+: a list is nothing to show as text",
        told["render_error"],
    )
    assert told["url_not_declared"] is None
    assert not re.search(r"geheim|shop\.example", logs.getvalue())


def test_a_message_whose_template_comes_with_a_later_deployment_is_kept_for_a_retry(
    sweeps: Sweeps,
    owner: Connection,
    application: Connection,
    tmp_path: Path,
    environment: Callable[..., None],
) -> None:
    """LSE-10: the reaper judges no template; a sweep fails it for a stated reason, with all it has.

    What is not there at send time is a permanent error, and an operator's retry the remedy.
    """
    [message_id] = arrange.enqueue(owner, template="of_tomorrow")
    arrange.claim(application)
    arrange.end_lease(owner, message_id)
    arrange.reap(application)
    assert arrange.row(owner, message_id)["status"] == "pending"
    sweeps.run()
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["failure_reason"]) == ("failed", "render_error")
    assert stored["attempts"][-1]["code"] == "template_missing"

    folder = tmp_path / "of_tomorrow" / "en"
    folder.mkdir(parents=True)
    (folder.parent / "sample.json").write_text("{}")
    for name in ("subject.txt.j2", "body.txt.j2", "body.html.j2"):
        (folder / name).write_text("order {{ order_number }}")
    environment(TEMPLATES_DIRECTORY=str(tmp_path))
    assert outbox.retry(application, message_id) == "retried"
    assert sweeps.run().counts["sent"] == 1
    [mail] = sweeps.inbox()
    assert (mail["to"], mail["subject"]) == (["reader0@example.com"], "order A-0")


@pytest.mark.parametrize("place", range(10))
def test_one_refused_message_does_not_stop_the_others(
    sweeps: Sweeps, owner: Connection, environment: Callable[..., None], place: int
) -> None:
    """PSN-01: refused at once, and the rest of the batch is sent."""
    environment(SEND_SLOTS="1")
    ids = arrange.enqueue(owner, place)
    sweeps.run()
    ids += arrange.enqueue(owner, 10 - place)
    sweeps.meets("reject", 1)
    sweeps.run()
    found = [arrange.row(owner, message_id)["status"] for message_id in ids]
    assert found == ["sent"] * place + ["failed"] + ["sent"] * (9 - place)
    refused = arrange.row(owner, ids[place])
    assert (refused["failure_reason"], refused["attempt_count"]) == ("rejected", 1)


def test_a_throttled_message_waits_at_no_cost(sweeps: Sweeps, owner: Connection) -> None:
    [message_id] = arrange.enqueue(owner)
    sweeps.meets("throttle", 1)
    sweeps.run()
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["refunded_count"]) == ("pending", 1)
    assert stored["attempts"][-1]["outcome"] == "throttled"
    arrange.age(owner, message_id, timedelta(seconds=5), "available_at")
    sweeps.run()
    assert arrange.row(owner, message_id)["status"] == "sent"


def test_a_blocked_account_fails_nothing_and_ends_the_calls(
    sweeps: Sweeps, owner: Connection, environment: Callable[..., None]
) -> None:
    environment(SEND_SLOTS="2")
    arrange.enqueue(owner, 20)
    sweeps.meets("pause")
    tally = sweeps.run()
    assert sweeps.provider.counts.requests <= 4
    assert tally.counts["failed"] == 0
    assert arrange.statuses(owner) == {"pending": 20}
    spent = owner.execute(
        "SELECT count(*) AS n FROM postlease.email_messages WHERE attempt_count > refunded_count"
    ).fetchone()
    assert spent == {"n": 0}


def test_an_unanswered_call_is_unknown_and_not_sent_again(
    sweeps: Sweeps, owner: Connection
) -> None:
    """SES-08: one request, and the message is held until it can be settled honestly."""
    [message_id] = arrange.enqueue(owner)
    sweeps.meets("lose_response", 1)
    tally = sweeps.run()
    assert tally.counts["unknown"] == 1
    assert sweeps.provider.counts.requests == 1
    stored = arrange.row(owner, message_id)
    assert stored["status"] == "sending"
    assert stored["dispatched_at"] is not None
    assert sweeps.run().counts["claimed"] == 0
    assert len(sweeps.inbox()) == 1


def test_a_provider_that_nobody_reaches_costs_no_attempt(
    sweeps: Sweeps, owner: Connection, environment: Callable[..., None]
) -> None:
    [message_id] = arrange.enqueue(owner)
    sweeps.provider.close()
    sweeps.run()
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["refunded_count"]) == ("pending", 1)
    assert stored["attempts"][-1]["outcome"] == "unreachable"


def test_a_suppressed_copy_is_left_out_of_the_envelope(sweeps: Sweeps, owner: Connection) -> None:
    owner.execute(
        "SELECT postlease.enqueue_email('receipt', ARRAY['a@example.com', 'b@example.com'],"
        ' \'{"order_number": "1", "total": "2"}\', bcc_addresses => ARRAY[\'c@example.com\'])'
    )
    for address in ("B@example.com", "c@example.com"):
        owner.execute(
            "INSERT INTO postlease.suppressions (address_digest, reason) VALUES (%s, 'bounce')",
            [suppression.digest(tokens.pepper(PEPPER), address)],
        )
    sweeps.run()
    [mail] = sweeps.inbox()
    assert (mail["to"], mail["bcc"]) == (["a@example.com"], [])


def test_an_attachment_that_changed_is_not_sent(
    sweeps: Sweeps, owner: Connection, bucket: Callable[[str, bytes], str]
) -> None:
    """What is attached is what was pinned at enqueue; a reference, not a blob, is in the row."""
    good, changed, gone = arrange.enqueue(owner, 3)
    for message_id, key in ((good, "a b+c.txt"), (changed, "changed.txt"), (gone, "gone.txt")):
        owner.execute(
            "INSERT INTO postlease.email_attachments (message_id, position, filename,"
            " content_type, storage_ref, size, sha256)"
            " VALUES (%s, 1, 'note.txt', 'text/plain', %s, 5, sha256('hello'))",
            [message_id, f"attachments/{key}"],
        )
    bucket("attachments/a b+c.txt", b"hello")
    bucket("attachments/changed.txt", b"jello")
    sweeps.run()
    [mail] = sweeps.inbox()
    assert [(a["filename"], a["size"]) for a in mail["attachments"]] == [("note.txt", 5)]
    reasons = [arrange.row(owner, key)["failure_reason"] for key in (good, changed, gone)]
    assert reasons == [None, "attachment_changed", "attachment_missing"]


def test_an_unknown_token_key_is_looked_up_anew_and_then_fails_nothing(
    sweeps: Sweeps, owner: Connection
) -> None:
    real_auth_message(owner, key_id="k9", key="a-key-that-is-not-here-" * 3)
    sweeps.run()
    assert sweeps.inbox() == []
    assert arrange.statuses(owner) == {"pending": 1}
    found = owner.execute("SELECT attempts, refunded_count FROM postlease.email_messages")
    row = found.fetchone()
    assert row
    assert row["refunded_count"] == 1
    assert (row["attempts"][-1]["outcome"], row["attempts"][-1]["code"]) == ("blocked", "token_key")


def test_two_sweeps_in_threads_send_each_due_message_exactly_once(
    sweeps: Sweeps, owner: Connection
) -> None:
    arrange.enqueue(owner, 500)
    runs = [sweeps.start(), sweeps.start()]
    sent = [run.result().counts["sent"] for run in runs]
    assert sum(sent) == 500
    assert min(sent) > 0, "the two did not share the work"
    mails = [mail["message_id"] for mail in sweeps.inbox()]
    assert len(mails) == len(set(mails)) == 500
    assert arrange.statuses(owner) == {"sent": 500}


def test_a_message_that_lingers_is_found_within_the_same_run(
    sweeps: Sweeps, owner: Connection
) -> None:
    running = sweeps.start(linger=15)
    arrange.enqueue(owner)
    assert sweeps.provider.wait_for(lambda counts: counts.accepted == 1, seconds=30)
    assert running.result().counts["sent"] == 1


def test_no_transaction_is_open_while_the_provider_is_asked(
    sweeps: Sweeps, owner: Connection
) -> None:
    """DBL-03: a slow provider does not keep the queue's table from being vacuumed."""
    arrange.enqueue(owner, 3)
    sweeps.meets("slow", seconds=0.5)
    running = sweeps.start()
    assert sweeps.provider.wait_for(lambda counts: counts.held == 3, seconds=30)
    open_transactions = owner.execute(
        "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database()"
        " AND state LIKE 'idle in transaction%'"
    ).fetchone()
    assert open_transactions == {"n": 0}
    assert running.result().counts["sent"] == 3


def test_logs_carry_ids_and_neither_address_nor_token(
    sweeps: Sweeps, owner: Connection, logs: io.StringIO
) -> None:
    token = real_auth_message(owner)
    sweeps.run()
    written = logs.getvalue()
    lines = [json.loads(line) for line in written.splitlines()]
    [line] = [line for line in lines if line.get("outcome") == "accepted"]
    assert {
        "event_id",
        "message_id",
        "lease_owner",
        "lease_expires_at",
        "attempt",
        "token_version",
        "provider",
        "provider_message_id",
        "outcome",
    } <= line.keys()
    assert line["event_id"].startswith("evt_")
    assert "reader@example.com" not in written
    assert token not in written
