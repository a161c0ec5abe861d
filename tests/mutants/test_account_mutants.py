"""Every guard of the accounts' statements is held by a test: take it out, and that test fails."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING

import pytest

from tests.integration.auth.conftest import (
    api,
    codes,
    mailed,
    open_database,
    reset,
    signed_up,
    world,
)
from tests.integration.auth.test_sub_addresses import shown, waiting
from tests.mutants.test_statement_mutants import Mutant, load, passes

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.auth.conftest import World

__all__ = [  # fixtures
    "api",
    "codes",
    "mailed",
    "open_database",
    "reset",
    "shown",
    "signed_up",
    "waiting",
    "world",
]

IDEMPOTENCY = "postlease.idempotency"
LIMITS = "postlease.limits"
GROUND = "postlease.accounts.ground"
SIGNING_UP = "postlease.accounts.signing_up"
ISSUING = "postlease.accounts.issuing"
ASKING = "postlease.accounts.asking"
REDEEMING = "postlease.accounts.redeeming"
VERIFYING = "postlease.accounts.verifying"
RESETTING = "postlease.accounts.resetting"
CHANGING = "postlease.accounts.changing"
CODES = "postlease.accounts.codes"
ENQUEUEING = "postlease.outbox.enqueueing"
EVENTS = "postlease.accounts.events"

IN_WINDOW = "CASE WHEN held.window_ends_at > now()\n        THEN "
IN_COUNTED = "CASE WHEN held.window_ends_at > now() AND held.used > 0\n        THEN "

MUTANTS = [
    # idempotency: one effect for a key, as long as it lives
    Mutant(
        IDEMPOTENCY,
        "BEGIN",
        "WHERE held.expires_at <= now()",
        "auth.test_idempotency.test_the_first_request_runs_and_the_second_gets_its_answer",
    ),
    Mutant(
        IDEMPOTENCY,
        "BEGIN",
        "WHERE held.expires_at <= now()",
        "auth.test_idempotency.test_an_expired_key_is_used_anew",
        "WHERE false",
    ),
    Mutant(
        IDEMPOTENCY,
        "BEGIN",
        "request_digest = excluded.request_digest, ",
        "auth.test_idempotency.test_an_expired_key_is_used_anew",
    ),
    Mutant(
        IDEMPOTENCY,
        "BEGIN",
        "status_code = NULL, response = NULL,",
        "auth.test_idempotency.test_an_expired_key_is_used_anew",
    ),
    Mutant(
        IDEMPOTENCY,
        "STORED",
        "WHERE key_digest = %(key)s",
        "auth.test_idempotency.test_keys_do_not_share_an_answer",
    ),
    Mutant(
        IDEMPOTENCY,
        "FINISH",
        "key_digest = %(key)s AND ",
        "auth.test_idempotency.test_keys_do_not_share_an_answer",
    ),
    Mutant(
        IDEMPOTENCY,
        "FINISH",
        " AND status_code IS NULL",
        "auth.test_idempotency.test_an_answer_once_stored_is_never_replaced",
    ),
    # the cooldown: one winner a window
    Mutant(
        LIMITS,
        "TAKE",
        "greatest(%(window)s, interval '1 microsecond')",
        "auth.test_limits.test_a_window_of_no_length_is_over_at_once",
        "%(window)s",
    ),
    Mutant(
        LIMITS,
        "TAKE",
        "message_id = CASE WHEN held.window_ends_at > now() THEN held.message_id END",
        "auth.test_limits.test_an_ended_window_is_taken_over_and_forgets_its_event",
        "message_id = held.message_id",
    ),
    Mutant(
        LIMITS,
        "TAKE",
        f"window_ends_at = {IN_WINDOW}held.window_ends_at ELSE excluded.window_ends_at END",
        "auth.test_limits.test_a_window_lasts_from_its_first_request_and_is_not_extended",
        "window_ends_at = excluded.window_ends_at",
    ),
    Mutant(
        LIMITS,
        "TAKE",
        f"window_ends_at = {IN_WINDOW}held.window_ends_at ELSE excluded.window_ends_at END,",
        "auth.test_limits.test_an_ended_window_is_taken_over_and_forgets_its_event",
    ),
    Mutant(
        LIMITS,
        "NOTE",
        "WHERE held.limit_digest = %(digest)s",
        "auth.test_limits.test_mailboxes_do_not_share_a_cooldown",
    ),
    Mutant(
        LIMITS,
        "NOTE",
        "coalesce(%(message_id)s::uuid, held.message_id)",
        "auth.test_limits.test_noting_no_message_changes_nothing",
        "%(message_id)s::uuid",
    ),
    Mutant(
        LIMITS,
        "NOTE",
        "CASE WHEN %(message_id)s::uuid IS NULL\n        THEN held.window_ends_at ELSE"
        " now() + greatest(%(window)s, interval '1 microsecond') END",
        "auth.test_limits.test_noting_no_message_changes_nothing",
        "now() + %(window)s",
    ),
    Mutant(
        LIMITS,
        "NOTE",
        "THEN held.window_ends_at ELSE now() + greatest(%(window)s, interval '1 microsecond') END",
        "auth.test_limits.test_a_window_lasts_from_its_message",
        "THEN held.window_ends_at ELSE held.window_ends_at END",
    ),
    Mutant(
        LIMITS,
        "CLEAR",
        "WHERE limit_digest = %(digest)s",
        "auth.test_limits.test_mailboxes_do_not_share_a_cooldown",
    ),
    Mutant(
        GROUND,
        "WAIT",
        "'2s'",
        "auth.test_idempotency.test_a_first_request_that_runs_on_is_a_conflict_after_two_seconds",
        "'4s'",
    ),
    # sign-up and resend
    Mutant(
        SIGNING_UP,
        "SIGN_UP",
        "CASE WHEN known.verified_at IS NULL\n"
        "        THEN coalesce(%(locale)s, known.locale) ELSE known.locale END",
        "auth.test_accounts"
        ".test_the_language_follows_the_latest_request_until_the_address_is_proven",
        "coalesce(%(locale)s, known.locale)",
    ),
    Mutant(
        ASKING,
        "MEET",
        "email = known.email",
        "auth.test_accounts.test_asking_again_leaves_the_account_as_it_is",
        "email = excluded.email",
    ),
    Mutant(
        ASKING,
        "UNDO",
        "ROLLBACK TO",
        "auth.test_accounts.test_a_resend_for_an_unknown_address_stores_the_cooldown_alone",
        "RELEASE",
    ),
    Mutant(
        ASKING,
        "KEEP",
        "RELEASE",
        "auth.test_accounts.test_a_resend_leaves_other_users_and_other_purposes_alone",
        "ROLLBACK TO",
    ),
    Mutant(
        ISSUING,
        "UNDO",
        "ROLLBACK TO",
        "auth.test_accounts.test_a_sign_up_makes_a_user_a_live_token_and_a_queued_mail",
        "RELEASE",
    ),
    Mutant(
        ENQUEUEING,
        "REHEARSE",
        "m.id = ANY (%(ids)s::uuid[])",
        "auth.test_resetting.test_known_unknown_verified_and_suppressed_cost_the_same_statements",
        "false",
    ),
    # tokens: one live, superseded once, never one of somebody else
    Mutant(
        ISSUING,
        "END_LIVE",
        "user_id = %(user_id)s AND ",
        "auth.test_accounts.test_a_resend_leaves_other_users_and_other_purposes_alone",
    ),
    Mutant(
        ISSUING,
        "END_LIVE",
        " AND purpose = ANY (%(purposes)s::text[])",
        "auth.test_accounts.test_a_resend_leaves_other_users_and_other_purposes_alone",
    ),
    Mutant(
        ISSUING,
        "END_LIVE",
        "redeemed_at IS NULL AND ",
        "auth.test_accounts.test_a_redeemed_token_is_never_superseded",
    ),
    Mutant(
        ISSUING,
        "END_LIVE",
        " AND superseded_at IS NULL",
        "auth.test_accounts.test_a_token_is_superseded_once",
    ),
    Mutant(
        ISSUING,
        "NEXT_VERSION",
        "user_id = %(user_id)s AND ",
        "auth.test_accounts.test_a_resend_leaves_other_users_and_other_purposes_alone",
    ),
    Mutant(
        ISSUING,
        "NEXT_VERSION",
        " AND purpose = %(purpose)s",
        "auth.test_accounts.test_a_resend_leaves_other_users_and_other_purposes_alone",
    ),
    # redeem: a live token of this purpose, once, under the user's lock
    Mutant(
        REDEEMING,
        "FIND",
        " AND t.purpose = %(purpose)s",
        "auth.test_accounts.test_a_reset_token_verifies_nothing",
    ),
    Mutant(
        REDEEMING,
        "LOCK_USER",
        " FOR NO KEY UPDATE",
        "auth.test_accounts.test_a_redemption_that_waited_sees_what_happened_meanwhile",
    ),
    Mutant(
        VERIFYING,
        "REDEEM",
        "redeemed_at IS NULL AND ",
        "auth.test_accounts.test_fifty_parallel_redemptions_change_one_row_and_all_succeed",
    ),
    Mutant(
        VERIFYING,
        "REDEEM",
        "superseded_at IS NULL AND ",
        "auth.test_accounts.test_a_superseded_token_answers_so_in_every_order_of_clicks",
    ),
    Mutant(
        VERIFYING,
        "REDEEM",
        " AND expires_at > now()",
        "auth.test_accounts.test_an_expired_token_changes_nothing",
    ),
    Mutant(
        VERIFYING,
        "REDEEM",
        "coalesce(u.verified_at, now())",
        "auth.test_accounts.test_an_address_proven_otherwise_keeps_its_time",
        "now()",
    ),
    # a reset: once
    Mutant(
        RESETTING,
        "REDEEM_RESET",
        "redeemed_at IS NULL AND ",
        "auth.test_resetting.test_a_reset_is_redeemed_once",
    ),
    Mutant(
        RESETTING,
        "REDEEM_RESET",
        "superseded_at IS NULL AND ",
        "auth.test_resetting.test_a_redemption_that_waited_sees_what_happened_meanwhile",
    ),
    Mutant(
        RESETTING,
        "REDEEM_RESET",
        " AND expires_at > now()",
        "auth.test_resetting.test_an_expired_reset_changes_nothing",
    ),
    # codes: few tries, of the newest token, for ten minutes
    Mutant(
        CODES,
        "FIND_CODE",
        "u.email_canonical = %(canonical)s AND ",
        "auth.test_codes.test_a_code_serves_its_own_address_and_purpose",
    ),
    Mutant(
        CODES,
        "FIND_CODE",
        "t.purpose = 'verify_email' AND ",
        "auth.test_codes.test_a_code_serves_its_own_address_and_purpose",
    ),
    Mutant(
        CODES,
        "FIND_CODE",
        " DESC",
        "auth.test_codes.test_only_the_newest_redeemed_code_is_asked",
    ),
    Mutant(
        CODES,
        "TRY_CODE",
        "t.id = %(id)s AND ",
        "auth.test_codes.test_one_account_s_tries_are_not_another_s",
    ),
    Mutant(
        CODES,
        "TRY_CODE",
        "t.code_attempts < %(tries)s",
        "auth.test_codes.test_five_wrong_tries_end_the_code_and_never_the_link",
        "true",
    ),
    Mutant(
        CODES,
        "TRY_CODE",
        " AND t.expires_at > now()",
        "auth.test_codes.test_an_expired_token_has_no_code_even_if_redeemed",
    ),
    Mutant(
        CODES,
        "TRY_CODE",
        "WHERE m.token_id = t.id\n",
        "auth.test_codes.test_a_code_that_was_not_mailed_yet_is_none",
        "\n",
    ),
    Mutant(
        CODES,
        "TRY_CODE",
        "WHERE a.attempt->>'outcome' = 'unknown'",
        "auth.test_codes.test_a_code_gains_no_time_by_a_second_dispatch",
    ),
    Mutant(
        CODES,
        "TRY_CODE",
        "least(m.dispatched_at, u.dispatched_at)",
        "auth.test_codes.test_a_code_gains_no_time_by_a_second_dispatch",
        "coalesce(m.dispatched_at, u.dispatched_at)",
    ),
    Mutant(
        CODES,
        "TRY_CODE",
        "least(m.dispatched_at, u.dispatched_at)",
        "auth.test_codes.test_a_code_is_good_although_nobody_knows_whether_its_mail_left",
        "m.dispatched_at",
    ),
    Mutant(
        CODES,
        "TRY_CODE",
        "min((a.attempt",
        "auth.test_codes.test_a_code_is_good_although_nobody_knows_whether_its_mail_left",
        "max((a.attempt",
    ),
    Mutant(
        CODES,
        "TRY_CODE",
        " - %(lifetime)s",
        "auth.test_codes.test_a_code_is_good_for_ten_minutes_from_its_dispatch",
        " - 2 * %(lifetime)s::interval",
    ),
    Mutant(
        CODES,
        "FIND_CODE",
        " AND t.superseded_at IS NULL",
        "auth.test_codes.test_a_superseded_token_has_no_code_even_if_verified",
    ),
    # changes of an account
    Mutant(
        CHANGING,
        "LOCK",
        " FOR UPDATE",
        "auth.test_changing.test_a_change_waits_for_whoever_holds_the_account",
    ),
    Mutant(
        CHANGING,
        "MOVE",
        "WHERE id = %(id)s",
        "auth.test_changing.test_another_account_is_left_alone",
    ),
    Mutant(
        CHANGING,
        "MOVE",
        ", verified_at = NULL",
        "auth.test_changing.test_a_new_address_is_not_verified_and_gets_a_mail",
    ),
    Mutant(
        CHANGING,
        "SPELL",
        " WHERE id = %(id)s",
        "auth.test_changing.test_another_account_is_left_alone",
    ),
    Mutant(
        CHANGING,
        "CLOSE",
        " WHERE id = %(id)s",
        "auth.test_changing.test_another_account_is_left_alone",
    ),
    Mutant(
        ENQUEUEING,
        "SUPERSEDE_NOTES",
        " = 'account_exists:' || %(user_id)s::text",
        "auth.test_changing.test_another_account_is_left_alone",
        " IS NOT NULL",
    ),
    Mutant(
        ENQUEUEING,
        "SUPERSEDE_NOTES",
        "'account_exists:' || %(user_id)s::text",
        "auth.test_accounts.test_a_pending_note_is_superseded_as_a_pending_link_is",
        "%(user_id)s::text",
    ),
    Mutant(
        ENQUEUEING,
        "SUPERSEDE_NOTES",
        "AND m.status = 'pending'",
        "auth.test_changing.test_only_pending_notes_are_ended",
    ),
    # asking again: what has not left is replaced, what may have left is left alone
    Mutant(
        ISSUING,
        "UNFINISHED",
        "m.unknown_count = 0 AND ",
        "auth.test_sub_addresses.test_what_is_on_its_way_is_neither_ended_nor_sent_twice",
    ),
    Mutant(
        ISSUING,
        "UNFINISHED",
        " AND m.keyed_since IS NULL",
        "auth.test_sub_addresses.test_what_is_on_its_way_is_neither_ended_nor_sent_twice",
    ),
    Mutant(
        ISSUING,
        "UNFINISHED",
        "WHERE m.finished_at IS NULL",
        "auth.test_sub_addresses.test_what_has_left_holds_nobody_beyond_the_limits",
    ),
    Mutant(
        ISSUING,
        "UNFINISHED",
        "t.user_id = %(user_id)s AND ",
        "auth.test_sub_addresses.test_another_mail_on_its_way_holds_nobody",
    ),
    Mutant(
        ISSUING,
        "UNFINISHED",
        " AND t.purpose = %(purpose)s",
        "auth.test_sub_addresses.test_another_mail_on_its_way_holds_nobody",
    ),
    Mutant(
        ISSUING,
        "UNFINISHED",
        "t.redeemed_at IS NULL AND ",
        "auth.test_sub_addresses.test_a_mail_on_its_way_whose_link_is_over_holds_nobody",
    ),
    Mutant(
        ISSUING,
        "UNFINISHED",
        " AND t.superseded_at IS NULL",
        "auth.test_sub_addresses.test_a_mail_on_its_way_whose_link_is_over_holds_nobody",
    ),
    Mutant(
        ISSUING,
        "UNFINISHED",
        "note.producer = session_user\n      AND ",
        "auth.test_sub_addresses.test_another_producer_s_mail_under_a_note_s_scope_holds_nobody",
    ),
    Mutant(
        ISSUING,
        "UNFINISHED",
        " = 'account_exists:' || %(user_id)s::text",
        "auth.test_sub_addresses.test_another_mail_on_its_way_holds_nobody",
        " IS NOT NULL",
    ),
    Mutant(
        ISSUING,
        "UNFINISHED",
        "'account_exists:' || %(user_id)s::text",
        "auth.test_sub_addresses.test_what_is_on_its_way_is_neither_ended_nor_sent_twice",
        "%(user_id)s::text",
    ),
    Mutant(
        ENQUEUEING,
        "TAKE_PLACE",
        "m.available_at - interval '1 microsecond', ",
        "auth.test_sub_addresses.test_what_takes_the_place_of_a_mail_that_was_put_off_is_due",
    ),
    Mutant(
        ENQUEUEING,
        "TAKE_PLACE",
        " - interval '1 microsecond'",
        "auth.test_sub_addresses.test_what_takes_a_mail_s_place_waits_as_long_as_that_did",
    ),
    Mutant(
        ENQUEUEING,
        "TAKE_PLACE",
        ", %(waits_since)s::timestamptz",
        "auth.test_sub_addresses.test_what_takes_a_mail_s_place_waits_as_long_as_that_did",
    ),
    Mutant(
        ENQUEUEING,
        "TAKE_PLACE",
        "WHERE m.id = %(id)s",
        "auth.test_sub_addresses.test_what_takes_a_mail_s_place_waits_as_long_as_that_did",
    ),
    # counted windows
    Mutant(
        LIMITS,
        "SPENT",
        "held.window_ends_at > now() AND ",
        "auth.test_limits.test_a_used_up_window_holds_until_its_end",
    ),
    Mutant(
        LIMITS,
        "SPENT",
        " AND held.used >= w.most",
        "auth.test_limits.test_a_used_up_window_holds_until_its_end",
    ),
    Mutant(
        LIMITS,
        "SPENT",
        " NULLS LAST",
        "auth.test_limits.test_a_window_without_a_message_holds_nobody",
    ),
    Mutant(
        LIMITS,
        "SPENT",
        "ON w.digest = held.limit_digest",
        "auth.test_limits.test_counted_windows_are_apart",
        "ON true",
    ),
    Mutant(
        LIMITS,
        "COUNT",
        "used = CASE WHEN held.window_ends_at > now() THEN held.used ELSE 0 END + excluded.used",
        "auth.test_limits.test_a_used_up_window_holds_until_its_end",
        "used = held.used + 1",
    ),
    Mutant(
        LIMITS,
        "COUNT",
        " + excluded.used",
        "auth.test_limits.test_what_counts_for_nothing_neither_holds_nor_begins_a_window",
        " + 1",
    ),
    Mutant(
        LIMITS,
        "COUNT",
        " AND held.used > 0",
        "auth.test_limits.test_what_counts_for_nothing_neither_holds_nor_begins_a_window",
    ),
    Mutant(
        LIMITS,
        "COUNT",
        f"window_ends_at = {IN_COUNTED}held.window_ends_at ELSE excluded.window_ends_at END",
        "auth.test_limits.test_a_counted_window_is_not_extended",
        "window_ends_at = excluded.window_ends_at",
    ),
    Mutant(
        LIMITS,
        "COUNT",
        "message_id = coalesce(excluded.message_id, held.message_id)",
        "auth.test_limits.test_a_used_up_window_answers_its_last_message",
        "message_id = coalesce(held.message_id, excluded.message_id)",
    ),
    Mutant(
        LIMITS,
        "COUNT",
        "message_id = coalesce(excluded.message_id, held.message_id)",
        "auth.test_limits.test_what_counts_for_nothing_neither_holds_nor_begins_a_window",
        "message_id = excluded.message_id",
    ),
    Mutant(
        EVENTS,
        "IS_PAST_RETENTION",
        " - %(retention)s",
        "auth.test_accounts.test_an_event_within_retention_that_is_not_there_is_unknown",
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_statement_of_the_accounts_without_its_guard_breaks_a_promise(
    mutant: Mutant,
    world: World,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = importlib.import_module(mutant.module)
    statement: str = getattr(module, mutant.statement)
    assert mutant.fragment in statement, "the guard is worded otherwise now"
    test: Callable[..., None] = load(mutant.test)
    wanted = inspect.signature(test).parameters
    arguments = {name: request.getfixturevalue(name) for name in wanted}
    monkeypatch.setattr(
        module, mutant.statement, statement.replace(mutant.fragment, mutant.replacement)
    )
    assert not passes(test, arguments), f"{mutant.test} does not miss the guard"
