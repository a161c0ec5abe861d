"""Secrets by ARN, from Secrets Manager, cached for five minutes. No value is ever printed."""

from __future__ import annotations

import functools
import json
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from postlease.errors import UnavailableError

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.parameters import SecretsProvider

MAX_AGE_SECONDS = 300

# A client may be shared between threads, but not made in two at once.
_making = threading.Lock()

_guard = threading.Lock()
_fetches: dict[tuple[str, bool], Future[object]] = {}


@functools.cache
def provider() -> SecretsProvider:
    """The store's client and its cache. It gives up within three seconds, retry included."""
    # boto3 behind it costs 300 ms of import: only a function that reads a secret pays.
    from aws_lambda_powertools.utilities.parameters import SecretsProvider  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    return SecretsProvider(
        boto_config=Config(
            connect_timeout=1,
            read_timeout=1,
            retries={"total_max_attempts": 2, "mode": "standard"},
        )
    )


def read_text(arn: str, *, refresh: bool = False) -> str:
    """The secret's text. refresh asks the store even if a cached value is young.

    Raises UnavailableError when the store does not answer or refuses.
    """
    from aws_lambda_powertools.utilities.parameters import exceptions  # noqa: PLC0415

    try:
        value = _fetch(arn, refresh=refresh)
    except exceptions.GetParameterError:
        # The cause may repeat what was asked for and how; the name of the store is enough.
        raise UnavailableError("the secret store did not answer") from None
    if not isinstance(value, str):
        raise UnavailableError("a secret is not text")
    return value


def _fetch(arn: str, *, refresh: bool) -> object:
    """What the store says, asked once for all threads that want it at the same time.

    Ten senders of a cold environment would else ask ten times, and some would wait in vain.
    """
    key = (arn, refresh)
    with _guard:
        fetch = _fetches.get(key)
        is_first = fetch is None
        if fetch is None:
            fetch = _fetches[key] = Future()
    if is_first:
        try:
            with _making:
                store = provider()
            fetch.set_result(store.get(arn, max_age=MAX_AGE_SECONDS, force_fetch=refresh))
        except BaseException as error:  # noqa: BLE001 - whoever waits is told the same, and raises it
            fetch.set_exception(error)
        finally:
            with _guard:
                del _fetches[key]
    return fetch.result()


def read_json(arn: str, *, refresh: bool = False) -> dict[str, Any]:
    """The secret's JSON object; UnavailableError if it is not one."""
    try:
        value = json.loads(read_text(arn, refresh=refresh))
    except ValueError:
        raise UnavailableError("a secret is not JSON") from None
    if not isinstance(value, dict):
        raise UnavailableError("a secret is not a JSON object")
    return value
