"""The hot statements stay cheap, however much history lies beside the queue."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, LiteralString, cast
from uuid import UUID

import pytest

from postlease import outbox
from postlease.accounts import issuing
from postlease.database import Connection, connect
from postlease.delivery.requests import BATCH
from postlease.model import Claim
from postlease.outbox import archiving, redacting, watching
from tests import arrange
from tests.emptying import ANEW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HISTORY = 20_000
SENDING = 500

FINISHED: LiteralString = """
INSERT INTO postlease.email_messages (
    template, to_addresses, parameters, producer, status, attempt_count, provider, dispatched_at,
    provider_message_id, available_at, created_at, sent_at, finished_at, attempts)
SELECT 'receipt', ARRAY['r' || n || '@example.com'], '{"order_number": "A-1"}', 'shop', 'sent', 1,
    'ses', at, 'p' || n, at, at, at, at, '[{"attempt": 1, "outcome": "accepted"}]'
FROM generate_series(1, %(number)s) AS n
CROSS JOIN LATERAL (SELECT now() - interval '100 days' * (1 - n::float8 / %(number)s)) AS m (at)
"""
# What ANALYZE leaves of a table that holds nothing.
FORGET: LiteralString = """
UPDATE pg_class SET relpages = 0, reltuples = 0, relallvisible = 0
WHERE relnamespace = 'postlease'::regnamespace
  AND (relname = 'email_messages' OR relname LIKE 'email\\_messages\\_%');
DELETE FROM pg_statistic WHERE starelid = 'postlease.email_messages'::regclass
"""
PENDING: LiteralString = """
INSERT INTO postlease.email_messages (template, to_addresses, producer, priority)
SELECT 'receipt', ARRAY['r' || n || '@example.com'], 'shop', (ARRAY[50, 100])[1 + n %% 2]
FROM generate_series(1, %s) AS n
"""


@pytest.fixture(scope="module")
def populated(owner_connection: Connection) -> Iterator[Connection]:
    """The owner's connection to 20,000 finished messages."""
    owner_connection.execute(ANEW)
    owner_connection.execute(FINISHED, {"number": HISTORY})
    yield owner_connection
    owner_connection.execute(ANEW)


