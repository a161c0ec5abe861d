"""What `postlease.config` reads, found by letting it read."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

from postlease.config import read_settings
from postlease.errors import ConfigurationError

# A value that each required variable accepts; found by asking, checked below.
REQUIRED = {
    "DATABASE_SECRET_ARN": "arn:database",
    "TOKEN_KEYS_SECRET_ARN": "arn:token-keys",
    "PEPPER_SECRET_ARN": "arn:pepper",
    "PUBLIC_URL": "https://mail.example.com",
    "FROM_ADDRESS": "no-reply@example.com",
    "ATTACHMENTS_BUCKET": "bucket",
}
SMTP = {"MAIL_PROVIDER": "smtp", "SMTP_HOST": "relay.example.com"}
RESEND = {"MAIL_PROVIDER": "resend", "RESEND_API_KEY_SECRET_ARN": "arn:api-key"}


class _Recorded(Mapping[str, str]):
    """An environment that notes each variable that is asked for."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.asked.add(name)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@functools.cache
def known_variables() -> frozenset[str]:
    """Every variable that the code asks for, over all providers."""
    asked: set[str] = set()
    for more in ({}, SMTP, RESEND):
        environment = _Recorded(REQUIRED | more)
        read_settings(environment)
        asked |= environment.asked
    return frozenset(asked)


def complete_for(name: str) -> dict[str, str]:
    """An environment in which the variable name is looked at."""
    return REQUIRED | (SMTP | RESEND if name.startswith("RESEND_") else RESEND | SMTP)


def is_required(name: str) -> bool:
    """Whether reading fails, naming it, when name alone is missing."""
    complete = complete_for(name)
    try:
        read_settings({key: value for key, value in complete.items() if key != name})
    except ConfigurationError as error:
        return name in str(error)
    return False
