"""The whole of Postlease on this machine: database, emulated AWS, functions, gateway, triggers.

    with Stack(schedules=False) as stack:
        requests to stack.url; stack.invoke("sweep"); stack.inbox()

Everything listens on loopback alone and is gone when the block ends, or when this process dies.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psycopg

from local import postgres, resources
from local.aws import Aws
from local.console import PREFIX, Console
from local.definitions import Definitions
from local.events import http_event, queue_event, schedule_event
from local.functions import Function
from local.gateway import Gateway
from local.keeper import Keeper
from local.own_database import OwnDatabase, OwnDatabaseError
from local.provider import Events, Fault, Provider
from local.queues import Poller
from local.rules import targets
from local.schedules import Scheduler
from local.web import LOOPBACK, Front, Request, Response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from local.built import Built
    from local.provider import Mode
    from local.runtime import Result
    from local.sendemail import SendEmail
    from local.ses_events import EventKind

ROOT = Path(__file__).resolve().parent.parent
SENDER = "no-reply@postlease.example"
MIGRATE = "migrate"

_COUNT_BY_STATUS = """-- console.count_by_status
    SELECT status, count(*) FROM postlease.email_messages GROUP BY status ORDER BY status"""


class StackError(Exception):
    """The stack cannot run; the text is one line and says why."""


class Stack:
    """Runs from `__enter__` to `__exit__`.

    schedules and queues: whether they start functions by themselves; queues goes with schedules
    when it is not said. settings are environment variables of every function, over the template's;
    timeouts are seconds by function, over the template's. logs is a folder for logs that outlives
    the stack; older ones in it are removed first. database_url is the server to use instead of
    DATABASE_URL's or a private one; the stack works in a database of its own there, and drops it.
    built: run what `sam build` made of the template, instead of the source and this environment.
    """

    def __init__(  # noqa: PLR0913  each is named by its caller, and has a default
        self,
        *,
        port: int = 0,
        schedules: bool = False,
        queues: bool | None = None,
        settings: Mapping[str, str] | None = None,
        timeouts: Mapping[str, float] | None = None,
        template: Path = ROOT / "template.yaml",
        logs: Path | None = None,
        database_url: str | None = None,
        built: Built | None = None,
    ) -> None:
        self._wanted_port = port
        self._with_schedules = schedules
        self._with_queues = schedules if queues is None else queues
        self._settings = dict(settings or {})
        self._timeouts = dict(timeouts or {})
        self._template_path = template
        self._logs = logs
        self._server_url = database_url
        self._built = built
        self.functions: dict[str, Function] = {}
        self._pollers: dict[str, Poller] = {}
        self._queue_urls: dict[str, str] = {}
        self._scheduler: Scheduler | None = None
        self.database_url = ""

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as started:
            self._start(started)
            self._started = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._started.close()

    @property
    def url(self) -> str:
        """Where the HTTP API answers."""
        return f"http://{self._front.address}"

    @property
    def server(self) -> str:
        """Which PostgreSQL server the database is made on, and dropped again; no password."""
        return self._database.server

    def invoke(self, name: str, event: Any = None) -> Any:
        """Run a function and return its result; StackError carries what went wrong inside it."""
        result = self.run(name, event)
        if result.error is not None:
            raise StackError(f"{name} failed: {result.payload.decode(errors='replace')}")
        return result.value

    def run(self, name: str, event: Any = None, *, patience: float = 60) -> Result:
        """Run a function with event, or its trigger's, and return the result whatever it is.

        A function behind a queue gets what waits there, which is then done or comes again as if the
        queue had started it. ThrottledError when no worker is free for patience seconds.
        """
        if event is None and name in self._pollers:
            return self._pollers[name].once(patience=patience)
        given = self.trigger_event(name) if event is None else event
        return self.functions[name].invoke(given, patience=patience)

    def kill(self, name: str) -> list[int]:
        """SIGKILL the function's busy workers and return their process ids."""
        return self.functions[name].kill()

    def set_faults(
        self, mode: Mode = "accept", *, times: int | None = None, seconds: float = 0
    ) -> None:
        """Decide what the provider does to its next calls."""
        self.provider.set_fault(Fault(mode, times, seconds))

    def set_events(self, *kinds: EventKind, times: int | None = None, seconds: float = 0) -> None:
        """Decide what SES tells of the next accepted mails; the template's rules bring it on."""
        self.provider.set_events(Events(kinds, times, seconds))

    def inbox(self) -> list[dict[str, Any]]:
        """Every accepted mail, newest last."""
        return self.provider.inbox.mails()

    def queue(self) -> dict[str, int]:
        """Messages by status, counted in the database."""
        with psycopg.connect(self.database_url) as connection:
            return dict(connection.execute(_COUNT_BY_STATUS).fetchall())

    def state(self) -> dict[str, Any]:
        """What runs: URLs, functions with their processes, schedules."""
        return {
            "database_url": self.database_url,
            "endpoint_url": self.aws.endpoint_url,
            "functions": [
                {
                    "name": function.name,
                    "pid": function.last_pid,
                    "pids": function.pids,
                    "busy_pids": function.busy_pids,
                    "cold_starts": function.cold_starts,
                    "init_milliseconds": function.init_milliseconds,
                    "last_result": function.last_result,
                }
                for function in self.functions.values()
            ],
            "schedules": [
                {"name": s.name, "function": s.function, "expression": s.expression}
                for s in self.template.schedules
                if self.is_scheduled(s.name)
            ],
        }

    @property
    def has_schedules(self) -> bool:
        """Whether schedules are kept in this run, but for those that are switched off."""
        return self._scheduler is not None

    def is_scheduled(self, name: str) -> bool:
        """Whether the schedule of that name starts its function by itself."""
        return self._scheduler is not None and self._scheduler.is_on(name)

    def switch_schedule(self, name: str, *, on: bool) -> None:
        """Let a schedule skip its times, or keep them again; nothing where none is kept at all."""
        if self._scheduler is not None:
            self._scheduler.switch(name, on=on)

    def trigger_event(self, name: str) -> Any:
        """The event that the function's own trigger would send now."""
        for schedule in self.template.schedules:
            if schedule.function == name:
                return schedule_event(schedule.name, schedule.input)
        for route in self.template.routes:
            if route.function == name:
                host = ("host", self._front.address)
                request = Request("GET", "/healthz", (host,), b"", LOOPBACK, self._front.listener)
                return http_event(request, route_key=route.key, parameters={})
        for source in self.template.queue_sources:
            if source.function == name:
                return queue_event(source.queue, ())
        return {}

    def _start(self, started: contextlib.ExitStack) -> None:
        self._gateway: Gateway | None = None
        self._front = Front(self._respond, port=self._wanted_port)
        started.callback(self._front.close)
        self._keeper = Keeper()
        started.callback(self._keeper.close)
        self._folder = Path(tempfile.mkdtemp(prefix="postlease-"))
        self._keeper.remove_folder(self._folder)
        self.log_folder = self._logs or self._folder
        self.log_folder.mkdir(parents=True, exist_ok=True)
        for old in self.log_folder.glob("*.log"):
            old.unlink()
        self.aws = started.enter_context(Aws(self._keeper, self.log_folder / "aws.log"))
        try:
            self._database = OwnDatabase(self._server_url, keeper=self._keeper, started=started)
        except OwnDatabaseError as error:
            raise StackError(str(error)) from error
        self.database_url = self._database.url
        self.provider = Provider(forward=self._forward, publish=self._publish)
        started.callback(self.provider.close)
        self.template, self._queue_urls = resources.make(
            self.aws,
            self._template_path,
            self._parameters(self._database.login),
            password=postgres.application_password(self.database_url),
            senders={SENDER, *self._settings.get("ALLOWED_SENDERS", "").split(",")},
        )
        self._ses = self.aws.client("sesv2")
        self._sqs = self.aws.client("sqs")
        surroundings = {
            "AWS_ENDPOINT_URL": self.aws.endpoint_url,
            "AWS_ENDPOINT_URL_SESV2": self.provider.url,
            **self._settings,
        }
        define = Definitions(self.template, self._built, self._folder, surroundings, self._timeouts)
        for function in self.template.functions:
            log = self.log_folder / f"{function.name}.log"
            made = Function(define.of(function), keeper=self._keeper, log=log)
            self.functions[function.name] = made
            started.callback(self.functions[function.name].close)
        self._migrate()
        self._console = Console(self)
        self._gateway = Gateway(self.template.routes, self.functions, cors=self.template.cors)
        self._connect_queues(started)
        if self._with_schedules:
            self._scheduler = Scheduler(self.template.schedules, self.functions)
            started.callback(self._scheduler.close)
            self._scheduler.start()

    def _connect_queues(self, started: contextlib.ExitStack) -> None:
        for source in self.template.queue_sources:
            poller = self._pollers[source.function] = Poller(
                source,
                self.functions[source.function],
                self.aws.client("sqs"),
                url=self._queue_urls[source.queue],
            )
            started.callback(poller.close)
            if self._with_queues:
                poller.start()

    def _parameters(self, owner: dict[str, str]) -> dict[str, str]:
        """What the template is told; owner is the database's login."""
        parameters = {
            "Stage": "local",
            "FromAddress": SENDER,
            "PublicUrl": self.url,
            "AllowedOrigin": self.url,
            "ResetUrl": f"{self.url}/_local/reset",
            "DatabaseHost": owner["host"],
            "DatabasePort": owner["port"],
            "DatabaseName": owner["dbname"],
            "DatabaseSslMode": owner["sslmode"],
            "DatabaseOwnerSecretArn": self.aws.create_secret("database-owner", json.dumps(owner)),
        }
        if self._built is not None:
            parameters["Architecture"] = self._built.processor
        return parameters

    def _migrate(self) -> None:
        if MIGRATE not in self.functions:
            return
        with self._database.server_alone():
            result = self.run(MIGRATE, {})
        if result.error is not None:
            raise StackError(_complaint(result))

    def _forward(self, call: SendEmail) -> str:
        return str(
            self._ses.send_email(**{**call.body, "Content": {"Raw": {"Data": call.content}}})[
                "MessageId"
            ]
        )

    def _publish(self, event: dict[str, Any]) -> None:
        for arn in targets(self.template, event):
            self._sqs.send_message(QueueUrl=self._queue_urls[arn], MessageBody=json.dumps(event))

    def _respond(self, request: Request) -> Response:
        if self._gateway is None:
            return Response(503, b"", (("retry-after", "1"),))
        if request.path == PREFIX or request.path.startswith(PREFIX + "/"):
            return self._console.respond(request)
        return self._gateway.respond(request)


def _complaint(result: Result) -> str:
    """One line out of what a function that failed answered; its log has the rest."""
    with contextlib.suppress(ValueError):
        told = result.value
        text = " ".join(str(told.get("errorMessage")).split())
        wrong_setting = told.get("errorType") == "ConfigurationError"
        return text if wrong_setting else f"{MIGRATE} failed: {text}"
    return f"{MIGRATE} failed"
