"""Every guard of retention's statements is held by a test: take it out, and the test fails."""

from __future__ import annotations

import importlib

import pytest

from tests.integration.retention.conftest import bucket
from tests.integration.retention.test_archiving import killed
from tests.mutants.promises import arguments_of, load, passes
from tests.mutants.test_statement_mutants import Mutant

__all__ = ["bucket", "killed"]  # fixtures

ARCHIVING = "postlease.outbox.archiving"
REDACTING = "postlease.outbox.redacting"
PURGING = "postlease.outbox.purging"
SPENDING = "postlease.retention.spending"
DUTIES = "postlease.retention.duties"
ORPHANS = "postlease.attachments.orphans"

UNCHANGED = (
    "test_archiving.test_a_message_that_changes_while_its_file_is_written_is_kept_as_it_became"
)
WEEK_OLD = (
    "test_redacting.test_auth_mail_that_finished_a_week_ago_loses_parameters_names_and_addresses"
)
AUTH_ONLY = "test_redacting.test_mail_is_redacted_once_and_only_if_it_is_auth_mail"
WHEREVER = (
    "test_erasing."
    "test_pending_mail_is_cancelled_and_finished_mail_redacted_wherever_the_address_stands"
)
WAITED = "test_erasing_hard.test_mail_that_is_sent_while_the_erasure_waits_for_it_is_redacted"
LOST = (
    "test_erasing_hard."
    "test_a_run_that_lost_the_archive_s_lease_takes_no_file_away_that_another_wrote"
)
SENDING = "test_erasing.test_mail_that_is_being_sent_is_left_alone_and_told"
TOKENS = "test_redacting.test_a_token_leaves_a_month_after_its_end_and_after_its_message"
WAITING = "test_redacting.test_what_waits_for_more_than_a_day_is_counted_and_stays"
ADOPTED = "test_orphans.test_an_upload_that_nobody_took_in_a_day_leaves_by_version"
LEASED = "test_archiving.test_a_run_leaves_the_archive_to_another_that_has_its_lease"
ENDED = "test_archiving.test_a_chunk_that_another_run_ended_is_not_purged_again"

MUTANTS = [
    Mutant(module, statement, fragment, f"retention.{test}", replacement)
    for module, statement, fragment, test, replacement in (
        (ARCHIVING, "PURGE_CHUNK", "m.xmin::text = r.version\n      AND ", UNCHANGED, ""),
        (ARCHIVING, "CLOSE_CHUNK", "c.id = %(id)s", ENDED, "false"),
        (REDACTING, "REDACT", "m.priority = 0\n      AND ", AUTH_ONLY, ""),
        (REDACTING, "REDACT", "AND m.redacted_at IS NULL", AUTH_ONLY, ""),
        (REDACTING, "REDACT", "AND m.finished_at < now() - %(age)s::interval", WEEK_OLD, ""),
        (REDACTING, "REDACT", "recipient_names = '{}', reply_to = NULL,", WEEK_OLD, ""),
        (REDACTING, "ERASE", " AND m.status <> 'sending'", SENDING, ""),
        (REDACTING, "LOCK_THEIRS", "FOR NO KEY UPDATE OF m", WAITED, ""),
        (REDACTING, "LOCK_THEIRS", 'lower(a.address COLLATE "C") =', WHEREVER, "a.address ="),
        (
            REDACTING,
            "LOCK_THEIRS",
            'OR lower(m.reply_to COLLATE "C") ~ %(mention)s',
            WHEREVER,
            "",
        ),
        (REDACTING, "ERASE", "'erased:' || m.id", WHEREVER, "m.idempotency_key"),
        (REDACTING, "LOCK_THEIRS", "|| m.cc_addresses ||", WHEREVER, "||"),
        (
            SPENDING,
            "PURGE_TOKENS",
            "old.expires_at < now() - interval '30 days'\n      AND ",
            TOKENS,
            "",
        ),
        (SPENDING, "PURGE_TOKENS", "m.token_id = old.id", TOKENS, "false"),
        (PURGING, "OLD_PENDING", "AND m.available_at < now() - %(age)s::interval", WAITING, ""),
        (ORPHANS, "ORPHANS", "s.modified_at < now() - %(age)s::interval", ADOPTED, "true"),
        (ORPHANS, "ORPHANS", "a.storage_ref = s.key AND ", ADOPTED, "false AND "),
        (ORPHANS, "ORPHANS", " AND a.version_id = s.version", ADOPTED, ""),
        (DUTIES, "TAKE", "OR d.lease_expires_at < now()", LEASED, "OR true"),
        (DUTIES, "HOLD", " AND d.lease_owner = %(owner)s", LOST, ""),
    )
] + [
    Mutant(
        ARCHIVING,
        "OPEN_CHUNK",
        "LIMIT 1",
        "retention.test_archiving.test_killed_twice_nothing_is_lost_and_nothing_is_doubled",
        "LIMIT 0",
        {"first": "after the manifest", "second": "before the file"},
    )
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_retention_without_a_guard_breaks_a_promise(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, mutant: Mutant
) -> None:
    test = load(mutant.test)
    arguments = arguments_of(test, request, mutant.arguments)
    module = importlib.import_module(mutant.module)
    statement: str = getattr(module, mutant.statement)
    assert statement.count(mutant.fragment) == 1, "the fragment names one place"
    monkeypatch.setattr(
        module, mutant.statement, statement.replace(mutant.fragment, mutant.replacement)
    )
    assert not passes(test, arguments)
