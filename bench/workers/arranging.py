"""The environment of a deployed function, its secrets at hand: as warm as it is in its second call.

The secret store's own client and its cache stay in use; what is left out is AWS behind them.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

PEPPER = "pepper-" * 8
KEYS = {"current": "k1", "k1": "a-key-of-the-bench-" * 3}

_DEPLOYED = {
    "STAGE": "local",
    "DATABASE_SECRET_ARN": "database",
    "TOKEN_KEYS_SECRET_ARN": "keys",
    "PEPPER_SECRET_ARN": "pepper",
    "PUBLIC_URL": "https://mail.example.com",
    "FROM_ADDRESS": "noreply@example.com",
    "FROM_NAME": "Example",
    "ATTACHMENTS_BUCKET": "attachments",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "bench",
    "AWS_SECRET_ACCESS_KEY": "bench",
    "AWS_SESSION_TOKEN": "t" * 400,
    "AWS_EC2_METADATA_DISABLED": "true",
}


class _Secrets:
    """Secrets Manager's client, as far as it is asked."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def get_secret_value(self, **asked: Any) -> dict[str, str]:
        return {"SecretString": self._texts[asked["SecretId"]]}


def deployed(login: Mapping[str, str] | None = None, **variables: str) -> None:
    """Make this process look like a function's. login is what the database's secret holds."""
    os.environ.update(_DEPLOYED | variables)
    from aws_lambda_powertools.utilities.parameters import SecretsProvider  # noqa: PLC0415

    from postlease import secret_store  # noqa: PLC0415

    texts = {
        "database": json.dumps(dict(login or {})),
        "keys": json.dumps(KEYS),
        "pepper": PEPPER,
    }
    store = SecretsProvider(boto3_client=_Secrets(texts))
    secret_store.provider = lambda: store  # type: ignore[assignment]


class Line:
    """What this process says to the bench, on what was its standard output.

    The product logs to standard output, a line for each attempt: that goes on as deployed, to where
    writing costs nothing more.
    """

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w")
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123  a descriptor is wanted
            os.dup2(nowhere.fileno(), 1)

    def ready(self, told: Any = None) -> bool:
        """Say that all is ready and wait for the word to start; False if there is none."""
        self._say({"ready": told})
        return bool(sys.stdin.readline())

    def done(self, told: Any) -> None:
        """Say what was done."""
        self._say({"done": told})

    def _say(self, told: Any) -> None:
        self._out.write(json.dumps(told) + "\n")
        self._out.flush()


def given() -> dict[str, Any]:
    """What the bench asks of this process: the JSON object that is its argument."""
    asked: dict[str, Any] = json.loads(sys.argv[1])
    return asked
