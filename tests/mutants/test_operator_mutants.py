"""The guards of what signed callers change: take one out, and the named test fails."""

from __future__ import annotations

import importlib

import pytest

from tests.integration.messages.conftest import api
from tests.mutants.promises import arguments_of, load, passes
from tests.mutants.test_statement_mutants import Mutant

__all__ = ["api"]  # a fixture

OPERATING = "postlease.outbox.operating"
RETRYING = "postlease.outbox.retrying"
WATCHING = "postlease.outbox.watching"
FINDING = "postlease.outbox.finding"
LISTING = "postlease.suppression.listing"
IDEMPOTENCY = "postlease.idempotency"

CANCELLING = "messages.test_cancelling"
SCOPES = "messages.test_retrying_scopes"
LOOKING = "messages.test_looking"
SUPPRESSIONS = "messages.test_suppressions"

MUTANTS = [
    # cancel: pending, this one, and not what a worker has just claimed
    Mutant(
        OPERATING,
        "CANCEL",
        "CASE WHEN m.status = 'pending' THEN 'cancelled' ELSE 'not_pending' END",
        f"{CANCELLING}.test_only_a_pending_message_is_cancelled",
        "CASE WHEN true THEN 'cancelled' ELSE 'not_pending' END",
        {"status": "failed"},
    ),
    Mutant(
        OPERATING,
        "CANCEL",
        "AND held.word = 'cancelled'",
        f"{CANCELLING}.test_only_a_pending_message_is_cancelled",
        arguments={"status": "failed"},
    ),
    Mutant(
        OPERATING,
        "CANCEL",
        "    FOR NO KEY UPDATE\n",
        f"{CANCELLING}.test_a_claim_that_came_first_is_not_called_back",
    ),
    Mutant(
        OPERATING,
        "CANCEL",
        "WHERE m.id = %(id)s",
        f"{CANCELLING}.test_one_message_is_cancelled_and_no_other",
        "WHERE %(id)s::uuid IS NOT NULL",
    ),
    # retry of many: what one retry would refuse, what was not meant, no more than asked
    *(
        Mutant(
            RETRYING,
            statement,
            fragment,
            f"{CANCELLING}.test_what_a_single_retry_refuses_is_not_among_many",
            arguments={"change": change},
        )
        for statement in ("HOLD_MANY", "COUNT_RETRIABLE")
        for fragment, change in (
            ("  AND m.redacted_at IS NULL\n", b"redacted_at = now()"),
            ("  AND m.failure_reason <> 'superseded'\n", b"failure_reason = 'superseded'"),
            ("  AND (m.expires_at IS NULL OR m.expires_at > now())\n", b"expires_at = now()"),
        )
    ),
    *(
        Mutant(
            RETRYING,
            statement,
            fragment,
            f"{CANCELLING}.test_a_mail_whose_link_is_over_is_not_among_many",
            replacement,
            {"change": change},
        )
        for statement in ("HOLD_MANY", "COUNT_RETRIABLE")
        for fragment, replacement, change in (
            ("t.superseded_at IS NOT NULL OR ", "", b"superseded_at = now()"),
            ("t.redeemed_at IS NOT NULL", "false", b"redeemed_at = now()"),
            (
                "t.expires_at <= now() + %(token_life_left)s::interval",
                "t.expires_at <= now() + 0 * %(token_life_left)s::interval",
                b"expires_at = now() + interval '4 minutes'",
            ),
        )
    ),
    # retry, of one or many: a newer one of its scope took its place
    *(
        Mutant(
            RETRYING,
            statement,
            fragment,
            f"{CANCELLING}.test_what_took_nobody_s_place_hinders_no_retry",
            arguments={"change": change},
        )
        for statement in ("RETRY", "HOLD_MANY", "RETRY_MANY", "COUNT_RETRIABLE")
        for fragment, change in (
            ("n.producer = m.producer AND ", b"producer = 'another'"),
            (" AND n.cancel_scope = m.cancel_scope", b"cancel_scope = 'cart-2'"),
            (" AND n.id > m.id", b"id = '00000000-0000-7000-8000-000000000000'"),
            (
                " AND n.failure_reason IS DISTINCT FROM 'superseded'",
                b"failure_reason = 'superseded', status = 'failed', finished_at = now()",
            ),
        )
    ),
    *(
        Mutant(
            RETRYING,
            statement,
            fragment,
            f"{CANCELLING}.test_what_failed_before_a_newer_one_of_its_scope_is_not_sent_after_it",
            replacement,
            {"became": became},
        )
        for statement in ("RETRY", "COUNT_RETRIABLE")
        for fragment, replacement, became in (
            ("n.finished_at IS NULL", "false", "pending"),
            ("n.finished_at IS NOT NULL", "false", "sent"),
        )
    ),
    Mutant(
        RETRYING,
        "HOLD_MANY",
        "    LIMIT %(limit)s\n",
        f"{CANCELLING}.test_one_call_retries_so_many_and_says_how_many_are_left",
    ),
    Mutant(
        RETRYING,
        "HOLD_MANY",
        "ORDER BY m.id\n",
        f"{CANCELLING}.test_one_call_retries_so_many_and_says_how_many_are_left",
        "ORDER BY m.id DESC\n",
    ),
    Mutant(
        RETRYING,
        "HOLD_MANY",
        "    FOR NO KEY UPDATE\n",
        f"{SCOPES}.test_many_that_wait_for_a_scope_are_changed_by_nobody_else",
    ),
    *(
        Mutant(
            RETRYING,
            statement,
            fragment,
            f"{CANCELLING}.test_many_are_chosen_by_reason_template_and_time",
        )
        for statement in ("HOLD_MANY", "COUNT_RETRIABLE")
        for fragment in ("AND (%(template)s::text IS NULL OR m.template = %(template)s)",)
    ),
    *(
        Mutant(
            RETRYING,
            "COUNT_RETRIABLE",
            fragment,
            f"{CANCELLING}.test_many_are_chosen_by_reason_template_and_time",
        )
        for fragment in (
            "AND (%(reason)s::text IS NULL OR m.failure_reason = %(reason)s)",
            "AND m.created_at >= %(created_from)s::timestamptz",
            "AND m.created_at < %(created_before)s::timestamptz",
        )
    ),
    # a retry and a newer one of its scope take turns
    *(
        Mutant(
            RETRYING,
            statement,
            fragment,
            f"{SCOPES}.{test}",
            "false",
            {"became": became},
        )
        for statement, test in (
            ("HOLD_MANY", "test_what_was_replaced_takes_no_place_among_the_many"),
            ("RETRY_MANY", "test_many_that_waited_for_a_newer_one_are_replaced_by_it"),
        )
        for fragment, became in (
            ("n.finished_at IS NULL", "pending"),
            ("n.finished_at IS NOT NULL", "cancelled"),
        )
    ),
    Mutant(
        RETRYING,
        "HOLD_SCOPE",
        "pg_advisory_xact_lock",
        f"{SCOPES}.test_a_retry_that_waited_for_a_newer_one_is_replaced_by_it",
        "hashint8",
    ),
    Mutant(
        RETRYING,
        "HOLD_MANY",
        "pg_advisory_xact_lock",
        f"{SCOPES}.test_many_that_waited_for_a_newer_one_are_replaced_by_it",
        "hashint8",
        {"became": "pending"},
    ),
    Mutant(
        RETRYING,
        "HOLD_SCOPE",
        "m.id = %(id)s AND ",
        f"{SCOPES}.test_a_retry_holds_the_lock_of_its_own_scope_alone",
        "%(id)s::uuid IS NOT NULL AND ",
        {"many": False},
    ),
    Mutant(
        RETRYING,
        "HOLD_SCOPE",
        " AND m.cancel_scope IS NOT NULL",
        f"{SCOPES}.test_a_retry_without_a_scope_holds_no_lock",
        arguments={"many": False},
    ),
    Mutant(
        RETRYING,
        "HOLD_MANY",
        "        WHERE w.cancel_scope IS NOT NULL\n",
        f"{SCOPES}.test_a_retry_without_a_scope_holds_no_lock",
        arguments={"many": True},
    ),
    Mutant(
        RETRYING,
        "HOLD_MANY",
        "        ORDER BY key) AS l",
        f"{SCOPES}.test_a_retry_of_many_takes_the_locks_in_the_order_of_a_batch",
        "        ORDER BY key DESC) AS l",
    ),
    # stats
    *(
        Mutant(
            WATCHING,
            "BACKLOG_BY_CLASS",
            fragment,
            f"{LOOKING}.test_stats_count_what_is_unfinished_by_class_and_how_the_last_day_ended",
            replacement,
        )
        for fragment, replacement in (
            ("FILTER (WHERE m.status = 'pending') AS pending", "AS pending"),
            ("FILTER (WHERE m.status = 'sending') AS sending", "AS sending"),
            ("FILTER (WHERE m.status = 'pending' AND m.available_at <= now())", ""),
            ("m.lease_expires_at < now()", "false"),
        )
    ),
    Mutant(
        WATCHING,
        "FINISHED_LATELY",
        "WHERE m.created_at > now() - %(window)s::interval",
        f"{LOOKING}.test_stats_of_an_empty_table_are_zero_and_old_endings_do_not_count",
        "WHERE %(window)s::interval IS NOT NULL",
    ),
    Mutant(
        WATCHING,
        "FINISHED_LATELY",
        "AND m.finished_at IS NOT NULL",
        f"{LOOKING}.test_stats_count_what_is_unfinished_by_class_and_how_the_last_day_ended",
    ),
    Mutant(
        FINDING,
        "FIND",
        "WHERE a.message_id = m.id",
        f"{LOOKING}.test_recipients_are_those_of_their_message_alone",
        "WHERE true",
    ),
    # the list
    *(
        Mutant(LISTING, statement, fragment, f"{SUPPRESSIONS}.{test}", replacement)
        for statement, fragment, replacement, test in (
            (
                "PAGE",
                "  AND (s.expires_at IS NULL OR s.expires_at > now())\n",
                "",
                "test_an_entry_that_ended_is_not_listed_and_none_is_made_that_would_have",
            ),
            (
                "FIND",
                "  AND (s.expires_at IS NULL OR s.expires_at > now())\n",
                "",
                "test_an_entry_that_ended_is_not_listed_and_none_is_made_that_would_have",
            ),
            (
                "PAGE",
                "(s.address_digest, s.reason) > (%(digest)s, %(reason)s)",
                "s.address_digest >= %(digest)s AND %(reason)s::text IS NOT NULL",
                "test_the_list_is_read_in_pages_each_entry_once",
            ),
            (
                "PAGE",
                "(s.address_digest, s.reason) > (%(digest)s, %(reason)s)",
                "s.address_digest > %(digest)s AND %(reason)s::text IS NOT NULL",
                "test_the_list_is_read_in_pages_each_entry_once",
            ),
            (
                "PAGE",
                "AND (%(wanted)s::text IS NULL OR s.reason = %(wanted)s)",
                "",
                "test_the_list_is_read_in_pages_each_entry_once",
            ),
            (
                "PUT",
                "%(expires_at)s::timestamptz > now()",
                "true",
                "test_an_entry_that_ended_is_not_listed_and_none_is_made_that_would_have",
            ),
            (
                "PUT",
                "SET expires_at = EXCLUDED.expires_at",
                "SET expires_at = s.expires_at",
                "test_an_operator_s_entry_is_made_found_replaced_and_deleted",
            ),
            (
                "DELETE",
                "WHERE s.address_digest = %(digest)s",
                "WHERE %(digest)s::bytea IS NOT NULL",
                "test_no_other_address_s_entry_is_touched",
            ),
            (
                "DELETE",
                "AND (%(reason)s::text IS NULL OR s.reason = %(reason)s)",
                "",
                "test_an_operator_s_entry_leaves_those_of_events_alone_and_one_reason_can_go",
            ),
        )
    ),
    # the look for an answer given
    Mutant(
        IDEMPOTENCY,
        "ANSWERED",
        "AND expires_at > now()",
        "messages.test_keys.test_a_key_that_is_over_is_a_new_one",
    ),
    Mutant(
        IDEMPOTENCY,
        "ANSWERED",
        "WHERE key_digest = %(key)s",
        "messages.test_keys.test_a_request_repeated_under_its_key_gets_the_first_answer_again",
        "WHERE %(key)s::bytea IS NOT NULL",
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_statement_without_its_guard_breaks_a_promise(
    mutant: Mutant, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module(mutant.module)
    statement: str = getattr(module, mutant.statement)
    assert mutant.fragment in statement, "the guard is worded otherwise now"
    test = load(mutant.test)
    arguments = arguments_of(test, request, mutant.arguments)
    monkeypatch.setattr(
        module, mutant.statement, statement.replace(mutant.fragment, mutant.replacement)
    )
    assert not passes(test, arguments), f"{mutant.test} does not miss the guard"
