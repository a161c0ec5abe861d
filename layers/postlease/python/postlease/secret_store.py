"""Secrets by ARN, from Secrets Manager, cached for five minutes. No value is ever printed."""

from __future__ import annotations

import json
from typing import Any

from postlease.errors import UnavailableError

MAX_AGE_SECONDS = 300


def read_text(arn: str, *, refresh: bool = False) -> str:
    """The secret's text. refresh asks the store even if a cached value is young.

    Raises UnavailableError when the store does not answer or refuses.
    """
    # boto3 behind it costs 300 ms of import: only a function that reads a secret pays.
    from aws_lambda_powertools.utilities import parameters  # noqa: PLC0415

    try:
        value = parameters.get_secret(arn, max_age=MAX_AGE_SECONDS, force_fetch=refresh)
    except parameters.exceptions.GetParameterError:
        # The cause may repeat what was asked for and how; the name of the store is enough.
        raise UnavailableError("the secret store did not answer") from None
    if not isinstance(value, str):
        raise UnavailableError("a secret is not text")
    return value


def read_json(arn: str, *, refresh: bool = False) -> dict[str, Any]:
    """The secret's JSON object; UnavailableError if it is not one."""
    try:
        value = json.loads(read_text(arn, refresh=refresh))
    except ValueError:
        raise UnavailableError("a secret is not JSON") from None
    if not isinstance(value, dict):
        raise UnavailableError("a secret is not a JSON object")
    return value
