"""Every guard in a statement is held by a test: take it out, and the named test fails.

A mutant is a statement with one condition removed or weakened. The test that promises the rule runs
against it, in this process, and must not pass.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from postlease.model import Accepted, Deferred, Throttled
from tests.integration.feedback.conftest import told_us
from tests.integration.retention.conftest import bucket
from tests.mutants.promises import arguments_of, load, passes

__all__ = ["bucket", "told_us"]  # fixtures

CLAIMING = "postlease.outbox.claiming"
LOOKING = "postlease.outbox.looking"
DISPATCHING = "postlease.outbox.dispatching"
RECORDING = "postlease.outbox.recording"
REAPING = "postlease.outbox.reaping"
SETTLING = "postlease.outbox.settling"
SUPPRESSION = "postlease.suppression.noting"
ENQUEUEING = "postlease.outbox.enqueueing"
WATCHING = "postlease.outbox.watching"
CLOSING = "postlease.gate.closing"
PACING = "postlease.gate.pacing"
RULING = "postlease.gate.ruling"
OPERATING = "postlease.outbox.operating"
RETRYING = "postlease.outbox.retrying"
FINDING = "postlease.outbox.finding"

USED_UP = "AND m.attempt_count - m.refunded_count < coalesce(m.max_attempts, %(max_attempts)s)"


@dataclass(frozen=True)
class Mutant:
    """module.statement with fragment replaced, and the test module and name that must fail."""

    module: str
    statement: str
    fragment: str
    test: str
    replacement: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        words = " ".join(self.fragment.split())
        return f"{self.statement} without {words[:60]}"


MUTANTS = [
    # claim: one owner at a time, most urgent first, no more than asked
    Mutant(
        CLAIMING,
        "CLAIM",
        "AND m.status = 'pending'",
        "test_claim.test_two_workers_cannot_claim_the_same_pending_row",
    ),
    Mutant(
        CLAIMING,
        "CLAIM",
        " SKIP LOCKED",
        "test_claim.test_a_claim_skips_rows_that_another_worker_is_claiming",
    ),
    Mutant(
        CLAIMING,
        "CLAIM",
        "FOR NO KEY UPDATE SKIP LOCKED",
        "test_claim.test_a_claim_skips_rows_that_another_worker_is_claiming",
    ),
    Mutant(
        CLAIMING,
        "CLAIM",
        "AND m.available_at <= now()",
        "test_claim.test_a_message_is_not_claimed_before_its_time",
    ),
    Mutant(
        CLAIMING,
        "CLAIM",
        "AND (m.reaped_count > 0) = %(suspects)s",
        "test_claim.test_what_a_lost_worker_held_is_claimed_alone",
    ),
    Mutant(
        CLAIMING,
        "CLAIM",
        "AND (m.available_at, m.id) > (class.floor_at, class.floor_id)",
        "test_claim.test_a_claim_starts_behind_its_floor",
    ),
    Mutant(
        CLAIMING,
        "CLAIM",
        "AND g.closed_at IS NOT NULL)\n    LIMIT %(slots)s",
        "test_claim.test_auth_mail_behind_ten_thousand_bulk_messages_leaves_with_the_next_claim",
        "AND g.closed_at IS NOT NULL)",
    ),
    Mutant(
        CLAIMING,
        "CLAIM",
        "AND m.priority = class.priority",
        "test_claim.test_auth_mail_behind_ten_thousand_bulk_messages_leaves_with_the_next_claim",
    ),
    Mutant(
        CLAIMING,
        "CLAIM",
        "ORDER BY m.available_at, m.id",
        "test_claim.test_a_class_is_claimed_oldest_first",
        "ORDER BY m.id",
    ),
    Mutant(
        CLAIMING,
        "CLAIM",
        "attempt_count = m.attempt_count + 1",
        "test_claim.test_a_claim_spends_the_attempt_before_anything_is_sent",
        "attempt_count = m.attempt_count",
    ),
    Mutant(
        LOOKING,
        "SUSPECTS_DUE",
        "AND m.status = 'pending'",
        "test_claim.test_what_a_lost_worker_held_is_claimed_alone",
    ),
    Mutant(
        LOOKING,
        "SUSPECTS_DUE",
        "AND m.reaped_count > 0",
        "test_claim.test_an_ordinary_message_is_no_suspect",
    ),
    # authorize: the fence, and each reason not to send
    Mutant(
        DISPATCHING,
        "AUTHORIZE",
        "AND m.lease_owner = asked.owner",
        "test_authorize.test_the_mark_needs_the_lease_owner",
    ),
    Mutant(
        DISPATCHING,
        "AUTHORIZE",
        "AND m.attempt_count = asked.attempt",
        "test_authorize.test_the_mark_needs_the_attempt",
    ),
    Mutant(
        DISPATCHING,
        "AUTHORIZE",
        "dispatched_at = CASE j.verdict WHEN 'go' THEN now() END,",
        "test_authorize.test_go_sets_the_mark_and_names_the_provider",
    ),
    Mutant(
        DISPATCHING,
        "AUTHORIZE",
        "WHEN h.expires_at <= now() THEN 'expired'",
        "test_authorize.test_a_message_that_is_over_its_time_is_not_sent",
    ),
    Mutant(
        DISPATCHING,
        "AUTHORIZE",
        "WHEN t.expires_at <= now() + %(token_life_left)s::interval THEN 'expired'",
        "test_authorize.test_token_expiry_is_checked_independently_of_delivery_retries",
    ),
    Mutant(
        DISPATCHING,
        "AUTHORIZE",
        "t.superseded_at IS NOT NULL OR t.redeemed_at IS NOT NULL",
        "test_authorize.test_a_mail_whose_token_was_replaced_or_used_is_stopped_while_sending",
        "t.redeemed_at IS NOT NULL",
        {"ended": "superseded_at"},
    ),
    Mutant(
        DISPATCHING,
        "AUTHORIZE",
        "t.superseded_at IS NOT NULL OR t.redeemed_at IS NOT NULL",
        "test_authorize.test_a_mail_whose_token_was_replaced_or_used_is_stopped_while_sending",
        "t.superseded_at IS NOT NULL",
        {"ended": "redeemed_at"},
    ),
    *(
        Mutant(DISPATCHING, "AUTHORIZE", fragment, f"test_authorize.{test}", replacement, given)
        for fragment, replacement, test, given in (
            (
                "WHEN h.is_baseless THEN 'superseded'",
                "",
                "test_a_note_that_an_account_exists_is_not_sent_when_it_is_gone",
                {"fate": "claimed"},
            ),
            (
                " AND m.template = 'account_exists' AND (",
                " AND (",
                "test_other_auth_mail_outlives_the_address_that_it_goes_to",
                {},
            ),
            (
                "m.priority = 0 AND m.template = 'account_exists' AND (",
                "m.template = 'account_exists' AND (",
                "test_a_producer_s_own_mail_of_that_name_needs_no_account",
                {},
            ),
            (
                'WHERE u.email_canonical = lower(m.to_addresses[1] COLLATE "C") COLLATE "default"',
                "LIMIT 1",
                "test_another_account_does_not_stand_for_one_that_is_gone",
                {},
            ),
            (
                'lower(m.to_addresses[1] COLLATE "C") COLLATE "default"',
                "m.to_addresses[1]",
                "test_a_note_to_an_account_that_is_there_is_sent",
                {"email": "Ada.I@Example.com"},
            ),
        )
    ),
    Mutant(
        DISPATCHING,
        "AUTHORIZE",
        "WHEN s.to_count = h.to_count THEN 'suppressed'",
        "test_authorize.test_a_suppressed_recipient_ends_the_message",
    ),
    Mutant(
        DISPATCHING,
        "AUTHORIZE",
        "FILTER (WHERE a.is_to)",
        "test_authorize.test_a_suppressed_copy_is_left_out_and_the_rest_goes",
    ),
    Mutant(
        DISPATCHING,
        "AUTHORIZE",
        "(s.expires_at IS NULL OR s.expires_at > now())",
        "test_authorize.test_a_suppression_that_ended_holds_nothing_back",
        "true",
    ),
    Mutant(
        DISPATCHING,
        "AUTHORIZE",
        "AND NOT (s.reason = 'complaint' AND h.priority = 0)",
        "test_authorize.test_a_complaint_does_not_suppress_auth_mail",
    ),
    Mutant(
        DISPATCHING,
        "AUTHORIZE",
        "AND NOT (s.reason = 'complaint' AND h.priority = 0)",
        "test_authorize.test_a_complaint_lets_no_auth_mail_pass_a_bounce",
        "AND h.priority > 0",
    ),
    Mutant(
        DISPATCHING,
        "AUTHORIZE",
        "WHERE s.address_digest = a.digest",
        "test_authorize.test_a_suppressed_address_strikes_nobody_else",
        "WHERE true",
    ),
    Mutant(
        DISPATCHING,
        "AUTHORIZE",
        "WHERE EXISTS (\n        SELECT FROM postlease.suppressions AS s\n        WHERE ",
        "test_authorize.test_an_address_that_is_listed_for_several_reasons_is_struck_once",
        "JOIN postlease.suppressions AS s ON (",
    ),
    Mutant(
        DISPATCHING,
        "AUTHORIZE",
        "WHEN h.lease_expires_at < now() + %(needed)s::interval THEN 'no_room'",
        "test_authorize.test_a_lease_without_room_for_the_call_hands_the_message_back",
    ),
    # record: the fence
    Mutant(
        RECORDING,
        "RECORD",
        "AND m.lease_owner = told.owner",
        "test_record.test_record_needs_the_lease_owner",
    ),
    Mutant(
        RECORDING,
        "RECORD",
        "AND m.attempt_count = told.attempt",
        "test_record.test_record_needs_the_attempt",
    ),
    *(
        Mutant(
            module,
            statement,
            f"        ORDER BY {name}.id\n",
            "test_record.test_a_batch_locks_in_the_order_of_ids_however_it_was_gathered",
            "",
            {"statement": statement},
        )
        for module, statement, name in (
            (DISPATCHING, "AUTHORIZE", "a"),
            (RECORDING, "RECORD", "t"),
        )
    ),
    Mutant(
        RECORDING,
        "RECORD",
        "refunded_count = m.refunded_count + h.refund,",
        "test_record.test_a_handed_back_message_is_due_at_once_and_lost_no_attempt",
    ),
    Mutant(
        RECORDING,
        "RECORD",
        "THEN now() + h.delay",
        "test_record.test_a_deferred_message_waits_and_keeps_its_count",
        "THEN now()",
    ),
    Mutant(
        RECORDING,
        "RECORDED_BEFORE",
        "'owner', (%(owners)s::text[])[array_position(%(ids)s::uuid[], m.id)],",
        "test_record.test_record_counts_nobody_else_s_entry_as_its_own",
    ),
    Mutant(
        RECORDING,
        "RECORDED_BEFORE",
        ",\n      'outcome', (%(outcomes)s::text[])[array_position(%(ids)s::uuid[], m.id)]",
        "test_record.test_record_changes_nothing_after_the_message_ended",
    ),
    # reaper: only what is over, each by its own rule
    Mutant(
        REAPING,
        "REAP_UNDISPATCHED",
        "AND m.lease_expires_at < now()",
        "test_reaper.test_the_reaper_leaves_a_running_lease_alone",
    ),
    Mutant(
        REAPING,
        "REAP_UNDISPATCHED",
        "AND m.dispatched_at IS NULL",
        "test_reaper.test_a_dispatched_message_waits_for_the_grace",
    ),
    Mutant(
        REAPING,
        "REAP_UNDISPATCHED",
        " SKIP LOCKED",
        "test_reaper.test_two_reapers_at_once_reap_each_message_once",
    ),
    Mutant(
        REAPING,
        "REAP_UNDISPATCHED",
        "reaped_count = m.reaped_count + 1,",
        "test_reaper.test_the_third_lost_worker_ends_the_message",
    ),
    Mutant(
        REAPING,
        "REAP_UNDISPATCHED",
        "refunded_count = m.refunded_count + 1,",
        "test_reaper.test_a_crashed_worker_s_lease_expires_without_an_operator_action",
    ),
    Mutant(
        REAPING,
        "REAP_DISPATCHED",
        " + %(grace)s::interval",
        "test_reaper.test_a_dispatched_message_waits_for_the_grace",
    ),
    Mutant(
        REAPING,
        "REAP_DISPATCHED",
        "AND m.dispatched_at IS NOT NULL",
        "test_reaper.test_what_was_never_dispatched_is_not_unknown",
    ),
    Mutant(
        REAPING,
        "REAP_DISPATCHED",
        "m.delivery = 'at_least_once'\n           AND ",
        "test_reaper.test_an_unknown_message_is_never_sent_again_where_at_most_once_is_asked",
    ),
    Mutant(
        REAPING,
        "REAP_DISPATCHED",
        "AND m.unknown_count = 0",
        "test_reaper.test_an_unknown_message_is_sent_again_once_where_at_least_once_is_asked",
    ),
    Mutant(
        REAPING,
        "REAP_DISPATCHED",
        USED_UP,
        "test_reaper.test_an_unknown_last_attempt_ends_the_message",
    ),
    Mutant(
        REAPING,
        "EXPIRE_WAITING",
        "AND m.status = 'pending'",
        "test_reaper.test_a_message_that_is_being_sent_does_not_expire_under_its_sender",
    ),
    Mutant(
        REAPING,
        "EXPIRE_WAITING",
        "AND m.expires_at <= now()",
        "test_reaper.test_a_message_whose_time_passed_before_its_turn_ends_expired_and_unsent",
    ),
    # the gate, and claims by name
    *(
        Mutant(CLAIMING, statement, "AND g.closed_at IS NOT NULL", test)
        for statement, test in (
            ("CLAIM", "test_claim.test_an_open_gate_lets_everything_be_claimed"),
            ("CLAIM_NAMED", "test_claim.test_an_open_gate_lets_everything_be_claimed"),
        )
    ),
    *(
        Mutant(
            CLAIMING,
            statement,
            "g.provider = %(provider)s AND ",
            "test_claim.test_another_provider_s_gate_closes_nothing",
        )
        for statement in ("CLAIM", "CLAIM_NAMED")
    ),
    Mutant(
        CLAIMING,
        "CLAIM",
        "WHERE NOT EXISTS",
        "test_claim.test_a_closed_gate_lets_nothing_be_claimed",
        "WHERE true OR NOT EXISTS",
    ),
    *(
        Mutant(CLAIMING, "CLAIM_PROBE", fragment, f"test_claim.{test}", replacement)
        for fragment, replacement, test in (
            (
                "AND m.id IS DISTINCT FROM %(avoid)s::uuid",
                "",
                "test_a_probe_passes_a_closed_gate_and_is_not_the_message_that_closed_it",
            ),
            (
                "ORDER BY picked.available_at, picked.id",
                "",
                "test_a_probe_is_what_waits_longest_whatever_its_class",
            ),
            (
                "        ORDER BY m.available_at, m.id\n",
                "        ORDER BY m.available_at DESC, m.id\n",
                "test_a_probe_is_what_waits_longest_whatever_its_class",
            ),
            (
                "AND m.available_at <= now()",
                "",
                "test_what_is_not_due_probes_nothing",
            ),
            (
                "AND (m.reaped_count > 0) = %(suspects)s",
                "",
                "test_a_suspect_probes_last",
            ),
            (
                "AND m.status = 'pending'\n          AND (m",
                "AND (m",
                "test_a_probe_is_what_waits_longest_whatever_its_class",
            ),
        )
    ),
    Mutant(
        CLAIMING,
        "CLAIM_NAMED",
        "AND m.status = 'pending'",
        "test_claim.test_messages_are_claimed_by_name_once",
    ),
    Mutant(
        CLAIMING,
        "CLAIM_NAMED",
        "AND m.available_at <= now()",
        "test_claim.test_naming_a_message_does_not_make_it_due",
    ),
    Mutant(
        CLAIMING,
        "CLAIM_NAMED",
        "AND m.reaped_count = 0",
        "test_claim.test_a_suspect_is_not_claimed_by_name",
    ),
    # room for attachments
    *(
        Mutant(CLAIMING, statement, fragment, f"test_room.{test}", replacement)
        for statement, fragment, replacement, test in (
            (
                "CLAIM",
                "WHERE summed.total <= %(room)s::bigint\n           OR",
                "WHERE",
                "test_a_claim_takes_the_first_ones_that_fit_together",
            ),
            (
                "CLAIM",
                "summed.total <= %(room)s::bigint",
                "true",
                "test_a_claim_takes_the_first_ones_that_fit_together",
            ),
            (
                "CLAIM",
                "WHERE summed.total <= %(room)s::bigint",
                "WHERE summed.bytes <= %(room)s::bigint",
                "test_a_claim_takes_the_first_ones_that_fit_together",
            ),
            (
                "CLAIM",
                "summed.total <= %(room)s::bigint",
                "summed.total <= %(room)s::bigint OR summed.bytes = 0",
                "test_what_does_not_fit_is_waited_for_by_all_behind_it",
            ),
            *(
                (
                    "CLAIM",
                    fragment,
                    replacement,
                    "test_what_needs_no_room_can_be_claimed_past_what_waits_for_some",
                )
                for fragment, replacement in (
                    ("AND (m.attachment_bytes = 0 OR NOT %(plain)s)", ""),
                    (" OR NOT %(plain)s", ""),
                )
            ),
            (
                "CLAIM",
                "OVER (ORDER BY due.priority, due.available_at, due.id)",
                "OVER (PARTITION BY due.priority ORDER BY due.available_at, due.id)",
                "test_what_does_not_fit_is_waited_for_by_all_behind_it",
            ),
            (
                "CLAIM",
                "OVER (ORDER BY due.priority, ",
                "OVER (ORDER BY ",
                "test_room_is_given_in_the_order_of_urgency_and_of_waiting",
            ),
            (
                "CLAIM",
                "due.priority, due.available_at, due.id",
                "due.priority, due.id",
                "test_room_is_given_in_the_order_of_urgency_and_of_waiting",
            ),
            (
                "CLAIM",
                "OR (summed.total = summed.bytes AND %(alone)s)",
                "",
                "test_what_is_larger_than_any_room_is_claimed_alone",
            ),
            (
                "CLAIM",
                "summed.total = summed.bytes AND %(alone)s",
                "%(alone)s",
                "test_what_is_larger_than_any_room_is_claimed_alone",
            ),
            (
                "CLAIM",
                "summed.total = summed.bytes AND %(alone)s",
                "summed.total = summed.bytes",
                "test_what_is_larger_than_any_room_is_claimed_alone",
            ),
            (
                "CLAIM_NAMED",
                "summed.total <= %(room)s::bigint",
                "true",
                "test_a_claim_by_name_takes_what_fits",
            ),
            (
                "CLAIM_NAMED",
                " AND %(alone)s",
                "",
                "test_a_claim_by_name_takes_what_is_larger_than_any_room_alone",
            ),
            (
                "CLAIM_PROBE",
                "OR (summed.total = summed.bytes AND %(alone)s)",
                "",
                "test_a_probe_may_be_of_any_size",
            ),
        )
    ),
    *(
        Mutant(LOOKING, "HELD_UP", fragment, f"test_room.{test}", replacement)
        for fragment, replacement, test in (
            (
                "AND m.attachment_bytes > %(room)s",
                "AND m.attachment_bytes >= %(room)s",
                "test_among_those_that_do_not_fit_the_one_that_waits_longest_is_held_up",
            ),
            (
                "ORDER BY m.available_at, m.id",
                "ORDER BY m.priority, m.available_at, m.id",
                "test_among_those_that_do_not_fit_the_one_that_waits_longest_is_held_up",
            ),
            *(
                (
                    fragment,
                    "",
                    "test_nobody_is_held_up_who_is_not_due_or_no_longer_waits_or_cost_a_worker",
                )
                for fragment in (
                    "AND m.status = 'pending'",
                    "AND m.available_at <= now()",
                    "AND m.reaped_count = 0",
                )
            ),
        )
    ),
    # asking again under the same key
    *(
        Mutant(REAPING, "REAP_KEYED", fragment, f"test_keys.{test}", replacement)
        for fragment, test, replacement in (
            (
                "AND m.dispatched_at IS NOT NULL",
                "test_what_was_never_dispatched_has_nothing_to_ask_for",
                "",
            ),
            (
                "AND m.provider = %(provider)s",
                "test_a_message_of_another_provider_is_not_asked_again",
                "",
            ),
            ("AND m.lease_expires_at < now()", "test_a_running_lease_is_not_asked_again", ""),
            (
                "AND coalesce(m.keyed_since, m.dispatched_at) > now() - %(key_lifetime)s::interval",
                "test_a_key_that_is_too_old_is_not_asked_again",
                "",
            ),
            (
                USED_UP,
                "test_a_last_attempt_is_not_asked_again",
                "",
            ),
            (
                "keyed_since = coalesce(m.keyed_since, m.dispatched_at)",
                "test_a_key_counts_from_its_first_call",
                "keyed_since = m.dispatched_at",
            ),
        )
    ),
    *(
        Mutant(
            DISPATCHING,
            "AUTHORIZE",
            fragment,
            "test_keys.test_a_lost_key_leaves_the_decision_to_the_policy",
            "false",
            {"delivery": "at_most_once", "word": "outcome_unknown", "lost": lost},
        )
        for fragment, lost in (
            ("NOT %(keeps_keys)s", "keys"),
            ("m.provider <> %(provider)s", "provider"),
            ("m.keyed_since <= now() - %(key_lifetime)s::interval", "age"),
        )
    ),
    Mutant(
        DISPATCHING,
        "AUTHORIZE",
        " AND m.unknown_count = 0 AS may_repeat",
        "test_keys.test_a_lost_key_is_not_repeated_twice",
        " AS may_repeat",
    ),
    Mutant(
        RECORDING,
        "RECORD",
        "keyed_since = CASE h.status WHEN 'pending' THEN m.keyed_since END,",
        "test_keys.test_an_answer_about_another_call_does_not_settle_the_first",
        "keyed_since = NULL,",
    ),
    # the provider's event: only what was open, and so that the worker's record counts
    *(
        Mutant(SETTLING, "SETTLE_ACCEPTED", fragment, f"test_settling.{test}", replacement, given)
        for fragment, replacement, test, given in (
            (
                "AND (m.status = 'sending' AND m.attempt_count = %(attempt)s\n",
                "AND (m.attempt_count = %(attempt)s\n",
                "test_an_event_behind_the_record_changes_nothing",
                {},
            ),
            (
                "AND (m.status = 'sending' AND m.attempt_count = %(attempt)s\n",
                "AND (m.status = 'sending'\n",
                "test_an_event_of_an_attempt_that_is_not_open_changes_nothing",
                {"attempt": 3},
            ),
            (
                "AND (m.status = 'sending' AND m.attempt_count = %(attempt)s\n",
                "AND (false\n",
                "test_an_event_ends_what_is_being_sent",
                {},
            ),
            (
                "'attempt', %(attempt)s::integer, 'outcome', 'unknown'))",
                "'attempt', %(attempt)s::integer))",
                "test_an_event_of_an_attempt_that_is_not_open_changes_nothing",
                {"attempt": 1},
            ),
            (
                "'attempt', %(attempt)s::integer, 'outcome', 'unknown'))",
                "'outcome', 'unknown'))",
                "test_an_event_of_an_attempt_that_was_never_made_changes_nothing",
                {},
            ),
            *(
                ("AND m.status <> 'sent'", f"AND m.status NOT IN ('sent', {left_out})", test, given)
                for left_out, test, given in (
                    (
                        "'pending'",
                        "test_an_unknown_message_that_waits_is_sent_by_its_event_and_not_claimed_again",
                        {},
                    ),
                    ("'sending'", "test_a_message_that_was_claimed_again_is_not_sent_again", {}),
                    ("'failed'", "test_an_unknown_message_that_failed_is_sent_by_its_event", {}),
                )
            ),
            (
                "AND m.status <> 'sent'",
                "AND (m.status <> 'sending' OR m.dispatched_at IS NULL)",
                "test_an_older_event_ends_a_message_whose_newer_call_has_left",
                {},
            ),
            (
                "AND m.status <> 'sent'",
                "",
                "test_an_older_event_ends_a_message_whose_newer_call_has_left",
                {},
            ),
            (
                "WHEN m.status = 'sending' AND m.dispatched_at IS NOT NULL\n",
                "WHEN false\n",
                "test_an_older_event_ends_a_message_whose_newer_call_has_left",
                {},
            ),
            (
                "WHEN m.status = 'sending' AND m.dispatched_at IS NOT NULL\n",
                "WHEN m.status = 'sending'\n",
                "test_a_message_that_was_claimed_again_is_not_sent_again",
                {},
            ),
            *(
                (
                    "AND m.status <> 'sent'",
                    "AND coalesce(m.failure_reason, 'outcome_unknown') = 'outcome_unknown'",
                    "test_an_unknown_message_that_ended_for_another_reason_is_sent_by_its_event",
                    {"reason": reason},
                )
                for reason in ("expired", "worker_lost", "attempts_exhausted", "rejected")
            ),
            (
                "AND m.status <> 'sent'",
                "AND m.status <> 'sent' AND m.failure_reason IS DISTINCT FROM 'superseded'",
                "test_an_unknown_mail_that_a_newer_one_replaced_is_sent_by_its_event",
                {},
            ),
            (
                "'attempt', %(attempt)s::integer, 'outcome', 'unknown'))",
                "'attempt', %(attempt)s::integer))",
                "test_a_message_that_failed_and_was_never_unknown_is_not_sent_by_an_event",
                {},
            ),
            *(
                (
                    f'@.outcome == "unknown").{column}\'',
                    f'@.outcome == "none").{column}\'',
                    "test_an_unknown_message_that_ended_for_another_reason_is_sent_by_its_event",
                    {"reason": "rejected"},
                )
                for column in ("dispatched_at", "provider")
            ),
            (
                "WHERE m.id = %(message_id)s",
                "WHERE true",
                "test_an_event_of_a_message_that_is_gone_or_never_was_changes_nothing",
                {},
            ),
            (
                "postlease.attempts_kept(m.attempts)",
                "m.attempts",
                "test_the_last_twenty_entries_are_kept",
                {},
            ),
            (
                "'outcome', 'accepted', 'code', 'event', 'ended_at', now(),",
                "'owner', 'event', 'outcome', 'accepted', 'code', 'event', 'ended_at', now(),",
                "test_a_late_worker_finds_its_attempt_recorded_and_changes_nothing",
                {},
            ),
        )
    ),
    # the suppression list: the same whatever the order of the events, however often each comes
    *(
        Mutant(SUPPRESSION, statement, fragment, f"feedback.test_suppressing.{test}", replacement)
        for statement, fragment, replacement, test in (
            (
                "SUPPRESS",
                "least(%(at)s::timestamptz, now()) + %(lifetime)s::interval > now()",
                "true",
                "test_a_bounce_of_long_ago_suppresses_nobody",
            ),
            *(
                (
                    "SUPPRESS",
                    "WHERE coalesce(EXCLUDED.expires_at, 'infinity') > s.expires_at\n",
                    "",
                    test,
                )
                for test in (
                    "test_a_doubled_bounce_changes_nothing",
                    "test_an_entry_without_an_end_is_not_shortened",
                )
            ),
            (
                "SUPPRESS_OFTEN",
                "WHERE coalesce(EXCLUDED.expires_at, 'infinity') > s.expires_at\n",
                "",
                "test_soft_bounces_do_not_shorten_what_a_hard_one_began",
            ),
            (
                "SUPPRESS_OFTEN",
                "AND b.happened_at > now() - %(window)s::interval",
                "",
                "test_soft_bounces_out_of_the_window_do_not_count",
            ),
            (
                "SUPPRESS_OFTEN",
                "HAVING count(*) >= %(limit)s",
                "",
                "test_the_fifth_soft_bounce_suppresses",
            ),
            (
                "SUPPRESS_OFTEN",
                "WHERE b.address_digest = ANY (%(digests)s::bytea[])",
                "WHERE true",
                "test_one_event_suppresses_nobody_whom_it_does_not_name",
            ),
            (
                "FORGIVE",
                "WHERE b.address_digest = ANY (%(digests)s::bytea[])",
                "WHERE true",
                "test_a_delivery_forgets_the_soft_bounces_before_it",
            ),
            (
                "FORGIVE",
                "AND b.happened_at <= least(%(at)s::timestamptz, now())",
                "",
                "test_a_delivery_forgets_the_soft_bounces_before_it",
            ),
        )
    ),
    *(
        Mutant(
            SUPPRESSION,
            "SUPPRESS",
            fragment,
            "feedback.test_suppressing."
            "test_an_entry_that_ended_or_ends_earlier_is_replaced_by_one_of_its_reason",
            replacement,
            {"kind": "Complaint", "reason": "complaint", "ends_in": timedelta(days=days)},
        )
        for fragment, replacement in (
            ("coalesce(EXCLUDED.expires_at, 'infinity')", "EXCLUDED.expires_at"),
            ("'infinity')", "now())"),
            ("SET expires_at = EXCLUDED.expires_at", "SET expires_at = s.expires_at"),
        )
        for days in ((-1, 1) if "now" not in replacement else (1,))
    ),
    *(
        Mutant(
            SUPPRESSION,
            "PURGE",
            fragment,
            "retention.test_retention."
            "test_suppressions_that_ended_and_bounces_that_no_longer_count_leave",
            "WHERE true",
        )
        for fragment in (
            "WHERE old.happened_at <= now() - %(window)s::interval",
            "WHERE old.expires_at <= now()",
        )
    ),
    # an operator's verbs
    *(
        Mutant(
            RETRYING,
            "RETRY",
            fragment,
            f"messages.test_operating.{test}",
            replacement,
            arguments,
        )
        for fragment, test, replacement, arguments in (
            (
                "WHEN m.status <> 'failed' THEN 'not_failed'",
                "test_only_a_failed_message_is_retried",
                "",
                {"status": "sent"},
            ),
            (
                "WHEN m.redacted_at IS NOT NULL THEN 'redacted'",
                "test_a_redacted_message_is_not_retried",
                "",
                {},
            ),
            (
                "WHEN m.failure_reason = 'superseded' THEN 'superseded'",
                "test_a_message_that_a_newer_one_replaced_is_not_retried",
                "",
                {},
            ),
            (
                "t.superseded_at IS NOT NULL OR ",
                "test_a_mail_whose_token_was_replaced_or_used_is_not_retried",
                "",
                {"ended": "superseded_at"},
            ),
            (
                " OR t.redeemed_at IS NOT NULL",
                "test_a_mail_whose_token_was_replaced_or_used_is_not_retried",
                "",
                {"ended": "redeemed_at"},
            ),
            (
                "WHEN m.expires_at <= now() THEN 'expired'",
                "test_a_message_past_its_time_is_not_retried",
                "",
                {},
            ),
            (
                "WHEN t.expires_at <= now() + %(token_life_left)s::interval THEN 'expired'",
                "test_a_mail_whose_link_is_over_is_not_retried",
                "WHEN t.expires_at <= now() THEN 'expired'",
                {},
            ),
            ("FOR NO KEY UPDATE OF m", "test_two_operators_at_once_retry_a_message_once", "", {}),
            ("WHERE m.id = %(id)s", "test_one_message_is_retried_and_no_other", "", {}),
            *(
                (
                    fragment,
                    "test_a_retried_message_has_all_its_attempts_and_a_key_of_its_own",
                    "",
                    {},
                )
                for fragment in (
                    "retry_count = m.retry_count + 1,",
                    "refunded_count = m.attempt_count,",
                    "unknown_count = 0,",
                    "reaped_count = 0,",
                    "blocked_at = NULL,",
                    "keyed_since = NULL,",
                )
            ),
        )
    ),
    *(
        Mutant(
            OPERATING,
            "RESOLVE",
            fragment,
            f"messages.test_operating.{test}",
            replacement,
            arguments,
        )
        for fragment, test, replacement, arguments in (
            (
                " AND m.lease_expires_at < now()",
                "test_a_message_under_a_running_lease_is_not_resolved",
                "",
                {},
            ),
            (
                "%(as_sent)s OR m.lease_expires_at + %(grace)s::interval < now()",
                "test_a_message_whose_caller_may_be_alive_is_not_resolved_as_failed",
                "true",
                {},
            ),
            (
                " + %(grace)s::interval < now()",
                "test_a_message_whose_caller_may_be_alive_is_not_resolved_as_failed",
                " < now()",
                {},
            ),
            (
                "%(as_sent)s OR m.lease_expires_at + %(grace)s::interval < now()",
                "test_a_message_that_was_sent_unheard_is_resolved_by_an_operator_s_word",
                "%(as_sent)s",
                {"as_sent": False},
            ),
            (
                "%(as_sent)s OR m.lease_expires_at",
                "test_a_message_is_resolved_as_sent_from_its_lease_s_end_on",
                "m.lease_expires_at",
                {},
            ),
            (
                " AND m.dispatched_at IS NOT NULL",
                "test_a_message_that_never_left_is_not_resolved",
                "",
                {},
            ),
            (
                """m.status = 'failed' AND m.attempts @> '[{"outcome": "unknown"}]'""",
                "test_a_message_whose_outcome_is_known_is_not_resolved",
                "m.status = 'failed'",
                {"status": "failed"},
            ),
            *(
                (
                    """m.status = 'failed' AND m.attempts @> '[{"outcome": "unknown"}]'""",
                    "test_a_message_whose_outcome_is_known_is_not_resolved",
                    """m.attempts @> '[]'""",
                    {"status": status},
                )
                for status in ("pending", "sent")
            ),
            *(
                (
                    fragment,
                    "test_a_message_that_failed_later_than_it_became_unknown_is_resolved",
                    replacement,
                    {"as_sent": as_sent},
                )
                for fragment, replacement, as_sent in (
                    (
                        """m.attempts @> '[{"outcome": "unknown"}]'""",
                        "m.failure_reason = 'outcome_unknown'",
                        False,
                    ),
                    ("coalesce(m.failure_reason, 'outcome_unknown')", "'outcome_unknown'", False),
                    (
                        "held.newest_unknown || jsonb_build_object(",
                        "m.attempts -> -1 || jsonb_build_object(",
                        True,
                    ),
                    ("THEN held.newest_unknown ->> 'provider'", "THEN m.provider", True),
                    (
                        "THEN (held.newest_unknown ->> 'dispatched_at')::timestamptz",
                        "THEN m.dispatched_at",
                        True,
                    ),
                )
            ),
            (
                '? (@.outcome == "unknown")\') -> -1 AS',
                "test_of_several_unknown_attempts_the_newest_is_resolved",
                '? (@.outcome == "unknown")\') -> 0 AS',
                {},
            ),
            (
                "postlease.attempts_kept(m.attempts)",
                "test_of_several_unknown_attempts_the_newest_is_resolved",
                "m.attempts",
                {},
            ),
            (
                "held.newest_unknown || jsonb_build_object(",
                "test_a_late_record_finds_a_failed_message_resolved_by_the_operator",
                "held.newest_unknown || jsonb_build_object('owner', 'operator',",
                {},
            ),
            (
                "FOR NO KEY UPDATE",
                "test_an_operator_does_not_overrule_a_record_that_came_first",
                "",
                {},
            ),
        )
    ),
    *(
        Mutant(
            FINDING,
            "SEARCH_UNFINISHED",
            fragment,
            "messages.test_operating.test_what_is_unknown_right_now_is_found",
            replacement,
        )
        for fragment, replacement in (
            ("       AND m.dispatched_at IS NOT NULL AND m.lease", "       AND m.lease"),
            (" AND m.lease_expires_at < now())", ")"),
            ("(NOT %(unknown)s OR m.status", "(true OR m.status"),
        )
    ),
    *(
        Mutant(FINDING, "SEARCH", fragment, f"messages.test_operating.{test}")
        for fragment, test in (
            ("AND m.id < %(below)s", "test_a_page_is_continued_below_its_last_message"),
            (
                "AND m.created_at >= %(created_from)s::timestamptz",
                "test_messages_are_found_by_the_time_they_were_made",
            ),
            (
                "AND m.created_at < %(created_before)s::timestamptz",
                "test_messages_are_found_by_the_time_they_were_made",
            ),
            (
                "AND (%(status)s::text IS NULL OR m.status = %(status)s)",
                "test_messages_are_found_by_status_reason_and_template",
            ),
            (
                "AND (%(reason)s::text IS NULL OR m.failure_reason = %(reason)s)",
                "test_messages_are_found_by_status_reason_and_template",
            ),
            (
                "AND (%(template)s::text IS NULL OR m.template = %(template)s)",
                "test_messages_are_found_by_status_reason_and_template",
            ),
        )
    ),
    # the gate: an operator's word
    *(
        Mutant(module, statement, fragment, f"test_gate_ruling.{test}", replacement, arguments)
        for module, statement, fragment, test, replacement, arguments in (
            (
                CLOSING,
                "OPEN",
                "  AND NOT g.is_paused\n",
                "test_no_answer_opens_a_gate_that_an_operator_paused",
                "",
                {"answer": Accepted("p-1")},
            ),
            (
                RULING,
                "PAUSE",
                "is_paused = true,",
                "test_a_pause_outlasts_the_probe_that_was_under_way",
                "",
                {"was_closed": True},
            ),
            (
                RULING,
                "PAUSE",
                "    closed_at = now(),\n",
                "test_a_pause_closes_anew_what_was_closed",
                "",
                {},
            ),
            (
                RULING,
                "RELEASE",
                "    failures_in_a_row = 0,\n",
                "test_an_operator_opens_whatever_closed_the_gate",
                "",
                {"closed": "pause"},
            ),
            (
                RULING,
                "RELEASE",
                "    pause = %(pause)s::interval,\n",
                "test_an_opening_forgets_how_long_probes_waited",
                "",
                {},
            ),
        )
    ),
    # the gate: closing, probes, pace
    *(
        Mutant(CLOSING, statement, fragment, f"test_gate.{test}", replacement, arguments)
        for statement, fragment, test, replacement, arguments in (
            (
                "TAKE_PROBE",
                " AND g.probe_at <= now()",
                "test_probes_go_one_an_interval_and_intervals_double_to_ten_minutes",
                "",
                {},
            ),
            (
                "TAKE_PROBE",
                "SET probe_at = now() + least(g.pause * 2, %(longest)s::interval),\n    pause",
                "test_of_many_that_reach_for_the_probe_at_once_one_gets_it",
                "SET pause",
                {},
            ),
            (
                "TAKE_PROBE",
                "pause = least(g.pause * 2, %(longest)s::interval),",
                "test_probes_go_one_an_interval_and_intervals_double_to_ten_minutes",
                "",
                {},
            ),
            (
                "TAKE_PROBE",
                "g.provider = %(provider)s AND ",
                "test_one_provider_s_gate_is_not_another_s",
                "",
                {},
            ),
            (
                "OPEN",
                "g.provider = %(provider)s\n",
                "test_one_provider_s_gate_is_not_another_s",
                "true\n",
                {},
            ),
            (
                "OPEN",
                "pause = %(pause)s::interval,",
                "test_any_answer_opens_the_gate_and_forgets_the_pause",
                "",
                {"answer": Accepted("p-1")},
            ),
            (
                "OPEN",
                "OR g.closed_at IS NULL\n          AND (",
                "test_an_answer_in_good_times_writes_nothing",
                "OR g.closed_at IS NULL\n          AND (true OR ",
                {"answer": Deferred("busy")},
            ),
            (
                "OPEN",
                "OR g.closed_at IS NULL\n          AND",
                "test_an_answer_to_a_call_from_before_the_closing_opens_nothing",
                "OR",
                {"answer": Accepted("p-1")},
            ),
            (
                "OPEN",
                "g.closed_at <= c.began_at",
                "test_an_answer_to_a_call_from_before_the_closing_opens_nothing",
                "g.closed_at IS NOT NULL",
                {"answer": Accepted("p-1")},
            ),
            (
                "OPEN",
                "g.failures_in_a_row > 0\n",
                "test_one_answer_in_between_begins_the_count_anew",
                "false\n",
                {"answer": Deferred("busy")},
            ),
            (
                "OPEN",
                "%(accepted)s AND coalesce",
                "test_an_answer_in_good_times_writes_nothing",
                "coalesce",
                {"answer": Deferred("busy")},
            ),
            (
                "OPEN",
                "<= c.began_at - %(often)s::interval",
                "test_an_acceptance_in_good_times_is_noted_every_ten_seconds",
                "<= c.began_at",
                {},
            ),
            (
                "OPEN",
                "greatest(g.accepted_at, c.began_at)",
                "test_an_acceptance_in_good_times_is_noted_every_ten_seconds",
                "now()",
                {},
            ),
            (
                "OPEN",
                "greatest(g.accepted_at, c.began_at)",
                "test_an_older_acceptance_that_is_told_later_takes_nothing_back",
                "c.began_at",
                {},
            ),
            (
                "OPEN",
                "CASE WHEN %(accepted)s\n",
                "test_a_throttled_or_refused_probe_is_no_acceptance",
                "CASE WHEN true\n",
                {"answer": Throttled("rate")},
            ),
            (
                "OPEN",
                "failures_in_a_row = 0,",
                "test_one_answer_in_between_begins_the_count_anew",
                "",
                {"answer": Accepted("p-1")},
            ),
            (
                "CLOSE",
                "WHERE g.closed_at IS NULL",
                "test_only_the_first_of_several_closes_the_gate",
                "",
                {},
            ),
            (
                "CLOSE",
                "coalesce(g.accepted_at > (\n    SELECT m.blocked_at",
                "test_a_closing_says_whether_others_passed_since_its_message_s_last_one",
                "coalesce(now() > (\n    SELECT m.blocked_at",
                {"accepted_ago": 12, "others_pass": False},
            ),
            (
                "CLOSE",
                "WHERE m.id = %(message_id)s AND",
                "test_a_closing_says_whether_others_passed_since_its_message_s_last_one",
                "WHERE m.id <> %(message_id)s AND",
                {"accepted_ago": 12, "others_pass": False},
            ),
            (
                "CLOSE",
                "%(provider)s || ' ' || %(reason)s",
                "test_another_provider_s_answer_or_another_answer_is_another_trouble",
                "'smtp ' || %(reason)s",
                {"by": "smtp identity"},
            ),
            (
                "CLOSE",
                " AND m.blocked_as = %(provider)s || ' ' || %(reason)s",
                "test_another_provider_s_answer_or_another_answer_is_another_trouble",
                "",
                {"by": "ses sending_paused"},
            ),
            (
                "COUNT_FAILURE",
                "WHERE g.closed_at IS NULL",
                "test_five_calls_in_a_row_that_reach_nobody_close_the_gate_over_all_workers",
                "",
                {},
            ),
            (
                "COUNT_FAILURE",
                "WHERE g.failures_in_a_row + 1 >= %(limit)s",
                "test_five_calls_in_a_row_that_reach_nobody_close_the_gate_over_all_workers",
                "",
                {},
            ),
            (
                "LOOK",
                "AND g.probe_at <= now()",
                "test_probes_go_one_an_interval_and_intervals_double_to_ten_minutes",
                "",
                {},
            ),
        )
    ),
    *(
        Mutant(PACING, statement, fragment, f"test_gate.{test}", replacement, arguments)
        for statement, fragment, test, replacement, arguments in (
            (
                "RESERVE",
                " AND s.at <= now() + %(within)s::interval",
                "test_what_lies_too_far_ahead_is_not_reserved",
                "",
                {},
            ),
            (
                "RESERVE",
                "    FOR NO KEY UPDATE\n",
                "test_a_reservation_waits_for_the_one_before_it",
                "",
                {},
            ),
            (
                "RESERVE",
                "%(recipients)s * s.spacing",
                "test_slots_follow_one_another_by_recipients_over_two_workers",
                "s.spacing",
                {},
            ),
            (
                "RESERVE",
                "greatest(h.rate / 10, 1)",
                "test_a_silence_is_followed_by_a_tenth_of_a_second_s_rate_at_most",
                "greatest(h.rate, 1)",
                {"rate": 14},
            ),
            (
                "RESERVE",
                "least(g.limit_per_second, g.rate_per_second * ",
                "test_a_rate_that_was_too_high_is_halved_once_for_a_burst_and_comes_back",
                "(g.rate_per_second * ",
                {},
            ),
            (
                "RESERVE",
                "CASE WHEN s.rate > s.old_rate THEN now() ELSE g.rate_changed_at END",
                "test_a_rate_that_was_too_high_is_halved_once_for_a_burst_and_comes_back",
                "g.rate_changed_at",
                {},
            ),
            (
                "HALVE_RATE",
                "AND g.rate_changed_at <= now() - %(burst)s::interval",
                "test_a_rate_that_was_too_high_is_halved_once_for_a_burst_and_comes_back",
                "",
                {},
            ),
            (
                "HALVE_RATE",
                "greatest(g.rate_per_second / 2, least(g.limit_per_second, 1))",
                "test_a_rate_is_not_halved_below_one_a_second_or_the_limit",
                "g.rate_per_second / 2",
                {"limit": 14, "least": 1},
            ),
            (
                "HALVE_RATE",
                "AND g.throttled_by IS DISTINCT FROM %(message_id)s",
                "test_one_message_that_is_refused_whenever_it_comes_halves_the_rate_once",
                "",
                {},
            ),
            (
                "HALVE_RATE",
                "throttled_by = %(message_id)s,",
                "test_one_message_that_is_refused_whenever_it_comes_halves_the_rate_once",
                "",
                {},
            ),
            (
                "HALVE_RATE",
                "g.provider = %(provider)s\n  AND ",
                "test_one_provider_s_gate_is_not_another_s",
                "",
                {},
            ),
            (
                "SET_LIMIT",
                "g.rate_per_second < g.limit_per_second AND ",
                "test_a_new_limit_is_used_at_once_but_a_halved_rate_stays",
                "",
                {},
            ),
        )
    ),
    Mutant(
        RECORDING,
        "RECORD",
        "WHEN h.closing THEN now() ELSE m.blocked_at END",
        "test_record.test_when_a_message_last_closed_the_gate_is_kept",
        "WHEN m.blocked_at IS NULL AND h.closing THEN now() ELSE m.blocked_at END",
    ),
    Mutant(
        RECORDING,
        "RECORD",
        "h.code ELSE m.blocked_as END",
        "test_record.test_when_a_message_last_closed_the_gate_is_kept",
        "h.code WHEN m.blocked_at IS NOT NULL THEN 'another' END",
    ),
    # supersede and look up
    Mutant(
        ENQUEUEING,
        "SUPERSEDE",
        "AND m.status = 'pending'",
        "test_enqueue.test_superseding_leaves_what_is_being_sent_or_finished_alone",
    ),
    Mutant(
        WATCHING,
        "EVENT_STATE",
        " AND m.priority = 0",
        "test_reaper.test_only_messages_of_the_auth_api_have_a_public_state",
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
