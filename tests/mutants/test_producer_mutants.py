"""Every condition of the producers' functions is held by a test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.integration import test_enqueue_attachments as attaching
from tests.integration.test_enqueue import producer, producer_connections, producer_logins
from tests.mutants.promises import arguments_of, load, passes
from tests.mutants.test_function_mutants import REFUSALS, Mutant, mutate, refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["mutate", "producer", "producer_connections", "producer_logins"]  # fixtures

BATCHES = "test_enqueue_batches"
SCOPES = "test_enqueue_scopes"
ATTACHMENTS = "test_enqueue_attachments"
ARGUMENTS = "test_enqueue_arguments"
EARLIEST = "timestamptz '0001-01-02 00:00:00+00'"
LATEST = "'9999-12-30 00:00:00+00'"
ATTACHMENT = f"{ATTACHMENTS}.test_what_is_refused_of_an_attachment_is_named_and_not_repeated"


def refusals(function: str, cases: dict[str, str], replacement: str) -> Iterator[Mutant]:
    """A mutant for each fragment, which a row of the refused must miss."""
    for fragment, case in cases.items():
        yield Mutant(function, fragment, REFUSALS, replacement, refusal(case))


def attachment(members: dict[str, Any]) -> dict[str, Any]:
    """The arguments of one row of the refused attachments."""
    [constraint] = [rule for one, rule in attaching.REFUSED_MEMBERS if one == members]
    return {"members": members, "constraint": constraint}


MUTANTS = [
    *refusals(
        "broken_message",
        {
            "template !~ '^[a-z][a-z0-9_]{0,63}$'": "template with a path",
            "locale !~ '^[A-Za-z0-9-]{1,35}$'": "locale with a path",
            "jsonb_typeof(parameters) <> 'object'": "parameters a list",
            "delivery NOT IN ('at_least_once', 'at_most_once')": "delivery unknown",
            "expires_at <= send_at": "over before it leaves",
            "length(idempotency_key) NOT BETWEEN 1 AND 255": "key of 256 characters",
            "length(cancel_scope) NOT BETWEEN 1 AND 255": "scope empty",
            "postlease.broken_mailbox(from_address)": "from_address 'Canary'",
            "postlease.broken_mailbox(reply_to)": "reply_to 'Canary'",
            "names <> '{}'": "name of nobody",
            "tags <> '{}'": "tag empty",
        },
        "false",
    ),
    *refusals(
        "broken_message",
        {"array_ndims(to_addresses)": "two lines of addresses"},
        "1",
    ),
    *(
        Mutant(
            "broken_message", f"{member} BETWEEN {EARLIEST} AND {LATEST}", REFUSALS, change, case
        )
        for member, early, late in (
            ("send_at", "since a year before 1", "in the year 10000"),
            ("expires_at", "until a year before 1", "until the year 10000"),
        )
        for change, case in (
            (f"{member} >= {EARLIEST}", refusal(late)),
            (f"{member} <= {LATEST}", refusal(early)),
        )
    ),
    *refusals(
        "broken_message", {"expires_at <= send_at": "over when it leaves"}, "expires_at < send_at"
    ),
    *refusals(
        "broken_names",
        {
            "n.address <> ALL (SELECT lower(r.address) FROM unnest(recipients) AS r (address))": (
                "name of nobody"
            ),
            "jsonb_typeof(names) <> 'object'": "names a list",
            "length(n.name #>> '{}') > 100": "name of 101 characters",
        },
        "false",
    ),
    *refusals("broken_names", {"lower(r.address)": "name by an address in capitals"}, "r.address"),
    *refusals(
        "broken_names",
        {
            "jsonb_typeof(n.name) <> 'string' OR ": "name a number",
            "\\u2028": "name 'A\\u2028da'",
            "\\u2029": "name 'A\\u2029da'",
        },
        "",
    ),
    *refusals("broken_names", {"\\u0001-\\u001f": "name 'Ada\\n'"}, "\\u0001"),
    *refusals("broken_names", {"\\u007f-\\u009f": "name 'A\\x85da'"}, "\\u007f"),
    *refusals(
        "broken_tags",
        {
            "jsonb_typeof(tags) <> 'object'": "tags a list",
            "count(*) > 10": "eleven tags",
        },
        "false",
    ),
    *refusals(
        "broken_tags",
        {
            "t.name ~ '^[A-Za-z0-9_-]+$'": "tag named by an address",
            "length(t.name) <= 256": "tag with a name of 257 characters",
            "lower(t.name) NOT LIKE 'postlease-%'": "tag of ours",
            "t.value #>> '{}' ~ '^[A-Za-z0-9_-]+$'": "tag with an address",
            "length(t.value #>> '{}') <= 256": "tag of 257 characters",
            "jsonb_typeof(t.value) = 'string'": "tag a number",
        },
        "true",
    ),
    *refusals("broken_tags", {"lower(t.name)": "tag of ours in capitals"}, "t.name"),
    *refusals(
        "broken_mailbox",
        {
            "length(mailbox) > 512": (
                f"from_address {'Canary' + ' ' * 500 + '<canary@example.net>'!r}"
            ),
            "length(name) > 128": f"from_address {'C' * 129 + ' <canary@example.net>'!r}",
            "postlease.broken_content('{}', ARRAY[coalesce(parts[2], mailbox)]) IS NOT NULL": (
                "from_address 'Canary <canary>'"
            ),
        },
        "false",
    ),
    *refusals(
        "broken_mailbox",
        {
            "\\u2028-\\u202f": "from_address 'Canary\\u202e <canary@example.net>'",
            "\\u0001-\\u001f": "from_address 'Can\\x01ary <canary@example.net>'",
        },
        "",
    ),
    *(
        Mutant("broken_attachments", fragment, ATTACHMENT, "false", attachment(members))
        for fragment, members in (
            ("jsonb_typeof(a.one -> 'storage_ref') IS DISTINCT FROM 'string'", {"storage_ref": 1}),
            ("jsonb_typeof(a.one -> 'filename') IS DISTINCT FROM 'string'", {"filename": 1}),
            (
                "jsonb_typeof(a.one -> 'content_type') IS DISTINCT FROM 'string'",
                {"content_type": 1},
            ),
            ("jsonb_typeof(a.one -> 'version_id') NOT IN ('string', 'null')", {"version_id": 1}),
            ("jsonb_typeof(a.one -> 'size') IS DISTINCT FROM 'number'", {"size": "1"}),
            ("jsonb_typeof(a.one -> 'sha256') IS DISTINCT FROM 'string'", {"sha256": 1}),
            ("jsonb_typeof(a.one -> 'content_id') NOT IN ('string', 'null')", {"content_id": 1}),
            ("octet_length(a.one ->> 'storage_ref') > 1024", attaching.REFUSED_MEMBERS[-1][0]),
            ("a.one ->> 'version_id' !~ '^[\\u0021-\\u007e]+$'", {"version_id": "a b"}),
            ("length(a.one ->> 'version_id') > 1024", {"version_id": "v" * 1025}),
            ("length(a.one ->> 'filename') NOT BETWEEN 1 AND 255", {"filename": ""}),
            (
                "a.one ->> 'filename' ~ '[\\u0001-\\u001f\\u007f-\\u009f\\u2028\\u2029]'",
                {"filename": "canary\u2028.pdf"},
            ),
            ("(a.one ->> 'size')::numeric < 0", {"size": -1}),
            ("(a.one ->> 'size')::numeric % 1 <> 0", {"size": 1.5}),
            ("a.one ->> 'sha256' !~ '^[0-9A-Fa-f]{64}$'", {"sha256": "0g" * 32}),
            ("a.one ->> 'content_id' !~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'", {"content_id": "-a"}),
            ("sum((a.one ->> 'size')::numeric) > 28500000", {"size": 1e300}),
        )
    ),
    Mutant(
        "broken_attachments",
        "a.one ->> 'content_type'\n            !~",
        ATTACHMENT,
        "'x/y' !~",
        attachment({"content_type": "pdf"}),
    ),
    Mutant(
        "broken_attachments",
        "'storage_ref', 'filename'",
        ATTACHMENT,
        "'owned', 'storage_ref', 'filename'",
        attachment({"owned": False}),
    ),
    Mutant(
        "broken_attachments",
        "tag || '",
        f"{ATTACHMENTS}.test_an_object_of_somebody_else_is_refused",
        "'[0-9a-f]{16}",
        {"storage_ref": "attachments/kept/{other}/canary"},
    ),
    Mutant(
        "broken_attachments",
        "|shared)/.'",
        f"{ATTACHMENTS}.test_an_object_of_somebody_else_is_refused",
        "|shared)/'",
        {"storage_ref": "attachments/shared/"},
    ),
    Mutant(
        "broken_attachments",
        "'^attachments",
        f"{ATTACHMENTS}.test_an_object_of_somebody_else_is_refused",
        "'attachments",
        {"storage_ref": "x/attachments/shared/canary"},
    ),
    Mutant(
        "broken_attachments",
        "a.one ->> 'storage_ref' ~ '(^|/)[.]{1,2}(/|$)'",
        f"{ATTACHMENTS}.test_a_key_that_reaches_another_object_is_refused",
        "false",
        {"rest": "../{other}/canary"},
    ),
    Mutant(
        "broken_attachments",
        "a.one ->> 'storage_ref' ~ '[\\u0001-\\u001f\\u007f]'",
        f"{ATTACHMENTS}.test_a_key_that_reaches_another_object_is_refused",
        "false",
        {"rest": "a\nb"},
    ),
    Mutant(
        "broken_attachments",
        "a.one ->> 'version_id' IS NULL",
        f"{ATTACHMENTS}.test_an_upload_is_pinned_by_its_version",
        "false",
    ),
    Mutant(
        "broken_attachments",
        "jsonb_array_length(attachments) > 20",
        f"{ATTACHMENTS}.test_a_message_has_at_most_twenty_attachments",
        "false",
    ),
    Mutant(
        "broken_attachments",
        "> 28500000",
        f"{ATTACHMENTS}.test_the_attachments_of_a_message_fit_into_one_call_to_the_provider",
        "> 28500001",
    ),
    Mutant(
        "broken_attachments",
        "count(DISTINCT a.one ->> 'content_id')",
        f"{ATTACHMENTS}.test_a_content_id_names_one_image_of_its_message",
        "count(a.one ->> 'content_id')",
    ),
    Mutant(
        "enqueue_for",
        "ON CONFLICT (storage_ref) WHERE owned DO NOTHING",
        f"{ATTACHMENTS}.test_an_upload_belongs_to_one_message",
    ),
    Mutant(
        "enqueue_for",
        "            WHERE a.born\n        ), kept",
        f"{ATTACHMENTS}.test_a_repeated_key_attaches_nothing_again",
        "        ), kept",
    ),
    Mutant(
        "enqueue_for",
        "m.content_hash IS DISTINCT FROM a.digest",
        f"{BATCHES}.test_a_key_used_before_for_other_content_stops_the_whole_batch",
        "false",
    ),
    Mutant(
        "enqueue_for",
        "m.producer = asker AND m.idempotency_key = a.key",
        f"{BATCHES}.test_keys_of_another_producer_do_not_answer",
        "m.idempotency_key = a.key",
    ),
    Mutant(
        "enqueue_email",
        "SET standard_conforming_strings TO 'on'",
        "test_producer_attacks.test_no_reading_of_backslashes_makes_two_addresses_of_one",
        arguments={"smuggled": "a@x,b@evil.example"},
    ),
    Mutant(
        "enqueue_for",
        "ORDER BY a.idempotency_key, a.place",
        f"{BATCHES}.test_a_batch_holds_no_key_while_it_waits_for_one_before_it",
        "ORDER BY a.place",
    ),
    Mutant(
        "enqueue_for",
        "ORDER BY w.one ->> 'storage_ref', w.place",
        f"{ATTACHMENTS}.test_a_batch_holds_no_upload_while_it_waits_for_one_before_it",
        "ORDER BY w.place",
    ),
    Mutant(
        "enqueue_for",
        "greatest(a.send_at, now())",
        f"{BATCHES}.test_a_time_in_the_past_means_now_in_a_batch_too",
        "coalesce(a.send_at, now())",
    ),
    Mutant(
        "enqueue_for",
        "OR said.value @? 'strict $[*] ? (@.type() == \"array\")'",
        f"{BATCHES}.test_a_member_that_is_unknown_or_of_another_type_is_refused_by_name",
        "",
        {"wrong": {"to_addresses": [["canary@example.net"], ["b@example.com"]]}},
    ),
    Mutant(
        "enqueue_for",
        "ELSE said.name NOT IN ('parameters', 'names', 'tags', 'attachments')",
        f"{BATCHES}.test_a_member_that_is_unknown_or_of_another_type_is_refused_by_name",
        "ELSE false",
        {"wrong": {"to": ["canary@example.net"]}},
    ),
    Mutant(
        "enqueue_for",
        "jsonb_typeof(said.value) NOT IN ('array', 'null')",
        f"{BATCHES}.test_a_member_that_is_unknown_or_of_another_type_is_refused_by_name",
        "false",
        {"wrong": {"to_addresses": "canary@example.net"}},
    ),
    Mutant(
        "enqueue_for",
        "jsonb_typeof(said.value) NOT IN ('string', 'null')",
        f"{BATCHES}.test_a_member_that_is_unknown_or_of_another_type_is_refused_by_name",
        "false",
        {"wrong": {"locale": 1}},
    ),
    Mutant(
        "enqueue_for",
        "jsonb_typeof(said.value) NOT IN ('number', 'null')",
        f"{BATCHES}.test_a_member_that_is_unknown_or_of_another_type_is_refused_by_name",
        "false",
        {"wrong": {"priority": "50"}},
    ),
    *(
        Mutant(
            "enqueue_for",
            fragment,
            f"{BATCHES}.test_a_batch_refuses_what_a_single_call_refuses_and_says_which_message",
            "",
            {"case": "locale without a name"},
        )
        for fragment in (
            "WHERE NOT EXISTS (SELECT FROM asked AS b WHERE b.broken IS NOT NULL)",
            "PERFORM postlease.refuse_message(faults[1], fault_place);",
        )
    ),
    Mutant(
        "enqueue_for",
        "PERFORM pg_advisory_xact_lock(l.key)",
        f"{SCOPES}.test_two_sessions_with_one_scope_leave_one_message_pending",
        "PERFORM l.key",
    ),
    Mutant(
        "enqueue_for",
        "m.producer = asker\n              AND m.cancel_scope",
        f"{SCOPES}.test_a_scope_belongs_to_its_producer",
        "m.cancel_scope",
    ),
    Mutant(
        "enqueue_for",
        "AND m.cancel_scope = ANY (scopes)",
        f"{SCOPES}.test_other_scopes_and_messages_without_one_stay",
    ),
    Mutant(
        "enqueue_for",
        "AND m.status = 'pending'",
        f"{SCOPES}.test_a_message_that_is_being_sent_or_is_finished_stays_as_it_is",
    ),
    Mutant(
        "enqueue_for",
        "            FOR NO KEY UPDATE\n",
        f"{SCOPES}.test_a_message_that_is_claimed_meanwhile_stays_its_claimant_s",
    ),
    Mutant(
        "enqueue_for",
        "AND m.id <> ALL (newest)",
        f"{SCOPES}.test_a_newer_message_takes_the_place_of_those_that_are_pending",
    ),
    Mutant(
        "enqueue_for",
        "WHERE a.born AND a.scope IS NOT NULL",
        f"{SCOPES}.test_a_repeated_key_supersedes_nothing",
        "WHERE a.scope IS NOT NULL",
    ),
    Mutant(
        "enqueue_for",
        "ORDER BY a.scope, a.place DESC",
        f"{SCOPES}.test_of_a_batch_the_last_of_each_scope_stays",
        "ORDER BY a.scope, a.place",
    ),
    Mutant(
        "enqueue_for",
        "length(asker) NOT BETWEEN 1 AND 255 OR asker IS NULL",
        f"{BATCHES}.test_whoever_asks_for_somebody_says_for_whom",
        "false",
        {"nobody": ""},
    ),
    Mutant(
        "enqueue_emails",
        "SECURITY DEFINER",
        f"{BATCHES}.test_each_message_gets_its_own_row_and_answers_in_order",
        "SECURITY INVOKER",
    ),
    Mutant(
        "enqueue_emails",
        "session_user::text",
        f"{BATCHES}.test_each_message_gets_its_own_row_and_answers_in_order",
        "'another'",
    ),
    *(
        Mutant(
            "message_digest",
            fragment,
            "test_enqueue.test_the_same_key_with_other_content_is_an_error_and_changes_nothing",
            replacement,
            {"other": {argument: value}},
        )
        for fragment, replacement, argument, value in (
            ("nullif(names, '{}')", "NULL", "names", '{"ada@example.com": "Ada"}'),
            ("'cancel_scope', cancel_scope", "'cancel_scope', NULL", "cancel_scope", "order-1"),
            (
                "'from_address', from_address",
                "'from_address', NULL",
                "from_address",
                "a@example.com",
            ),
            ("'reply_to', reply_to", "'reply_to', NULL", "reply_to", "a@example.com"),
            ("nullif(tags, '{}')", "NULL", "tags", '{"shop": "1"}'),
        )
    ),
    Mutant(
        "message_digest",
        "nullif(attachments, '[]')",
        f"{ATTACHMENTS}.test_the_same_key_with_another_attachment_is_other_content",
        "NULL",
    ),
    Mutant(
        "message_digest",
        "CASE WHEN further = '{}' THEN '[]' ELSE jsonb_build_array(further) END",
        f"{ARGUMENTS}.test_a_key_of_before_the_newer_arguments_is_still_that_message_s",
        "jsonb_build_array(further)",
    ),
    *(
        Mutant(
            "moment_of",
            fragment,
            f"{BATCHES}.test_a_moment_that_means_another_one_elsewhere_is_refused",
            replacement,
            {"member": "send_at", "moment": moment},
        )
        for fragment, replacement, moment in (
            ("written !~*", "'2040-01-01T00:00:00Z' !~*", "2040-01-01T12:00:00"),
            ("WHEN data_exception", "WHEN division_by_zero", "2040-02-30T12:00:00Z"),
        )
    ),
    Mutant(
        "attachments_tag",
        "convert_to(producer, 'UTF8')",
        f"{ATTACHMENTS}.test_the_tag_is_the_producer_s_own",
        "convert_to('everybody', 'UTF8')",
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_function_without_its_guard_breaks_a_promise(
    mutant: Mutant,
    mutate: Any,
    request: pytest.FixtureRequest,
) -> None:
    test = load(mutant.test)
    arguments = arguments_of(test, request, mutant.arguments)
    mutate(mutant)
    assert not passes(test, arguments), f"{mutant.test} does not miss the guard"
