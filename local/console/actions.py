"""What the buttons do: run a function now, kill its workers, switch a schedule, inject a fault.

Each is a form that is posted, and is answered by the overview, which says what was done.
"""

from __future__ import annotations

import contextlib
import json
import threading
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from local.console import drawing
from local.console.bodies import parse_fault
from local.console.words import many
from local.runtime import ThrottledError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from local.stack import Stack
    from local.web import Request, Response

_PATIENCE_SECONDS = 3
"""How long a page waits for the function that its button began; a sweep may linger for a minute."""
_LONGEST_FORM = 2_000


class RefusedError(Exception):
    """A form that asks for what cannot be; the text says why."""


class Actions:
    """Does what one stack's forms ask for."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._known: dict[str, Callable[[Mapping[str, str]], str]] = {
            "tick": self._tick,
            "kill": self._kill,
            "schedule": self._schedule,
            "fault": self._fault,
            "empty": self._empty,
        }

    def find(self, name: str) -> Callable[[Request], Response] | None:
        """What answers a form of that name, or None."""
        action = self._known.get(name)
        return None if action is None else lambda request: self._do(action, request)

    def _do(self, action: Callable[[Mapping[str, str]], str], request: Request) -> Response:
        if request.header("origin") is None:  # every browser tells it with a form
            return drawing.unknown("Only a page of this console may do that.", status=403)
        try:
            text = request.body[:_LONGEST_FORM].decode()
            return drawing.elsewhere(
                f"/_local/?{urlencode({'done': action(dict(parse_qsl(text)))})}"
            )
        except RefusedError as error:
            return drawing.unknown(str(error), status=400)
        except ValueError:
            return drawing.unknown("The form holds what it should not.", status=400)

    def _tick(self, form: Mapping[str, str]) -> str:
        name = self._function(form)
        ended = threading.Thread(target=self._run, args=(name,), daemon=True)
        ended.start()
        ended.join(_PATIENCE_SECONDS)
        return f"tick:{name}"

    def _run(self, name: str) -> None:
        with contextlib.suppress(ThrottledError):  # as many as may run do so already
            self._stack.run(name, patience=0)

    def _kill(self, form: Mapping[str, str]) -> str:
        name = self._function(form)
        return f"kill:{name}:{len(self._stack.kill(name))}"

    def _schedule(self, form: Mapping[str, str]) -> str:
        name, wanted = form.get("name"), form.get("to")
        if name not in {schedule.name for schedule in self._stack.template.schedules}:
            raise RefusedError("There is no schedule of that name.")
        self._stack.switch_schedule(name, on=wanted == "on")
        return f"schedule:{name}:{'on' if wanted == 'on' else 'off'}"

    def _fault(self, form: Mapping[str, str]) -> str:
        wish: dict[str, object] = {"mode": form.get("mode")}
        if form.get("times"):
            wish["times"] = int(form["times"])
        if form.get("seconds"):
            wish["seconds"] = float(form["seconds"])
        try:
            fault = parse_fault(json.dumps({"ses": wish}).encode())
        except ValueError as error:
            raise RefusedError(f"That fault cannot be: {error}.") from None
        self._stack.provider.set_fault(fault)
        return f"fault:{fault.mode}"

    def _empty(self, _: Mapping[str, str]) -> str:
        self._stack.provider.inbox.clear()
        return "empty"

    def _function(self, form: Mapping[str, str]) -> str:
        name = form.get("function", "")
        if name not in self._stack.functions:
            raise RefusedError("There is no function of that name.")
        return name


def said(stack: Stack, done: str | None) -> str | None:
    """What was done, in words; None for whatever no button of ours would have said."""
    names = {*stack.functions, *(schedule.name for schedule in stack.template.schedules)}
    match (done or "").split(":"):
        case ["tick", name] if name in names:
            is_busy = bool(stack.functions[name].busy_pids)
            return f"The {name} {'is running' if is_busy else 'has run'}."
        case ["kill", name, number] if name in names and number.isdecimal():
            return f"{many(int(number[:4]), 'worker')} of the {name} killed."
        case ["schedule", name, ("on" | "off") as to] if name in names:
            return f"The schedule {name} is {to}."
        case ["fault", "accept"]:
            return "The provider behaves."
        case ["fault", _]:
            return "The fault is injected."
        case ["empty"]:
            return "The inbox is empty."
    return None
