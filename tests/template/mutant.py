"""One broken template, and the complaint that it must raise."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.template.deployment import Deployment, deployment

if TYPE_CHECKING:
    from collections.abc import Callable

_GONE = object()


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change to the template: the value at path becomes value, or goes. says: the complaint."""

    name: str
    guard: Callable[[Deployment], list[str]]
    says: str
    path: tuple[str | int, ...]
    value: Any = _GONE

    def applied(self, template: dict[str, Any]) -> dict[str, Any]:
        """A copy of template with the change made."""
        mutated = copy.deepcopy(template)
        *parents, last = self.path
        place: Any = mutated
        for key in parents:
            place = place[key]
        if self.value is _GONE:
            del place[last]
        elif isinstance(place, list) and last == len(place):
            place.append(self.value)
        else:
            place[last] = self.value
        return mutated

    def deployed(self, whole: Deployment) -> Deployment:
        """The broken template after the transform.

        What the transform leaves as it is needs none: a tenth of a second each would add up.
        """
        mutated = self.applied(whole.source)
        section, name = self.path[0], str((*self.path, "")[1])
        if section in {"Metadata", "Outputs", "Rules"}:
            return Deployment(mutated, whole.resources)
        written = whole.source["Resources"].get(name)
        if section == "Resources" and written and whole.resources.get(name) == written:
            others = {key: one for key, one in whole.resources.items() if key != name}
            left = {key: one for key, one in mutated["Resources"].items() if key == name}
            return Deployment(mutated, others | left)
        return deployment(mutated)


def of(resource: str, *path: str | int) -> tuple[str | int, ...]:
    """The path of a property of a resource."""
    return ("Resources", resource, "Properties", *path)


def variable(name: str) -> tuple[str | int, ...]:
    """The path of a variable that every function gets."""
    return ("Globals", "Function", "Environment", "Variables", name)


def statement(function: str, *path: str | int) -> tuple[str | int, ...]:
    """The path in the statements of a function's own policy."""
    return of(f"{function}Role", "Policies", 0, "PolicyDocument", "Statement", *path)


def tick(function: str, *path: str | int) -> tuple[str | int, ...]:
    """The path of a property of a function's schedule."""
    return of(function, "Events", "Schedule", "Properties", *path)
