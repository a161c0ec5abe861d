"""The local stack as containers see it, so that `sam local` can run the functions against it.

A container's loopback is its own: what the stack has there is relayed to an address that
containers reach, and a file tells SAM the variables that lead there. docs/sam-local.md is the page.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import json
import socket
import struct
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from psycopg.conninfo import conninfo_to_dict

from local.relay import Relay
from local.web import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from local.stack import Stack

HOST = "host.docker.internal"
"""What containers call this machine: Docker Desktop knows it, samconfig.toml tells the others."""

PUBLIC_URL = "http://127.0.0.1:3000"
"""Where `sam local start-api` listens."""

ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SESV2")
"""The template names them without a value: SAM sets no variable that it does not find there."""

_OWN_NAMES = {LOOPBACK, "localhost", "::1"}
_BRIDGE = "docker0"
_SIOCGIFADDR = 0x8915


def bridge_address() -> str:
    """The address of Docker's bridge, or loopback, which Docker Desktop leads to, without one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked, contextlib.suppress(OSError):
        request = struct.pack("256s", _BRIDGE.encode())
        return socket.inet_ntoa(fcntl.ioctl(asked.fileno(), _SIOCGIFADDR, request)[20:24])
    return LOOPBACK


def wanted_address(value: str) -> str | None:
    """The address that SAM_LOCAL asks for, None for off. ValueError: neither word nor address."""
    match value.lower():
        case "" | "off" | "0" | "no" | "false":
            return None
        case "on" | "1" | "yes" | "true":
            return bridge_address()
    return str(ipaddress.IPv4Address(value))


class Containers:
    """Relays and the file of variables, from `__enter__` to `__exit__`.

    RelayError when address is none of this machine's. variables is what the file holds: by each
    function's logical id, all variables that the template names for it and no others.
    """

    def __init__(self, stack: Stack, address: str, file: Path) -> None:
        self._stack = stack
        self._address = address
        self.file = file

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as started:
            self._database = self._place(started)
            self._aws = f"http://{HOST}:{self._relay(started, _port(self._stack.aws.endpoint_url))}"
            self._ses = f"http://{HOST}:{self._relay(started, _port(self._stack.provider.url))}"
            self.variables = self._variables()
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.file.write_text(json.dumps(self.variables, indent=2) + "\n", "utf-8")
            started.callback(self.file.unlink, missing_ok=True)
            self._started = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._started.close()

    def _variables(self) -> dict[str, dict[str, str]]:
        logins = {
            name: self._login(name) for name in ("DATABASE_SECRET_ARN", "DATABASE_OWNER_SECRET_ARN")
        }
        found = {}
        for function in self._stack.template.functions:
            running = self._stack.functions[function.name].definition.environment
            own = {name: running[name] for name in function.environment}
            own |= {name: arn for name, arn in logins.items() if name in own}
            if url := own.get("DOORBELL_QUEUE_URL"):
                own["DOORBELL_QUEUE_URL"] = self._aws + urlsplit(url).path
            own["PUBLIC_URL"] = PUBLIC_URL
            own |= zip(ENDPOINTS, (self._aws, self._ses), strict=True)
            found[function.logical_id] = own
        return found

    def _relay(self, started: contextlib.ExitStack, behind: int) -> int:
        return started.enter_context(Relay(self._address, behind)).port

    def _place(self, started: contextlib.ExitStack) -> dict[str, Any]:
        """Where containers find the database: through a relay, unless it is another machine's."""
        login = conninfo_to_dict(self._stack.database_url)
        host, port = str(login.get("host") or "localhost"), int(login.get("port") or 5432)
        if host in _OWN_NAMES or host.startswith("/"):
            return {"host": HOST, "port": self._relay(started, port)}
        return {"host": host, "port": port}

    def _login(self, variable: str) -> str:
        """A copy of the secret that variable names, which leads through the relay; its ARN."""
        store = self._stack.aws.client("secretsmanager")
        name = f"containers-{variable.removesuffix('_SECRET_ARN').lower()}"
        arn = next(
            environment[variable]
            for function in self._stack.functions.values()
            if variable in (environment := function.definition.environment)
        )
        login: Mapping[str, Any] = json.loads(store.get_secret_value(SecretId=arn)["SecretString"])
        return self._stack.aws.create_secret(name, json.dumps({**login, **self._database}))


def _port(url: str) -> int:
    return urlsplit(url).port or 80
