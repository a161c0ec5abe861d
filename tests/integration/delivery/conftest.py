"""The sweep's world: its environment and database, and a provider on a real socket."""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from local.provider import Fault, Provider
from postlease import config, delivery
from postlease.delivery import Connections, Times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from postlease.database import Connection

SECONDS_LEFT = 60.0


class Sweeps:
    """Runs of the delivery in this process, and what the provider saw of them."""

    def __init__(self, provider: Provider, conninfo: str) -> None:
        self.provider = provider
        self._conninfo = conninfo
        self._threads = ThreadPoolExecutor(4)
        self._count = 0

    def run(self, *, seconds: float = SECONDS_LEFT, linger: float = 0) -> delivery.Tally:
        """One invocation that has seconds left and looks for new messages for linger seconds."""
        now = time.monotonic()
        times = Times(invocation_ends_at=now + seconds, linger_until=now + linger)
        with self._environment() as environment:
            return delivery.deliver(config.settings(), times, **environment)

    def ring(self, *ids: UUID, seconds: float = SECONDS_LEFT) -> delivery.Tally:
        """One invocation of the doorbell, for messages by id."""
        now = time.monotonic()
        times = Times(invocation_ends_at=now + seconds, linger_until=now)
        with self._environment() as environment:
            return delivery.deliver_named(config.settings(), times, ids, **environment)

    @contextlib.contextmanager
    def _environment(self) -> Iterator[dict[str, Any]]:
        """A worker's name and its connections, which end with the run."""
        self._count += 1
        connections = Connections.new(lambda *, refresh: self._conninfo)
        try:
            yield {"worker": f"worker-{self._count}", "connections": connections}
        finally:
            connections.discard()

    def start(self, **arguments: float) -> Future[delivery.Tally]:
        """The same, beside the test."""
        return self._threads.submit(lambda: self.run(**arguments))

    def start_ring(self, *ids: UUID) -> Future[delivery.Tally]:
        """A doorbell's invocation beside the test."""
        return self._threads.submit(lambda: self.ring(*ids))

    def at(self, conninfo: str) -> Sweeps:
        """The same provider, with another database."""
        return Sweeps(self.provider, conninfo)

    def meets(self, mode: Any, times: int | None = None, *, seconds: float = 0) -> None:
        """What the provider does to the next calls."""
        self.provider.set_fault(Fault(mode, times, seconds))

    def inbox(self) -> list[dict[str, Any]]:
        """The mails that the provider accepted."""
        return self.provider.inbox.mails()

    def close(self) -> None:
        """End the provider first, so that no call is held."""
        self.provider.close()
        self._threads.shutdown()


@pytest.fixture
def sweeps(
    environment: Callable[..., None], owner: Connection, application_conninfo: str
) -> Iterator[Sweeps]:
    """Empty tables, a provider that accepts, and times that a loaded machine keeps."""
    provider = Provider()
    environment(
        AWS_ENDPOINT_URL_SESV2=provider.url,
        CALL_BUDGET_SECONDS="10",
        CONNECT_TIMEOUT_SECONDS="2",
        READ_TIMEOUT_SECONDS="6",
        LEASE_SECONDS="20",
        UNKNOWN_GRACE_SECONDS="40",
        START_MARGIN_SECONDS="1",
        CALLER_MARGIN_SECONDS="2",
        SWEEP_TIMEOUT_SECONDS="30",
        SWEEP_LINGER_SECONDS="0",
    )
    running = Sweeps(provider, application_conninfo)
    yield running
    running.close()


@pytest.fixture
def bucket(environment: Callable[..., None]) -> Callable[[str, bytes], str]:
    """Puts objects into the attachments' bucket; answers their version."""
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="attachments")
    s3.put_bucket_versioning(Bucket="attachments", VersioningConfiguration={"Status": "Enabled"})

    def put(key: str, content: bytes) -> str:
        return s3.put_object(Bucket="attachments", Key=key, Body=content)["VersionId"]

    return put


@pytest.fixture
def connections(owner: Connection, application_conninfo: str) -> Iterator[Connections]:
    """A run's connections as the application role, to empty tables."""
    del owner
    own = Connections.new(lambda *, refresh: application_conninfo)
    yield own
    own.discard()
