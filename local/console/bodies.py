"""What the JSON bodies of the console's API may say."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from local.provider import MODES, Events, Fault
from local.ses_events import EVENT_KINDS

_LONGEST_SECONDS = 3_600


def parse_fault(body: bytes) -> Fault:
    """The fault in a body; ValueError says which field is wrong."""
    ses = _wish(body, '{"ses": {"mode": "..."}}', {"mode", "times", "seconds"})
    mode = ses.get("mode")
    if mode not in MODES:
        raise ValueError(f"ses.mode must be one of {', '.join(MODES)}")
    return Fault(mode, _times(ses), _seconds(ses, "seconds"))


def parse_events(body: bytes) -> Events:
    """The events in a body; ValueError says which field is wrong."""
    ses = _wish(body, '{"ses": {"types": ["..."]}}', {"types", "times", "delay"})
    kinds = ses.get("types")
    if not isinstance(kinds, list) or any(kind not in EVENT_KINDS for kind in kinds):
        raise ValueError(f"ses.types must be a list of {', '.join(EVENT_KINDS)}")
    return Events(tuple(kinds), _times(ses), _seconds(ses, "delay"))


def document(body: bytes) -> Any:
    """The JSON in a body; ValueError where there is none, or one too deep to be read."""
    try:
        return json.loads(body)
    except RecursionError:
        raise ValueError("the body is too deep") from None


def _wish(body: bytes, form: str, fields: set[str]) -> dict[str, Any]:
    wish = None
    with contextlib.suppress(ValueError):
        wish = document(body)
    ses = wish.get("ses") if isinstance(wish, dict) else None
    if not (isinstance(wish, dict) and isinstance(ses, dict)):
        raise ValueError(f"the body must be {form}")  # noqa: TRY004  one error
    if extra := [*(set(wish) - {"ses"}), *(set(ses) - fields)]:
        raise ValueError(f"unknown field: {extra[0]}")
    return ses


def _times(ses: dict[str, Any]) -> int | None:
    times = ses.get("times")
    if times is not None and (type(times) is not int or times < 1):
        raise ValueError("ses.times must be a whole number above 0, or null")
    return times


def _seconds(ses: dict[str, Any], name: str) -> float:
    seconds = ses.get(name)
    if seconds is None:
        return 0.0
    if type(seconds) not in {int, float} or not 0 <= seconds <= _LONGEST_SECONDS:
        raise ValueError(f"ses.{name} must be a number from 0 to {_LONGEST_SECONDS}")
    return float(seconds)
