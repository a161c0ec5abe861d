"""Secrets come from the store, are kept for a while, and are never told."""

from __future__ import annotations

import json
import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from postlease import secret_store as secret_stores
from postlease.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def create(secret_store: Any, environment: Callable[..., None]) -> Callable[..., str]:
    """Stores a secret and answers its ARN."""

    def store(**value: object) -> str:
        return str(secret_store.create_secret(Name=secrets.token_hex(8), **value)["ARN"])

    return store


def test_a_secret_is_its_text(create: Callable[..., str]) -> None:
    assert secret_stores.read_text(create(SecretString="pepper")) == "pepper"


def test_a_secret_is_kept_until_it_is_asked_for_anew(
    create: Callable[..., str], secret_store: Any
) -> None:
    arn = create(SecretString="old")
    assert secret_stores.read_text(arn) == "old"
    secret_store.put_secret_value(SecretId=arn, SecretString="new")
    assert secret_stores.read_text(arn) == "old"
    assert secret_stores.read_text(arn, refresh=True) == "new"
    assert secret_stores.read_text(arn) == "new"


def test_a_json_secret_is_its_object(create: Callable[..., str]) -> None:
    assert secret_stores.read_json(create(SecretString='{"current": "k1"}')) == {"current": "k1"}


@pytest.mark.parametrize("text", ["canary", "{canary", '["canary"]', '"canary"', "null", "1"])
def test_a_secret_that_is_no_json_object_is_unavailable_and_not_told(
    create: Callable[..., str], text: str
) -> None:
    with pytest.raises(UnavailableError) as caught:
        secret_stores.read_json(create(SecretString=text))
    assert "canary" not in f"{caught.value!r}"
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_binary_secret_is_refused(create: Callable[..., str]) -> None:
    with pytest.raises(UnavailableError, match="not text"):
        secret_stores.read_text(create(SecretBinary=b"canary"))


def test_a_secret_that_does_not_exist_is_unavailable_and_its_name_is_not_told(
    environment: Callable[..., None],
) -> None:
    with pytest.raises(UnavailableError) as caught:
        secret_stores.read_text("arn:aws:secretsmanager:us-east-1:123456789012:secret:canary")
    assert "canary" not in f"{caught.value!r}"


def test_a_store_that_is_away_is_unavailable(environment: Callable[..., None]) -> None:
    environment(AWS_ENDPOINT_URL="http://127.0.0.1:9")
    with pytest.raises(UnavailableError):
        secret_stores.read_text("arn:aws:secretsmanager:us-east-1:123456789012:secret:any")


def test_threads_that_want_a_secret_at_once_ask_for_it_once(
    environment: Callable[..., None],
) -> None:
    """A cold environment has as many senders as slots, and the store is to be asked once."""
    asked = threading.Semaphore(0)
    go_on = threading.Event()

    class Store(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            asked.release()
            go_on.wait(10)
            body = json.dumps({"ARN": "arn", "Name": "arn", "SecretString": "text"}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/x-amz-json-1.1")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Store) as server, ThreadPoolExecutor(11) as threads:
        threads.submit(server.serve_forever)
        environment(AWS_ENDPOINT_URL=f"http://127.0.0.1:{server.server_port}")
        together = threading.Barrier(10)

        def read() -> str:
            together.wait()
            return secret_stores.read_text("arn:aws:secretsmanager:us-east-1:123456789012:secret:a")

        answers = [threads.submit(read) for _ in range(10)]
        try:
            assert asked.acquire(timeout=10)
            assert not asked.acquire(timeout=0.4), "it was asked twice"
            go_on.set()
            assert {answer.result() for answer in answers} == {"text"}
            assert not asked.acquire(blocking=False)
        finally:
            go_on.set()
            server.shutdown()
