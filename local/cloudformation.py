"""CloudFormation's YAML: short forms, intrinsic functions, parameters, conditions.

Knows nothing of functions, routes or any other resource's meaning.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from local.runtime import ACCOUNT, REGION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_PSEUDO = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Region": REGION,
    "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
    "AWS::StackName": "postlease",
    "AWS::StackId": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/postlease/local",
}
_LIST_TYPES = ("CommaDelimitedList", "List<")
_NOTHING = object()


class TemplateError(Exception):
    """The template says something that the local stack cannot follow."""


class _Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short forms, each turned into its long form."""


def _long_form(loader: yaml.SafeLoader, tag: str, node: yaml.Node) -> dict[str, Any]:
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    elif isinstance(node, yaml.MappingNode):
        value = loader.construct_mapping(node, deep=True)
    if tag == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {tag if tag in {"Ref", "Condition"} else f"Fn::{tag}": value}


_Loader.add_multi_constructor("!", _long_form)


class Document:
    """A template with parameters filled in. names says what a !Ref to a resource yields locally.

    A name with a dot, such as `Bucket.Arn`, says what that !GetAtt yields.
    """

    def __init__(
        self, path: Path, *, parameters: Mapping[str, str], names: Mapping[str, str] | None = None
    ) -> None:
        self.folder = path.parent
        self.raw: dict[str, Any] = yaml.load(path.read_text(), _Loader)  # noqa: S506  a SafeLoader
        self._given = parameters
        self._names = names or {}

    def of_type(self, kind: str) -> dict[str, dict[str, Any]]:
        """The resources of one type that the conditions keep: logical id to resolved properties."""
        return {
            logical_id: self.resolve(resource.get("Properties", {}))
            for logical_id, resource in self.raw.get("Resources", {}).items()
            if resource["Type"] == kind
            and ("Condition" not in resource or self._condition(resource["Condition"]))
        }

    def resolve(self, value: Any) -> Any:
        """value with every intrinsic function replaced by what it stands for locally."""
        if isinstance(value, list):
            return [made for item in value if (made := self.resolve(item)) is not _NOTHING]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            name, argument = next(iter(value.items()))
            if name == "Ref":
                return self._ref(argument)
            if name.startswith("Fn::"):
                return self._intrinsic(name.removeprefix("Fn::"), argument)
        resolved = {key: self.resolve(item) for key, item in value.items()}
        return {key: item for key, item in resolved.items() if item is not _NOTHING}

    def _ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return _NOTHING
        parameter = self.raw.get("Parameters", {}).get(name)
        if parameter is not None:
            value = self._given.get(name, parameter.get("Default"))
            if value is None:
                raise TemplateError(f"the parameter {name} has no value")
            if str(parameter["Type"]).startswith(_LIST_TYPES):
                return [part.strip() for part in str(value).split(",")] if value else []
            return value
        return self._names.get(name, _PSEUDO.get(name, name))

    def _attribute(self, logical_id: str, attribute: str) -> str:
        known = self._names.get(f"{logical_id}.{attribute}")
        return known or f"arn:aws:local:{REGION}:{ACCOUNT}:{logical_id}/{attribute}"

    def _substitute(self, argument: Any) -> str:
        text, extra = argument if isinstance(argument, list) else (argument, {})

        def replace(match: re.Match[str]) -> str:
            name = match[1]
            if name.startswith("!"):
                return "${" + name[1:] + "}"
            if name in extra:
                return str(self.resolve(extra[name]))
            if "." in name:
                return self._attribute(*name.split(".", 1))
            return str(self._ref(name))

        return re.sub(r"\$\{([^}]+)\}", replace, text)

    def _condition(self, name: str) -> bool:
        return bool(self.resolve(self.raw["Conditions"][name]))

    def _choose(self, argument: list[Any]) -> Any:
        name, when_true, when_false = argument
        return self.resolve(when_true if self._condition(name) else when_false)

    def _truth(self, argument: Any) -> bool:
        if isinstance(argument, dict) and set(argument) == {"Condition"}:
            return self._condition(argument["Condition"])
        return bool(self.resolve(argument))

    def _intrinsic(self, name: str, argument: Any) -> Any:
        known: dict[str, Callable[[Any], Any]] = {
            "GetAtt": lambda given: self._attribute(*given),
            "Sub": self._substitute,
            "If": self._choose,
            "Equals": lambda given: str(self.resolve(given[0])) == str(self.resolve(given[1])),
            "Not": lambda given: not self._truth(given[0]),
            "And": lambda given: all(self._truth(item) for item in given),
            "Or": lambda given: any(self._truth(item) for item in given),
            "Join": lambda given: str(given[0]).join(str(x) for x in self.resolve(given[1])),
            "Split": lambda given: str(self.resolve(given[1])).split(given[0]),
            "Select": lambda given: self.resolve(given[1])[int(self.resolve(given[0]))],
        }
        if name not in known:
            raise TemplateError(f"Fn::{name} is not known to the local stack")
        return known[name](argument)
