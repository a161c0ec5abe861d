"""The environment as one frozen value. Nothing else reads `os.environ`.

A missing or malformed variable stops the function at start with the variable's name, never its
value. Secrets are not here: the settings hold their ARNs.
"""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias, assert_never

from postlease.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from postlease.model import Purpose

RetentionMode: TypeAlias = Literal["delete", "archive", "both"]

LEASE_BOUNDS = (timedelta(seconds=30), timedelta(seconds=90))
"""Shorter, and a slow provider looks dead; longer, and a dead worker stalls its mail."""

LARGEST_MAILS = {"ses": 40 * 1024 * 1024, "resend": 40 * 1024 * 1024, "smtp": 40 * 1024 * 1024}
"""Bytes of a whole message after base64 that each provider takes (SES quotas; Resend's limits).
A relay tells its own at send: this is what most of them are set to at most."""

_LONGEST_NAME = 128
_HIGHEST_LIMIT = 1_000_000
_STAGES = ("local", "dev", "staging", "prod")
PROVIDERS = ("ses", "smtp", "resend")
_SES_CLIENTS = ("signed", "boto3")
_SWITCH = ("on", "off")
_RETENTION_MODES = ("delete", "archive", "both")
_SMTP_SECURITY = ("none", "starttls", "tls")
# Links are made by appending to it: no login, query or fragment.
_PLAIN_URL = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?")
# Where a person is sent on to: with a query if need be, never with a fragment of its own.
_PAGE_URL = re.compile(_PLAIN_URL.pattern + r"(\?[A-Za-z0-9._~/?:@!$&'()*+;=%-]*)?")
# What `mime` writes into a header and the schema keeps: plain ASCII, a domain with a dot.
_BARE_ADDRESS = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}"
    r"@([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
)


@dataclass(frozen=True, slots=True)
class TimeRules:
    """The durations of one delivery, and the rules that keep them honest."""

    call_budget: timedelta
    connect_timeout: timedelta
    read_timeout: timedelta
    lease: timedelta
    unknown_grace: timedelta
    start_margin: timedelta
    caller_margin: timedelta
    sweep_timeout: timedelta
    sweep_linger: timedelta

    @property
    def needed_to_start(self) -> timedelta:
        """What lease and invocation must both have left before a call may start."""
        return self.call_budget + self.start_margin

    def broken_rules(self, *, bounded_lease: bool) -> list[str]:
        """Each broken rule as a sentence that names the variables; empty when all hold."""
        rules = {
            "CONNECT_TIMEOUT_SECONDS + READ_TIMEOUT_SECONDS must be below CALL_BUDGET_SECONDS": (
                self.connect_timeout + self.read_timeout < self.call_budget
            ),
            "CALL_BUDGET_SECONDS + START_MARGIN_SECONDS must be below LEASE_SECONDS": (
                self.needed_to_start < self.lease
            ),
            "LEASE_SECONDS + UNKNOWN_GRACE_SECONDS must be at least SWEEP_TIMEOUT_SECONDS + "
            "CALLER_MARGIN_SECONDS": (
                self.lease + self.unknown_grace >= self.sweep_timeout + self.caller_margin
            ),
            "SWEEP_LINGER_SECONDS + CALL_BUDGET_SECONDS + START_MARGIN_SECONDS must be at most "
            "SWEEP_TIMEOUT_SECONDS": (
                self.sweep_linger + self.needed_to_start <= self.sweep_timeout
            ),
            "LEASE_SECONDS must be from 30 to 90": (
                not bounded_lease or LEASE_BOUNDS[0] <= self.lease <= LEASE_BOUNDS[1]
            ),
        }
        return [sentence for sentence, holds in rules.items() if not holds]


@dataclass(frozen=True, slots=True)
class Smtp:
    """An SMTP relay. credentials_secret_arn: JSON with `username` and `password`, or none."""

    host: str
    port: int
    security: str
    credentials_secret_arn: str | None


