"""What the hunter waits for on the wire is there to be seen."""

from __future__ import annotations

import pytest

from postlease.outbox import claiming, dispatching, recording
from tests.chaos import hunter

STATEMENTS = {
    "outbox.claim": claiming.CLAIM,
    "outbox.claim_named": claiming.CLAIM_NAMED,
    "outbox.authorize": dispatching.AUTHORIZE,
    "outbox.record": recording.RECORD,
}


def test_it_waits_for_statements_that_there_are() -> None:
    assert hunter._AT_ANSWER.keys() == STATEMENTS.keys()
    for name, statement in STATEMENTS.items():
        assert statement.startswith(f"-- {name}\n")


@pytest.mark.parametrize("name", ["outbox.authorize", "outbox.record"])
def test_what_was_written_is_answered_row_by_row(name: str) -> None:
    """It takes an answer without rows for one that wrote nothing."""
    last = STATEMENTS[name].rpartition("\n)\n")[2]
    assert last.startswith("UPDATE postlease.email_messages")
    assert "RETURNING m.id" in last
