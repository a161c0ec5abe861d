"""Kept connections: used again, never for a request twice, and not when they may be dead."""

from __future__ import annotations

import gc
import select
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from postlease.model import Unknown, Unreachable
from postlease.providers import connections, exchanging
from postlease.providers.connections import Connections, NoAnswerError, NotConnectedError
from tests.doubles.ses_server import LOST, STALLED, Answer, SesServer
from tests.doubles.times import HASTY, PATIENT

if TYPE_CHECKING:
    from collections.abc import Iterator

SAID = b'{"MessageId": "ses-1"}'


@pytest.fixture(scope="module")
def running() -> Iterator[SesServer]:
    with SesServer() as server:
        yield server


@pytest.fixture
def server(running: SesServer) -> SesServer:
    running.forget()
    return running


def ask(client: Connections, began_at: float | None = None) -> exchanging.Answer:
    began_at = time.monotonic() if began_at is None else began_at
    return client.ask("POST", "/x", {"Host": "x"}, b'{"EmailTags": []}', began_at=began_at)


def test_requests_one_after_another_share_a_connection(server: SesServer) -> None:
    client = Connections(server.url, PATIENT)
    server.plan.append(Answer(400, b"no", {"X-Amzn-ErrorType": "Bad"}))
    refused, taken = ask(client), ask(client)
    assert (refused.status, refused.content) == (400, b"no")
    assert refused.headers["x-amzn-errortype"] == "Bad"
    assert (taken.status, taken.content) == (200, SAID)
    assert len(server.callers) == 1


def test_requests_at_the_same_time_have_connections_of_their_own(server: SesServer) -> None:
    client = Connections(server.url, PATIENT)
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: ask(client).status, range(64)))
    assert answers == [200] * 64
    assert len(server.requests) == 64
    assert len(server.callers) == len(client.idle) <= 8


def test_a_kept_connection_that_the_other_side_closed_is_replaced_before_the_request(
    server: SesServer,
) -> None:
    client = Connections(server.url, PATIENT)
    for number in range(1, 4):
        server.plan.append(Answer(200, SAID, cut_at=len(SAID)))  # and then it hangs up
        assert ask(client).status == 200
        [(kept, _)] = client.idle
        assert select.select([kept.sock], [], [], 10)[0]
        assert (len(server.callers), len(server.requests)) == (number, number)


def test_a_connection_that_was_idle_for_long_is_not_used_again(
    server: SesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Connections(server.url, PATIENT)
    ask(client)
    [(kept, _)] = client.idle
    monkeypatch.setattr(connections, "KEPT_SECONDS", 0)
    ask(client)
    assert kept.sock is None
    assert len(server.callers) == 2


@pytest.mark.parametrize(
    ("answer", "code"), [(LOST, "connection_closed"), (STALLED, "read_timeout")]
)
@pytest.mark.parametrize("before", [0, 1])
def test_what_may_have_left_is_never_sent_again(
    server: SesServer, answer: Answer, code: str, before: int
) -> None:
    """Over a new connection, and over one that was used before."""
    client = Connections(server.url, HASTY)
    for _ in range(before):
        ask(client)
    server.plan.append(answer)
    with pytest.raises(NoAnswerError) as caught:
        ask(client)
    assert caught.value.outcome == Unknown(code)
    assert len(server.requests) == before + 1
    assert client.idle == []


@pytest.mark.parametrize(
    "raw", [b"HTTP/1.1 2xx OK\r\n\r\n", b"<html>\r\n", b"HTTP/9 200 OK\r\n\r\n"]
)
def test_what_is_no_answer_of_http_is_unknown(raw: bytes, server: SesServer) -> None:
    client = Connections(server.url, PATIENT)
    server.plan.append(Answer(raw=raw))
    with pytest.raises(NoAnswerError) as caught:
        ask(client)
    assert isinstance(caught.value.outcome, Unknown)
    assert client.idle == []


@pytest.mark.parametrize("before", [0, 1])
def test_what_had_no_time_left_before_its_first_byte_has_not_left(
    server: SesServer, before: int
) -> None:
    """Whatever took it: the name, the credentials, or a freeze. Over a kept connection too."""
    client = Connections(server.url, PATIENT)
    for _ in range(before):
        ask(client)
    limit = (PATIENT.connect_timeout + PATIENT.read_timeout).total_seconds()
    with pytest.raises(NotConnectedError) as caught:
        ask(client, began_at=time.monotonic() - limit)
    assert caught.value.outcome == Unreachable("connect_timeout")
    assert len(server.requests) == before


def test_authorities_that_cannot_be_read_trust_nobody(server: SesServer) -> None:
    client = Connections(
        server.url.replace("http:", "https:"), PATIENT, authorities="/nonexistent/bundle.pem"
    )
    with pytest.raises(NotConnectedError) as caught:
        ask(client)
    assert caught.value.outcome == Unreachable("tls_failed")


def test_connections_that_are_let_go_are_closed(server: SesServer) -> None:
    client = Connections(server.url, PATIENT)
    ask(client)
    [(kept, _)] = client.idle
    del client
    gc.collect()
    assert kept.sock is None
