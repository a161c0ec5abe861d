"""Time rules for a provider that talks to a double."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from postlease.config import TimeRules

PATIENT = TimeRules(
    call_budget=timedelta(seconds=40),
    connect_timeout=timedelta(seconds=10),
    read_timeout=timedelta(seconds=30),
    lease=timedelta(seconds=60),
    unknown_grace=timedelta(seconds=60),
    start_margin=timedelta(seconds=1),
    caller_margin=timedelta(seconds=2),
    sweep_timeout=timedelta(seconds=60),
    sweep_linger=timedelta(seconds=0),
)
"""For a double that answers: a busy machine is not taken for a silent one."""

HASTY = replace(PATIENT, connect_timeout=timedelta(seconds=1), read_timeout=timedelta(seconds=1))
"""For a double that stays silent: nobody waits long."""
