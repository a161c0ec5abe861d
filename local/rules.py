"""EventBridge's part: which targets an event goes to, as the template's rules say.

Pure. Patterns of plain values are matched, as the rules of the template have them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from local.template import Template


def targets(template: Template, event: dict[str, Any]) -> list[str]:
    """The ARNs that event is brought to; one that two rules name stands twice."""
    return [
        str(target["Arn"])
        for rule in template.of_type("AWS::Events::Rule").values()
        if rule.get("State", "ENABLED") == "ENABLED" and matches(rule["EventPattern"], event)
        for target in rule["Targets"]
    ]


def matches(pattern: Any, value: Any) -> bool:
    """Whether value fits: each member of an object, and one of a list's values for a list's one."""
    if isinstance(pattern, dict):
        return isinstance(value, dict) and all(
            matches(inner, value.get(name)) for name, inner in pattern.items()
        )
    found = value if isinstance(value, list) else [value]
    return any(one in pattern for one in found)