@dataclass(frozen=True, slots=True)
class Resend:
    """An account at Resend. endpoint is the API's URL without a path at its end."""

    api_key_secret_arn: str
    endpoint: str


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that the environment decides; `docs/configuration.md` lists the defaults."""

    stage: str
    database_secret_arn: str
    database_owner_secret_arn: str | None
    token_keys_secret_arn: str
    pepper_secret_arn: str
    public_url: str
    from_address: str
    from_name: str
    allowed_senders: Mapping[str, str]  # as they are configured, by their lower case
    mail_provider: str
    ses_configuration_set: str | None
    ses_client: str
    smtp: Smtp | None
    resend: Resend | None
    attachments_bucket: str
    doorbell_queue_url: str | None
    templates_directory: str | None
    times: TimeRules
    send_slots: int
    attachment_bytes_in_flight: int
    sends_per_second: int | None
    max_attempts: int
    verify_token_lifetime: timedelta
    verify_codes: bool
    verify_redirect_urls: tuple[str, ...]
    reset_token_lifetime: timedelta
    reset_url: str | None
    signup_cooldown: timedelta
    mailbox_limit_per_hour: int | None
    mailbox_limit_per_day: int | None
    client_limit_per_minute: int | None
    client_limit_per_hour: int | None
    idempotency_lifetime: timedelta
    retention: timedelta
    retention_mode: RetentionMode
    redact_after: timedelta
    archived_for: timedelta

    @property
    def largest_mail(self) -> int:
        """Bytes of a whole message after base64 that the configured provider takes."""
        return LARGEST_MAILS[self.mail_provider]

    def token_lifetime(self, purpose: Purpose) -> timedelta:
        """How long a token for purpose lives."""
        match purpose:
            case "verify_email":
                return self.verify_token_lifetime
            case "reset_password":
                return self.reset_token_lifetime
            case _:
                assert_never(purpose)


class _Reader:
    """Reads one variable at a time and names it in every complaint."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def optional(self, name: str) -> str | None:
        return self._environment.get(name, "").strip() or None

    def text(self, name: str, default: str | None = None) -> str:
        value = self.optional(name) or default
        if value is None:
            raise ConfigurationError(f"{name} is not set")
        return value

    def choice(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        value = self.text(name, default)
        if value not in allowed:
            raise ConfigurationError(f"{name} must be one of {', '.join(allowed)}")
        return value

    def retention_mode(self, name: str) -> RetentionMode:
        """What becomes of old messages."""
        match self.choice(name, _RETENTION_MODES, "delete"):
            case "archive":
                return "archive"
            case "both":
                return "both"
            case _:
                return "delete"

    def number(self, name: str, default: int, *, low: int, high: int) -> int:
        text = self.optional(name)
        if text is None:
            return default
        if not re.fullmatch(r"[0-9]{1,9}", text) or not low <= int(text) <= high:
            raise ConfigurationError(f"{name} must be a whole number from {low} to {high}")
        return int(text)

    def limit(self, name: str, default: int) -> int | None:
        """How often something may happen; None for as often as one likes, which is written 0."""
        return self.number(name, default, low=0, high=_HIGHEST_LIMIT) or None

    def seconds(
        self, name: str, default: float, *, low: float = 0, high: float = 86_400 * 31
    ) -> timedelta:
        text = self.optional(name)
        if text is None:
            return timedelta(seconds=default)
        plain = re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,3})?", text)
        if not plain or not low <= float(text) <= high:
            bounds = f"from {low:.0f} to {high:.0f}"
            raise ConfigurationError(f"{name} must be a number of seconds {bounds}")
        return timedelta(seconds=float(text))

    def url(self, name: str, default: str | None = None) -> str:
        value = self.text(name, default).rstrip("/")
        if not _PLAIN_URL.fullmatch(value):
            raise ConfigurationError(f"{name} must be an http or https URL without a query")
        return value

    def page(self, name: str, *, stage: str) -> str | None:
        """A page that a token is handed to in the fragment: as it stands, or none."""
        value = self.optional(name)
        if value is not None and not _is_page(value, stage, _PLAIN_URL):
            raise ConfigurationError(f"{name} must be an https URL without a query")
        return value

    def pages(self, name: str, *, stage: str) -> tuple[str, ...]:
        """The listed pages, in their order."""
        value = self.optional(name)
        listed = tuple(part.strip() for part in value.split(",")) if value else ()
        if not all(_is_page(part, stage, _PAGE_URL) for part in listed):
            raise ConfigurationError(f"{name} must be https URLs separated by commas")
        return listed

    def name(self, name: str) -> str:
        value = self.optional(name) or ""
        if not value.isprintable() or len(value) > _LONGEST_NAME:
            raise ConfigurationError(
                f"{name} must be printable and at most {_LONGEST_NAME} characters"
            )
        return value

    def address(self, name: str) -> str:
        value = self.text(name)
        if not _BARE_ADDRESS.fullmatch(value):
            raise ConfigurationError(f"{name} must be one bare address")
        return value

    def senders(self, name: str, *, always: str) -> dict[str, str]:
        """always and the listed addresses as they are written, by themselves in lower case."""
        listed = [part.strip() for part in self.text(name, always).split(",")]
        if not all(part.isascii() and _BARE_ADDRESS.fullmatch(part) for part in listed):
            raise ConfigurationError(f"{name} must be bare ASCII addresses separated by commas")
        return {part.lower(): part for part in (*listed, always)}


def _is_page(url: str, stage: str, form: re.Pattern[str]) -> bool:
    """Whether url has that form, and is encrypted wherever others could listen."""
    return bool(form.fullmatch(url)) and (stage == "local" or url.startswith("https://"))


def _read_times(read: _Reader, *, stage: str) -> TimeRules:
    times = TimeRules(
        call_budget=read.seconds("CALL_BUDGET_SECONDS", 20),
        connect_timeout=read.seconds("CONNECT_TIMEOUT_SECONDS", 2),
        read_timeout=read.seconds("READ_TIMEOUT_SECONDS", 10),
        lease=read.seconds("LEASE_SECONDS", 45),
        unknown_grace=read.seconds("UNKNOWN_GRACE_SECONDS", 120),
        start_margin=read.seconds("START_MARGIN_SECONDS", 3),
        caller_margin=read.seconds("CALLER_MARGIN_SECONDS", 30),
        sweep_timeout=read.seconds("SWEEP_TIMEOUT_SECONDS", 90),
        sweep_linger=read.seconds("SWEEP_LINGER_SECONDS", 65),
    )
    # The local stack scales all durations down together; what is deployed keeps to the bounds.
    if broken := times.broken_rules(bounded_lease=stage != "local"):
        raise ConfigurationError("; ".join(broken))
    return times


