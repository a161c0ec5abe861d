"""The gate in front of a provider: one row that all workers of all processes obey.

    closing    closed, it lets one probe through an interval and nothing else
    pacing     open, it deals out slots in the provider's rate
    ruling     an operator's word: a pause that nothing else ends, an opening at once

Each statement commits by itself and locks that row alone, for its own duration. What an outcome
means for its message is decided in `delivery`, and the claim reads the gate itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from postlease.first_use import on_first_use

if TYPE_CHECKING:
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
    from postlease.gate.ruling import GateReport, pause, read, release
else:
    __getattr__ = on_first_use(
        __name__,
        closing="OPEN_GATE Closing GateState Probe close_gate look note open_gate take_probe",
        pacing="Slots reserve set_limit",
        ruling="GateReport pause read release",
    )
