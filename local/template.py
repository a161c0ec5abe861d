"""`template.yaml` as the local stack needs it: functions, routes, schedules, queues.

Nothing is started here.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local.cloudformation import Document

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LEAST_CONCURRENCY = 2
"""What Lambda lets MaximumConcurrency be at least; enough for one machine where none is set."""


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
    """A queue that invokes a function; queue is its ARN.

    concurrency is how many batches may be under way at once. reports: the function's answer names
    the messages that failed; otherwise a batch is done, or not, as a whole.
    """

    queue: str
    function: str
    batch_size: int
    concurrency: int
    reports: bool


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


class Template(Document):
    """What the template says about everything that the local stack runs."""

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
        """Every enabled SQS event source, be it a function's event or a resource of its own."""
        found = [
            _queue_source(str(event["Queue"]), function, event)
            for function, _, event in self._events("SQS")
        ]
        by_id = {item.logical_id: item.name for item in self.functions}
        for event in self.of_type("AWS::Lambda::EventSourceMapping").values():
            function = by_id[str(event["FunctionName"])]
            found.append(_queue_source(str(event["EventSourceArn"]), function, event))
        return tuple(source for source in found if source is not None)

    @functools.cached_property
    def cors(self) -> Cors | None:
        """The HTTP API's CORS configuration, or None."""
        for api in self.of_type("AWS::Serverless::HttpApi").values():
            if isinstance(given := api.get("CorsConfiguration"), dict):
                return Cors(
                    origins=_words(given, "AllowOrigins"),
                    methods=_words(given, "AllowMethods"),
                    headers=_words(given, "AllowHeaders"),
                    exposed=_words(given, "ExposeHeaders"),
                    max_age=int(given["MaxAge"]) if "MaxAge" in given else None,
                )
        return None

    def layer_folder(self, logical_id: str) -> Path:
        """Where a layer's content lies in the source tree."""
        content = self.raw["Resources"][logical_id]["Properties"]["ContentUri"]
        return self.folder / str(self.resolve(content))

    def _function(self, logical_id: str, own: dict[str, Any]) -> TemplateFunction:
        shared = self.resolve(self.raw.get("Globals", {}).get("Function", {}))
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


def _queue_source(queue: str, function: str, event: Mapping[str, Any]) -> QueueSource | None:
    if event.get("Enabled") is False:
        return None
    scaling = event.get("ScalingConfig", {})
    return QueueSource(
        queue=queue,
        function=function,
        batch_size=int(event.get("BatchSize", 10)),
        concurrency=int(scaling.get("MaximumConcurrency", _LEAST_CONCURRENCY)),
        reports="ReportBatchItemFailures" in event.get("FunctionResponseTypes", ()),
    )


def _words(given: Mapping[str, Any], name: str) -> tuple[str, ...]:
    return tuple(str(word) for word in given.get(name, ()))