def _read_smtp(read: _Reader) -> Smtp:
    return Smtp(
        host=read.text("SMTP_HOST"),
        port=read.number("SMTP_PORT", 587, low=1, high=65_535),
        security=read.choice("SMTP_SECURITY", _SMTP_SECURITY, "starttls"),
        credentials_secret_arn=read.optional("SMTP_SECRET_ARN"),
    )


def _read_resend(read: _Reader, *, stage: str) -> Resend:
    endpoint = read.url("RESEND_ENDPOINT", "https://api.resend.com")
    # The API key travels with every mail.
    if stage != "local" and not endpoint.startswith("https://"):
        raise ConfigurationError("RESEND_ENDPOINT must be an https URL")
    return Resend(
        api_key_secret_arn=read.text("RESEND_API_KEY_SECRET_ARN"),
        endpoint=endpoint,
    )


def read_settings(environment: Mapping[str, str]) -> Settings:
    """The settings behind environment; ConfigurationError names the first variable at fault."""
    read = _Reader(environment)
    stage = read.choice("STAGE", _STAGES, "dev")
    provider = read.choice("MAIL_PROVIDER", PROVIDERS, "ses")
    return Settings(
        stage=stage,
        database_secret_arn=read.text("DATABASE_SECRET_ARN"),
        database_owner_secret_arn=read.optional("DATABASE_OWNER_SECRET_ARN"),
        token_keys_secret_arn=read.text("TOKEN_KEYS_SECRET_ARN"),
        pepper_secret_arn=read.text("PEPPER_SECRET_ARN"),
        public_url=read.url("PUBLIC_URL"),
        from_address=read.address("FROM_ADDRESS"),
        allowed_senders=read.senders("ALLOWED_SENDERS", always=read.address("FROM_ADDRESS")),
        from_name=read.name("FROM_NAME"),
        mail_provider=provider,
        ses_configuration_set=read.optional("SES_CONFIGURATION_SET"),
        ses_client=read.choice("SES_CLIENT", _SES_CLIENTS, "signed"),
        smtp=_read_smtp(read) if provider == "smtp" else None,
        resend=_read_resend(read, stage=stage) if provider == "resend" else None,
        attachments_bucket=read.text("ATTACHMENTS_BUCKET"),
        doorbell_queue_url=read.optional("DOORBELL_QUEUE_URL"),
        templates_directory=read.optional("TEMPLATES_DIRECTORY"),
        times=_read_times(read, stage=stage),
        send_slots=read.number("SEND_SLOTS", 10, low=1, high=1_000),
        attachment_bytes_in_flight=read.number(
            "ATTACHMENT_BYTES_IN_FLIGHT", 24_000_000, low=1, high=999_999_999
        ),
        sends_per_second=read.number("SENDS_PER_SECOND", 0, low=0, high=100_000) or None,
        max_attempts=read.number("MAX_ATTEMPTS", 5, low=1, high=20),
        verify_token_lifetime=read.seconds("VERIFY_TOKEN_SECONDS", 86_400, low=3_600),
        verify_codes=read.choice("VERIFY_CODES", _SWITCH, "off") == "on",
        verify_redirect_urls=read.pages("VERIFY_REDIRECT_URLS", stage=stage),
        reset_token_lifetime=read.seconds("RESET_TOKEN_SECONDS", 3_600, low=900),
        reset_url=read.page("RESET_URL", stage=stage),
        signup_cooldown=read.seconds("SIGNUP_COOLDOWN_SECONDS", 60),
        mailbox_limit_per_hour=read.limit("MAILBOX_LIMIT_PER_HOUR", 5),
        mailbox_limit_per_day=read.limit("MAILBOX_LIMIT_PER_DAY", 20),
        client_limit_per_minute=read.limit("CLIENT_LIMIT_PER_MINUTE", 30),
        client_limit_per_hour=read.limit("CLIENT_LIMIT_PER_HOUR", 300),
        idempotency_lifetime=read.seconds("IDEMPOTENCY_SECONDS", 86_400),
        retention=read.seconds("RETENTION_SECONDS", 90 * 86_400, high=86_400 * 3_650),
        retention_mode=read.retention_mode("RETENTION_MODE"),
        redact_after=read.seconds("REDACTION_SECONDS", 7 * 86_400, high=86_400 * 3_650),
        archived_for=read.seconds("ARCHIVE_SECONDS", 86_400 * 3_650, high=86_400 * 10_950),
    )


@functools.cache
def settings() -> Settings:
    """The settings of this process, read once."""
    return read_settings(os.environ)


def platform_variable(name: str) -> str | None:
    """A variable that AWS or its SDK reads too, as it stands now; no setting of ours."""
    return os.environ.get(name) or None
