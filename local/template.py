"""`template.yaml` as the local stack needs it: functions, routes, schedules, queues, secrets.

Intrinsic functions are resolved against given parameters and local names. Nothing is started here.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from local.runtime import ACCOUNT, REGION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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


@dataclass(frozen=True, slots=True)
class Route:
    """One route of the HTTP API. key is `POST /path` or `$default`; iam: signed requests only."""

    key: str
    function: str
    iam: bool


@dataclass(frozen=True, slots=True)
class Schedule:
    """One schedule. input is the target's fixed event as JSON, or None for Scheduler's own."""

    name: str
    function: str
    expression: str
    timezone: str
    input: str | None


@dataclass(frozen=True, slots=True)
class QueueSource:
    """A queue that invokes a function; queue is the queue's logical id."""

    queue: str
    function: str
    batch_size: int


@dataclass(frozen=True, slots=True)
class TemplateFunction:
    """One function. name is its folder's name; layers are logical ids; timeout in seconds."""

    name: str
    logical_id: str
    folder: Path
    handler: str
    timeout: int
    memory: int
    reserved: int | None
    layers: tuple[str, ...]
    environment: Mapping[str, str]
    log_format: str | None
    log_level: str | None


@dataclass(frozen=True, slots=True)
class Cors:
    """What API Gateway answers a browser's preflight with."""

    origins: tuple[str, ...]
    methods: tuple[str, ...]
    headers: tuple[str, ...]
    exposed: tuple[str, ...]
    max_age: int | None


class Template:
    """A template with parameters filled in. names gives what a !Ref to a resource yields locally."""

    def __init__(
        self, path: Path, *, parameters: Mapping[str, str], names: Mapping[str, str] | None = None
    ) -> None:
        self.folder = path.parent
        self._raw: dict[str, Any] = yaml.load(path.read_text(), _Loader)  # noqa: S506  a SafeLoader
        self._given = parameters
        self._names = names or {}

    def of_type(self, kind: str) -> dict[str, dict[str, Any]]:
        """The resources of one type that the conditions keep: logical id to resolved properties."""
        return {
            logical_id: self.resolve(resource.get("Properties", {}))
            for logical_id, resource in self._raw.get("Resources", {}).items()
            if resource["Type"] == kind
            and ("Condition" not in resource or self._condition(resource["Condition"]))
        }

    @functools.cached_property
    def functions(self) -> tuple[TemplateFunction, ...]:
        """Every function."""
        return tuple(
            self._function(logical_id, properties)
            for logical_id, properties in self.of_type("AWS::Serverless::Function").items()
        )

    @functools.cached_property
    def routes(self) -> tuple[Route, ...]:
        """Every route; one without path and method is `$default`."""
        default = [
            api.get("Auth", {}).get("DefaultAuthorizer")
            for api in self.of_type("AWS::Serverless::HttpApi").values()
        ]
        found = []
        for function, _, event in self._events("HttpApi"):
            path, method = event.get("Path"), str(event.get("Method", "ANY")).upper()
            key = "$default" if path in {None, "$default"} else f"{method} {path}"
            authorizer = event.get("Auth", {}).get("Authorizer", *default[:1])
            found.append(Route(key, function, iam=authorizer == "AWS_IAM"))
        return tuple(found)

    @functools.cached_property
    def schedules(self) -> tuple[Schedule, ...]:
        """Every enabled schedule, be it a function's event or a resource of its own."""
        found = []
        for kind in ("ScheduleV2", "Schedule"):
            for function, name, event in self._events(kind):
                target = {"Input": event.get("Input")}
                found.append(self._schedule(f"{function}-{name}", function, event, target))
        by_arn = {
            self.resolve({"Fn::GetAtt": [item.logical_id, "Arn"]}): item for item in self.functions
        }
        for name, event in self.of_type("AWS::Scheduler::Schedule").items():
            target = event["Target"]
            found.append(self._schedule(name, by_arn[target["Arn"]].name, event, target))
        return tuple(schedule for schedule in found if schedule is not None)

    @functools.cached_property
    def queue_sources(self) -> tuple[QueueSource, ...]:
        """Every SQS event source."""
        return tuple(
            QueueSource(str(event["Queue"]), function, int(event.get("BatchSize", 10)))
            for function, _, event in self._events("SQS")
        )

    @functools.cached_property
    def cors(self) -> Cors | None:
        """The HTTP API's CORS configuration, or None."""
        for api in self.of_type("AWS::Serverless::HttpApi").values():
            if isinstance(given := api.get("CorsConfiguration"), dict):
                words = [
                    tuple(str(word) for word in given.get(name, ()))
                    for name in ("AllowOrigins", "AllowMethods", "AllowHeaders", "ExposeHeaders")
                ]
                age = given.get("MaxAge")
                return Cors(*words, max_age=None if age is None else int(age))
        return None

    def layer_folder(self, logical_id: str) -> Path:
        """Where a layer's content lies in the source tree."""
        content = self._raw["Resources"][logical_id]["Properties"]["ContentUri"]
        return self.folder / str(self.resolve(content))

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

    def _function(self, logical_id: str, own: dict[str, Any]) -> TemplateFunction:
        shared = self.resolve(self._raw.get("Globals", {}).get("Function", {}))
        folder = self.folder / own["CodeUri"]
        properties = {**shared, **own}
        environment = {
            **shared.get("Environment", {}).get("Variables", {}),
            **own.get("Environment", {}).get("Variables", {}),
        }
        logging = {**shared.get("LoggingConfig", {}), **own.get("LoggingConfig", {})}
        reserved = properties.get("ReservedConcurrentExecutions")
        return TemplateFunction(
            name=folder.name,
            logical_id=logical_id,
            folder=folder,
            handler=properties["Handler"],
            timeout=int(properties.get("Timeout", 3)),
            memory=int(properties.get("MemorySize", 128)),
            reserved=None if reserved is None else int(reserved),
            layers=(*shared.get("Layers", ()), *own.get("Layers", ())),
            environment={name: str(value) for name, value in environment.items()},
            log_format=logging.get("LogFormat"),
            log_level=logging.get("ApplicationLogLevel"),
        )

    def _events(self, kind: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Function name, event name and properties of each event of one kind."""
        for properties in self.of_type("AWS::Serverless::Function").values():
            for name, event in properties.get("Events", {}).items():
                if event["Type"] == kind:
                    yield Path(properties["CodeUri"]).name, name, event.get("Properties", {})

    def _schedule(
        self, name: str, function: str, event: dict[str, Any], target: dict[str, Any]
    ) -> Schedule | None:
        if event.get("State") == "DISABLED" or event.get("Enabled") is False:
            return None
        return Schedule(
            name=str(event.get("Name", name)),
            function=function,
            expression=str(event.get("ScheduleExpression", event.get("Schedule"))),
            timezone=str(event.get("ScheduleExpressionTimezone", "UTC")),
            input=target.get("Input"),
        )

    def _ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return _NOTHING
        parameter = self._raw.get("Parameters", {}).get(name)
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
        return bool(self.resolve(self._raw["Conditions"][name]))

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