@pytest.fixture(scope="module", params=[0, SENDING], ids=["nothing sending", "500 sending"])
def queue(
    request: pytest.FixtureRequest, populated: Connection, application_conninfo: str
) -> Iterator[Connection]:
    """The application's connection to 50 pending messages and so many sending, half dispatched."""
    populated.execute("DELETE FROM postlease.email_messages WHERE finished_at IS NULL")
    with connect(application_conninfo) as application:
        if request.param:
            populated.execute(PENDING, [request.param])
            claims = [message.claim for message in arrange.claim(application, request.param)]
            arrange.authorize(application, *claims[: request.param // 2])
        populated.execute(PENDING, [50])
        populated.execute("VACUUM ANALYZE postlease.email_messages")
        yield application


class Explaining:
    """Stands in for a connection: keeps the plan of each statement and, as a rule, runs none."""

    def __init__(self, connection: Connection, more: LiteralString = "COSTS OFF") -> None:
        self._connection = connection
        self._options = f"FORMAT JSON, {more}"
        self.plans: list[dict[str, Any]] = []
        self.rowcount = 0

    def cursor(self, **_: Any) -> Explaining:
        return self

    def execute(self, statement: LiteralString, parameters: Any = None) -> Explaining:
        explained = cast("LiteralString", f"EXPLAIN ({self._options})\n{statement}")
        row = self._connection.execute(explained, parameters).fetchone()
        assert row
        self.plans.append(row["QUERY PLAN"][0]["Plan"])
        return self

    def fetchall(self) -> list[Any]:
        return []

    def fetchone(self) -> None:
        return None

    def __iter__(self) -> Iterator[Any]:
        return iter(())


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every node of a plan."""
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def ways_in(call: Callable[[Any], object], connection: Connection) -> set[str]:
    """How the statements of a call reach email_messages, such as `Index Scan by pkey`."""
    explaining = Explaining(connection)
    call(explaining)
    assert explaining.plans
    found = set()
    for node in (node for plan in explaining.plans for node in nodes(plan)):
        name = node.get("Index Name", "")
        if name.startswith("email_attachments"):
            continue
        if node.get("Relation Name") == "email_messages" and "Scan" in node["Node Type"]:
            condition = any(key in node for key in ("Index Cond", "Recheck Cond", "TID Cond"))
            found.add(f"{node['Node Type']} {name}".strip() + ("" if condition else ", whole"))
        elif node["Node Type"] == "Bitmap Index Scan":
            found.add(f"Bitmap Index Scan {name}")
    return found


CLAIMS = [Claim(UUID(int=number), "worker-a", 1) for number in range(10)]


def claim_behind_a_floor(connection: Any) -> None:
    floors = outbox.Floors()
    floors._positions[50] = ("2026-01-01T00:00:00Z", UUID(int=1))
    arrange.claim(connection, 10, floors=floors)


# The unfinished are few and have an index of their own: those who look for any of them read it
# whole. Nothing else may be read whole.
BY_ID = "Index Scan email_messages_pkey"
UNFINISHED = "Index Scan email_messages_unfinished"
SUSPECTS = "Index Scan email_messages_suspects"
ALL_UNFINISHED = f"{UNFINISHED}, whole"

CALLS: dict[str, tuple[Callable[[Any], object], set[str]]] = {
    "claim": (lambda c: arrange.claim(c, 10), {UNFINISHED, "Tid Scan"}),
    "claim behind a floor": (claim_behind_a_floor, {UNFINISHED, "Tid Scan"}),
    "claim of suspects": (
        lambda c: arrange.claim(c, 1, suspects=True),
        {SUSPECTS, "Tid Scan"},
    ),
    "suspects due": (outbox.suspects_due, {SUSPECTS}),
    "held up": (lambda c: outbox.held_up(c, arrange.ROOM), {UNFINISHED}),
    "authorize": (
        lambda c: arrange.authorize(
            c, *CLAIMS, addressees=(outbox.Addressee(bytes(32), is_to=True),)
        ),
        {BY_ID},
    ),
    "record": (lambda c: outbox.record(c, [arrange.sent(claim) for claim in CLAIMS]), {BY_ID}),
    "reap undispatched": (
        lambda c: outbox.reap_undispatched(c, batch=200),
        {ALL_UNFINISHED, BY_ID},
    ),
    "reap dispatched": (
        lambda c: outbox.reap_dispatched(c, batch=200, grace=arrange.GRACE, max_attempts=5),
        {ALL_UNFINISHED, BY_ID},
    ),
    "expire waiting": (lambda c: outbox.expire_waiting(c, batch=200), {ALL_UNFINISHED, BY_ID}),
    "backlog": (lambda c: c.execute(watching.BACKLOG), {ALL_UNFINISHED}),
    "purge": (
        lambda c: outbox.purge(c, age=timedelta(days=90), chunk=500),
        {"Bitmap Heap Scan", "Bitmap Index Scan email_messages_by_age", BY_ID},
    ),
    "choose chunk": (
        lambda c: c.execute(archiving.CHOOSE_CHUNK, {"age": timedelta(days=90), "chunk": 500}),
        {"Bitmap Heap Scan", "Bitmap Index Scan email_messages_by_age"},
    ),
    "redact": (
        lambda c: outbox.redact(c, age=timedelta(days=7), chunk=500),
        {"Index Scan email_messages_redactable", BY_ID},
    ),
    "lock theirs": (
        lambda c: c.execute(
            redacting.LOCK_THEIRS,
            {"address": "a@b.example", "mention": "x", "after": UUID(int=1), "page": 100},
        ),
        {BY_ID, "Index Only Scan email_messages_pkey"},
    ),
    "event state": (lambda c: outbox.event_state(c, UUID(int=1)), {BY_ID}),
    "supersede": (
        lambda c: outbox.supersede(c, [UUID(int=1)]),
        {"Index Scan email_messages_of_token", BY_ID},
    ),
    "rehearse supersede": (
        lambda c: outbox.rehearse_supersede(c, [UUID(int=1)]),
        {BY_ID},
    ),
    "supersede notes": (
        lambda c: outbox.supersede_notes(c, UUID(int=1)),
        {"Index Scan email_messages_cancellable", BY_ID},
    ),
    "what a new mail may replace": (
        lambda c: c.execute(
            issuing.UNFINISHED, {"user_id": UUID(int=1), "purpose": "verify_email"}
        ),
        {"Index Scan email_messages_of_token", "Index Scan email_messages_cancellable"},
    ),
    "take place": (lambda c: outbox.take_place(c, UUID(int=1), waits_since=None), {BY_ID}),
}


@pytest.mark.parametrize("name", ["claim", "claim behind a floor", "claim of suspects"])
def test_a_claim_finds_what_is_due_in_order_and_sorts_no_queue(
    queue: Connection, name: str
) -> None:
    explaining = Explaining(queue)
    CALLS[name][0](explaining)
    locking = [
        node for plan in explaining.plans for node in nodes(plan) if node["Node Type"] == "LockRows"
    ]
    assert locking
    below = {node["Node Type"] for one in locking for node in nodes(one)}
    assert not below & {"Sort", "Incremental Sort"}


@pytest.mark.parametrize("name", CALLS)
def test_a_hot_statement_reads_what_it_needs_and_no_history(queue: Connection, name: str) -> None:
    """RET-01."""
    call, allowed = CALLS[name]
    assert ways_in(call, queue) == allowed


@pytest.mark.parametrize(
    ("statistics", "number"), [("of the queue", 8 * BATCH), ("of an empty table", BATCH)]
)
@pytest.mark.parametrize("name", ["authorize", "record"])
def test_the_largest_batch_is_looked_up_by_id_whatever_the_statistics_say(
    populated: Connection, queue: Connection, name: str, statistics: str, number: int
) -> None:
    """A scan of the whole table for each batch is what a mere join with unnest() comes to."""
    claims = [Claim(UUID(int=place), "worker-a", 1) for place in range(number)]
    calls: dict[str, Callable[[Any], object]] = {
        "authorize": lambda c: arrange.authorize(c, *claims),
        "record": lambda c: outbox.record(c, [arrange.sent(claim) for claim in claims]),
    }
    with populated.transaction(force_rollback=True):
        if statistics == "of an empty table":
            populated.execute(FORGET)
            found = ways_in(calls[name], populated)
        else:
            found = ways_in(calls[name], queue)
    bitmap = {"Bitmap Heap Scan", "Bitmap Index Scan email_messages_pkey"}
    # Of a dozen addressees or more the bitmap is of the suppression list.
    assert {BY_ID} <= found <= {BY_ID, "Bitmap Index Scan suppressions_pkey", *bitmap}


def test_the_dispatch_check_looks_addresses_up_in_a_long_suppression_list(
    populated: Connection, queue: Connection
) -> None:
    populated.execute(
        "INSERT INTO postlease.suppressions (address_digest, reason)"
        " SELECT sha256(n::text::bytea), reason FROM generate_series(1, %s) AS n"
        " CROSS JOIN (VALUES ('bounce'), ('complaint')) AS r (reason)",
        [HISTORY],
    )
    populated.execute("VACUUM ANALYZE postlease.suppressions")
    explaining: Any = Explaining(queue)
    try:
        CALLS["authorize"][0](explaining)
    finally:
        populated.execute("TRUNCATE postlease.suppressions")
    [plan] = explaining.plans
    [scan] = [node for node in nodes(plan) if node.get("Relation Name") == "suppressions"]
    assert scan["Node Type"] in {"Index Scan", "Index Only Scan", "Bitmap Heap Scan"}
    [lookup] = [node for node in nodes(scan) if node.get("Index Name") == "suppressions_pkey"]
    assert "address_digest" in lookup["Index Cond"]


def test_the_dispatch_check_looks_for_the_one_account_of_a_note_and_for_none_else(
    populated: Connection, queue: Connection
) -> None:
    """However many accounts there are, and not even one of them for mail that is no note."""
    populated.execute(
        "INSERT INTO postlease.users (email, email_canonical, locale)"
        " SELECT address, address, 'en' FROM generate_series(1, %s) AS n"
        " CROSS JOIN LATERAL (SELECT 'u' || n || '@example.com') AS a (address)",
        [HISTORY],
    )
    populated.execute("VACUUM ANALYZE postlease.users")
    explaining: Any = Explaining(queue, "ANALYZE, TIMING OFF")
    try:
        with queue.transaction(force_rollback=True):
            claims = [message.claim for message in arrange.claim(queue, 10)]
            arrange.authorize(explaining, *claims)
            note = outbox.enqueue_auth(queue, template="account_exists", user_id=first(queue))
            [message] = [m for m in arrange.claim(queue, 40) if m.claim.message_id == note]
            arrange.authorize(explaining, message.claim)
    finally:
        populated.execute("TRUNCATE postlease.users CASCADE")
    looks = []
    for plan in explaining.plans:
        [scan] = [node for node in nodes(plan) if node.get("Relation Name") == "users"]
        assert scan["Node Type"] in {"Index Scan", "Index Only Scan"}
        assert "email_canonical" in scan["Index Cond"]
        looks.append(scan["Actual Loops"])
    assert looks == [0, 1]


def first(connection: Connection) -> UUID:
    """Some account's id."""
    row = connection.execute("SELECT id FROM postlease.users LIMIT 1").fetchone()
    assert row
    return UUID(str(row["id"]))


def test_the_reading_of_plans_sees_a_scan_of_the_whole_table(queue: Connection) -> None:
    def scan(connection: Any) -> None:
        connection.execute("SELECT FROM postlease.email_messages WHERE provider = 'ses'")

    assert ways_in(scan, queue) == {"Seq Scan, whole"}
