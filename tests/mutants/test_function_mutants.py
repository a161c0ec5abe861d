"""Every guard in the database's own functions is held by a test, as those in our statements are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import sql

from tests.integration import test_enqueue
from tests.integration.test_enqueue import producer, producer_connections, producer_logins
from tests.mutants.promises import arguments_of, load, passes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postlease.database import Connection

__all__ = ["producer", "producer_connections", "producer_logins"]  # fixtures

REFUSALS = "test_enqueue.test_what_is_refused_is_named_by_its_constraint_and_not_repeated"
CONTENT = "broken_content"
AT_BIRTH = "test_content_rules.test_broken_content_is_refused_at_birth_by_its_name"
LONG = "canary@" + ("e" * 60 + ".") * 4 + "e.net"
LONG_NAME = "c" * 65 + "@example.net"


@dataclass(frozen=True)
class Mutant:
    """A function with fragment replaced, and the test that must fail; arguments are that test's."""

    function: str
    fragment: str
    test: str
    replacement: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.function} without {' '.join(self.fragment.split())[:60]}"


def refusal(case: str) -> dict[str, Any]:
    """The arguments of one row of the refused."""
    given, constraint = test_enqueue.REFUSED[case]
    return {"given": given, "constraint": constraint}


MUTANTS = [
    Mutant(
        "broken_message",
        "priority NOT IN (50, 100)",
        REFUSALS,
        "priority NOT IN (0, 50, 100)",
        refusal("priority of auth mail"),
    ),
    Mutant(
        "broken_message",
        "template IN ('verify_email', 'reset_password')",
        "test_enqueue_batches"
        ".test_a_batch_refuses_what_a_single_call_refuses_and_says_which_message",
        "false",
        {"case": "template of a verification"},
    ),
    Mutant(
        "enqueue_email",
        "found_digest IS DISTINCT FROM digest",
        "test_enqueue.test_the_package_names_the_constraint_of_a_reused_key",
        "false",
    ),
    Mutant(
        "enqueue_email",
        "m.producer = session_user AND ",
        "test_enqueue.test_two_producers_may_use_the_same_key",
    ),
    Mutant(
        "enqueue_email",
        "greatest(enqueue_email.send_at, now())",
        "test_enqueue.test_a_time_in_the_past_means_now_and_overtakes_nobody",
        "coalesce(enqueue_email.send_at, now())",
    ),
    Mutant(
        "enqueue_email",
        "SECURITY DEFINER",
        "test_enqueue.test_the_id_that_comes_back_names_the_pending_message",
        "SECURITY INVOKER",
    ),
    Mutant(
        "enqueue_auth_email",
        " AND t.user_id = u.id",
        "test_enqueue.test_auth_mail_carries_no_token_of_another_user",
    ),
    Mutant(
        "enqueue_auth_email",
        " AND t.purpose = enqueue_auth_email.template",
        "test_enqueue.test_auth_mail_carries_no_token_of_another_purpose",
        "",
        {"template": "reset_password"},
    ),
    Mutant(
        CONTENT,
        "octet_length(parameters::text) > 65536",
        "test_enqueue.test_parameters_up_to_64_kilobytes_are_accepted_and_one_byte_more_refused",
        "false",
    ),
    Mutant(CONTENT, "DISTINCT lower(address)", REFUSALS, "address", refusal("to twice")),
    Mutant(
        CONTENT,
        "DISTINCT lower(address)",
        REFUSALS,
        "DISTINCT address",
        refusal("to twice in other case"),
    ),
    Mutant(CONTENT, "address IS NULL OR ", REFUSALS, "", refusal("to NULL element")),
    Mutant(
        CONTENT,
        "length(address) > 254",
        REFUSALS,
        "false",
        refusal(f"address {LONG!r}"),
    ),
    Mutant(
        CONTENT,
        "address ~* '=",
        REFUSALS,
        "address = '=",
        refusal(f"address {test_enqueue.ENCODED!r}"),
    ),
    Mutant(
        "attempts_with",
        "postlease.attempts_kept(message.attempts)",
        "test_record.test_the_history_keeps_the_last_twenty_attempts",
        "message.attempts",
    ),
    Mutant(
        "attempts_kept",
        "jsonb_array_length(attempts) < 20",
        "test_history.test_below_twenty_nothing_is_dropped_or_moved",
        "jsonb_array_length(attempts) < 19",
    ),
    Mutant(
        "attempts_kept",
        "jsonb_array_length(attempts) < 20",
        "test_record.test_the_history_keeps_the_last_twenty_attempts",
        "jsonb_array_length(attempts) < 21",
    ),
    Mutant(
        "attempts_kept",
        """- jsonb_array_length(
            jsonb_path_query_array(attempts, '$[0 to 18] ? (@.outcome == "unknown")')) % 19""",
        "test_history.test_an_unknown_attempt_is_still_known_after_twenty_others",
        "- 0",
    ),
    Mutant(
        "attempts_kept",
        ' ? (@.outcome == "unknown")\')\n            || ',
        "test_history.test_an_unknown_attempt_is_still_known_after_twenty_others",
        ' ? (@.outcome == "none")\')\n            || ',
    ),
    Mutant(
        "attempts_kept",
        "% 19",
        "test_history.test_of_nineteen_unknown_the_oldest_is_dropped",
    ),
    Mutant(
        "attempts_kept",
        "[0 to 18]",
        "test_history.test_the_last_entry_stays_last",
        "[0 to 19]",
    ),
    *(
        Mutant(
            function,
            f"{volatility} PARALLEL SAFE",
            "test_history.test_the_history_is_written_by_the_statement_itself",
            f"{volatility} PARALLEL SAFE STRICT",
        )
        for function, volatility in (("attempts_kept", "IMMUTABLE"), ("attempts_with", "STABLE"))
    ),
    Mutant(CONTENT, "{1,64}'", REFUSALS, "+'", refusal(f"address {LONG_NAME!r}")),
    # the table's own look at what a message says
    *(
        Mutant("check_message_content", fragment, AT_BIRTH, replacement, {"case": case})
        for fragment, replacement, case in (
            ("NEW.template !~ ", "NEW.template = ", "a capital in template"),
            ("{0,63}", "*", "a long template"),
            ("NEW.locale !~ ", "NEW.locale = ", "an underscore in locale"),
            ("jsonb_typeof(NEW.parameters) <> 'object'", "false", "parameters that are an array"),
            ("jsonb_typeof(NEW.tags) <> 'object'", "false", "tags that are an array"),
            ("jsonb_typeof(NEW.recipient_names) <> 'object'", "false", "names that are an array"),
            ("cardinality(NEW.to_addresses) = 0\n          OR ", "", "nobody"),
            ("+ cardinality(NEW.bcc_addresses) > 50", "> 50", "fifty-one recipients"),
            ("array_ndims(NEW.to_addresses), ", "", "recipients in two dimensions"),
            ("array_ndims(NEW.cc_addresses),", "", "copies in two dimensions"),
            ("array_ndims(NEW.bcc_addresses)", "NULL", "blind copies in two dimensions"),
            ("(NEW.token_id IS NOT NULL) <> (", "false AND (", "a token's template without one"),
            ("NEW.priority NOT IN (0, 50, 100)", "false", "a class between others"),
            ("NEW.delivery NOT IN (", "NEW.delivery IN ('none', ", "another policy"),
            ("length(NEW.idempotency_key) NOT BETWEEN 1", "0 NOT BETWEEN 0", "a long key"),
            (
                "(NEW.idempotency_key IS NULL) <> (NEW.content_hash IS NULL)",
                "false",
                "a key without its content's hash",
            ),
            ("length(NEW.cancel_scope) NOT BETWEEN 1", "0 NOT BETWEEN 0", "an empty scope"),
            ("NEW.attachment_bytes < 0", "false", "a size below nothing"),
        )
    ),
    *(
        Mutant(
            "check_message_content",
            fragment,
            "test_content_rules.test_a_token_s_mail_is_born_for_one_reader",
            replacement,
            {"column": column},
        )
        for fragment, replacement, column in (
            ("cardinality(NEW.to_addresses) > 1\n              OR ", "", "to_addresses"),
            (
                "cardinality(NEW.cc_addresses) + cardinality(NEW.bcc_addresses) > 0",
                "cardinality(NEW.bcc_addresses) > 0",
                "cc_addresses",
            ),
            (
                "cardinality(NEW.cc_addresses) + cardinality(NEW.bcc_addresses) > 0",
                "cardinality(NEW.cc_addresses) > 0",
                "bcc_addresses",
            ),
        )
    ),
]


@pytest.fixture
def mutate(owner: Connection) -> Iterator[Any]:
    """Replaces a function for the length of a test."""
    originals: list[str] = []

    def replace(mutant: Mutant) -> None:
        row = owner.execute(
            "SELECT pg_get_functiondef(oid) AS text FROM pg_proc"
            " WHERE proname = %s AND pronamespace = 'postlease'::regnamespace",
            [mutant.function],
        ).fetchone()
        assert row
        assert mutant.fragment in row["text"], "the guard is worded otherwise now"
        originals.append(row["text"])
        mutated = row["text"].replace(mutant.fragment, mutant.replacement)
        owner.execute(sql.SQL(mutated))

    yield replace
    for text in originals:
        owner.execute(sql.SQL(text))  # type: ignore[arg-type]


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_function_without_its_guard_breaks_a_promise(
    mutant: Mutant, mutate: Any, request: pytest.FixtureRequest
) -> None:
    test = load(mutant.test)
    arguments = arguments_of(test, request, mutant.arguments)
    mutate(mutant)
    assert not passes(test, arguments), f"{mutant.test} does not miss the guard"
