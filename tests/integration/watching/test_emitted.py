"""Each function emits what `tests/metrics.py` says: names, units, dimension; idle, too."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from postlease.delivery.preparing import Preparer
from postlease.model import FailureReason, event_id
from tests import arrange
from tests.metrics import DIMENSION, DISTRIBUTIONS, EMITTED, NAMESPACE, SILENT, Emitted, read

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.database import Connection
    from tests.integration.watching.conftest import Sweeps

HOUR = timedelta(hours=1)


def by_name(text: str) -> dict[str, list[float]]:
    """The values of each metric."""
    found: dict[str, list[float]] = {}
    for one in read(text):
        found.setdefault(one.name, []).extend(one.values)
    return found


def labels(emitted: list[Emitted]) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    """Namespaces and dimensions."""
    return {(one.namespace, one.dimensions) for one in emitted}


RINGS: dict[str, Any] = {"Records": []}


@pytest.mark.parametrize("function", ["sweep", "doorbell", "reaper", "retention", "feedback"])
def test_an_idle_function_says_all_that_it_has_to_say_but_what_no_mail_was_there_to_tell(
    run: Callable[..., str], function: str
) -> None:
    """RET-03: silence then means that nobody ran."""
    emitted = read(run(function, RINGS if function in {"doorbell", "feedback"} else None))
    wanted = EMITTED[function]
    assert {one.name: one.unit for one in emitted} == {
        name: unit for name, unit in wanted.items() if name not in SILENT
    }
    assert labels(emitted) == {(NAMESPACE, ((DIMENSION, "postlease"),))}
    assert all(len(one.values) == 1 for one in emitted)
    beats = {one.name: one.values for one in emitted if one.name.endswith("Heartbeat")}
    assert set(beats.values()) <= {(1.0,)}
    assert all(one.values == (0.0,) for one in emitted if one.name not in beats)


@pytest.mark.parametrize("function", ["sweep", "doorbell"])
def test_a_function_that_sent_emits_its_whole_table(
    run: Callable[..., str], owner: Connection, function: str
) -> None:
    ids = arrange.enqueue(owner, 2)
    rings = [{"messageId": str(n), "body": event_id(one)} for n, one in enumerate(ids)]
    emitted = read(run(function, {"Records": rings} if function == "doorbell" else None))
    assert {one.name: one.unit for one in emitted} == EMITTED[function]
    assert labels(emitted) == {(NAMESPACE, ((DIMENSION, "postlease"),))}
    values = {one.name: one.values for one in emitted if one.name in SILENT}
    told = (*DISTRIBUTIONS, "AttemptFailed")
    assert {name: len(found) for name, found in values.items()} == dict.fromkeys(told, 2)


def test_mail_that_left_within_ten_seconds_is_told_apart_from_mail_that_did_not(
    run: Callable[..., str], owner: Connection
) -> None:
    """The time from due to sent, however old the message itself is."""
    _, late = arrange.enqueue(owner, 2)
    arrange.age(owner, late, timedelta(seconds=11), "available_at")
    said = by_name(run("sweep"))
    assert (said["Sent"], said["SentWithin10s"]) == ([2], [1])


FAILURES: dict[str, tuple[FailureReason, ...]] = {
    "FailedRejected": ("rejected",),
    "FailedUnprepared": ("render_error", "attachment_missing", "attachment_changed"),
    "FailedExhausted": ("attempts_exhausted",),
    "FailedWorkerLost": ("worker_lost",),
    "FailedUnknown": ("outcome_unknown",),
    "Expired": ("expired",),
    "Superseded": ("superseded",),
    "Suppressed": ("suppressed",),
}
"""Which metric tells of which reason; what is `cancelled` was the caller's wish, and no metric."""


def test_each_reason_of_a_failure_has_its_metric_and_their_sum_is_failed(
    run: Callable[..., str],
    sweeps: Sweeps,
    owner: Connection,
    application: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arrange.enqueue(owner, template="no_such_template")
    [attached] = arrange.enqueue(owner)
    owner.execute(
        "INSERT INTO postlease.email_attachments (message_id, position, filename, content_type,"
        " storage_ref, size, sha256)"
        " VALUES (%s, 1, 'note.txt', 'text/plain', 'attachments/gone.txt', 5, sha256('hello'))",
        [attached],
    )
    [broken] = arrange.enqueue(owner)
    owner.execute("UPDATE postlease.email_messages SET max_attempts = 1 WHERE id = %s", [broken])
    prepare = Preparer.prepare

    def falls(self: Preparer, message: Any, **more: Any) -> Any:
        if message.claim.message_id == broken:
            raise RuntimeError
        return prepare(self, message, **more)

    monkeypatch.setattr(Preparer, "prepare", falls)
    [late] = arrange.enqueue(owner)
    arrange.age(owner, late, HOUR, "created_at", "available_at")
    owner.execute(
        "UPDATE postlease.email_messages SET expires_at = now() - interval '1 second'"
        " WHERE id = %s",
        [late],
    )
    arrange.enqueue(owner, 2)
    sweeps.meets("reject")
    told = [by_name(run("sweep"))]
    # Dead workers: one before, one after it asked to send.
    lost, unheard = arrange.enqueue(owner, 2, delivery="at_most_once")
    owner.execute("UPDATE postlease.email_messages SET reaped_count = 2 WHERE id = %s", [lost])
    arrange.age(owner, lost, -HOUR, "available_at")
    arrange.dispatch(application)
    arrange.age(owner, lost, HOUR, "available_at")
    arrange.claim(application, suspects=True)
    for one in (lost, unheard):
        arrange.end_lease(owner, one, ago=HOUR)
    told.append(by_name(run("reaper")))
    total = {name: sum(sum(one.get(name, ())) for one in told) for name in (*FAILURES, "Failed")}
    found = owner.execute(
        "SELECT failure_reason AS reason, count(*) AS n FROM postlease.email_messages"
        " WHERE status = 'failed' GROUP BY 1"
    ).fetchall()
    by_reason = {row["reason"]: row["n"] for row in found}
    assert {name: total[name] for name in FAILURES} == {
        name: sum(by_reason.pop(reason, 0) for reason in reasons)
        for name, reasons in FAILURES.items()
    }
    assert not by_reason
    assert total["Failed"] == sum(total[name] for name in FAILURES) >= 8


def test_each_attempt_says_whether_it_went_wrong_and_being_throttled_is_not_wrong(
    run: Callable[..., str], sweeps: Sweeps, owner: Connection
) -> None:
    told = []
    for mode in ("accept", "reject", "throttle", "unavailable", "lose_response"):
        sweeps.meets(mode)
        arrange.enqueue(owner)
        told.append(by_name(run("sweep")))
        owner.execute("DELETE FROM postlease.email_messages")
        owner.execute("DELETE FROM postlease.provider_gates")
    assert [one["AttemptFailed"] for one in told] == [[0], [1], [0], [1], [1]]
