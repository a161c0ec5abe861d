"""What the doorbell's function takes for a ring: an event id, whole and alone."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postlease import doorbell
from postlease.model import event_id


@given(st.uuids())
def test_what_was_rung_is_heard(message_id: UUID) -> None:
    assert doorbell.heard(event_id(message_id)) == message_id


@pytest.mark.parametrize(
    "body",
    [
        "",
        "evt_",
        str(uuid4()),
        event_id(uuid4()).lower(),
        event_id(uuid4())[:-1],
        event_id(uuid4()) + "0",
        event_id(uuid4()) + "\n",
        " " + event_id(uuid4()),
        f'"{event_id(uuid4())}"',
        f'{{"id": "{event_id(uuid4())}"}}',
        "evt_8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
        "evt_01KKGEM9V8ETG8Q6K7R2M4T0X\u0660",
        None,
        7,
        ["evt_01KKGEM9V8ETG8Q6K7R2M4T0XN"],
    ],
)
def test_anything_else_is_no_ring(body: object) -> None:
    assert doorbell.heard(body) is None
