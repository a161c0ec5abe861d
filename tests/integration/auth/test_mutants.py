"""Every guard of the accounts' statements is held by a test: take it out, and that test fails."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING

import pytest

from tests.mutants.test_statement_mutants import Mutant, load, passes

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.auth.conftest import World

IDEMPOTENCY = "postlease.idempotency"
LIMITS = "postlease.limits"
GROUND = "postlease.accounts.ground"
SIGNING_UP = "postlease.accounts.signing_up"
ISSUING = "postlease.accounts.issuing"
VERIFYING = "postlease.accounts.verifying"
EVENTS = "postlease.accounts.events"

IN_WINDOW = "CASE WHEN held.window_ends_at > now()\n        THEN "

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
        "WHERE limit_digest = %(digest)s",
        "auth.test_limits.test_mailboxes_do_not_share_a_cooldown",
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
        SIGNING_UP,
        "LOCK_BY_ADDRESS",
        "FOR NO KEY UPDATE",
        "auth.test_accounts.test_a_resend_waits_for_whoever_changes_the_user_and_sees_the_change",
    ),
    Mutant(
        SIGNING_UP,
        "LOCK_BY_ADDRESS",
        "WHERE email_canonical = %(canonical)s",
        "auth.test_accounts.test_a_resend_for_an_unknown_address_stores_the_cooldown_alone",
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
        " AND purpose = %(purpose)s",
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
        VERIFYING,
        "FIND",
        " AND t.purpose = 'verify_email'",
        "auth.test_accounts.test_a_reset_token_verifies_nothing",
    ),
    Mutant(
        VERIFYING,
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
