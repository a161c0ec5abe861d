"""The gate in front of a provider: one row that all workers of all processes obey.

    closing    closed, it lets one probe through an interval and nothing else
    pacing     open, it deals out slots in the provider's rate
    ruling     an operator's word: a pause that nothing else ends, an opening at once

Each statement commits by itself and locks that row alone, for its own duration. What an outcome
means for its message is decided in `delivery`, and the claim reads the gate itself.
"""

from postlease.gate.closing import (
    OPEN_GATE,
    Closing,
    GateState,
    Probe,
    close_gate,
    look,
    note,
    open_gate,
    take_probe,
)
from postlease.gate.pacing import Slots, reserve, set_limit
from postlease.gate.ruling import GateReport, GateWord, pause, read, release

__all__ = [
    "OPEN_GATE",
    "Closing",
    "GateReport",
    "GateState",
    "GateWord",
    "Probe",
    "Slots",
    "close_gate",
    "look",
    "note",
    "open_gate",
    "pause",
    "read",
    "release",
    "reserve",
    "set_limit",
    "take_probe",
]
