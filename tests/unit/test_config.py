"""A wrong setting stops the function at start: with the variable's name, never its value."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from datetime import timedelta

import pytest

from postlease import config
from postlease.config import TimeRules, read_settings
from postlease.errors import ConfigurationError

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
DAY = timedelta(days=1)

SECONDS = {
    "CALL_BUDGET_SECONDS": "call_budget",
    "CONNECT_TIMEOUT_SECONDS": "connect_timeout",
    "READ_TIMEOUT_SECONDS": "read_timeout",
    "LEASE_SECONDS": "lease",
    "UNKNOWN_GRACE_SECONDS": "unknown_grace",
    "START_MARGIN_SECONDS": "start_margin",
    "CALLER_MARGIN_SECONDS": "caller_margin",
    "SWEEP_TIMEOUT_SECONDS": "sweep_timeout",
    "SWEEP_LINGER_SECONDS": "sweep_linger",
}
LIFETIMES = {
    "VERIFY_TOKEN_SECONDS": "verify_token_lifetime",
    "RESET_TOKEN_SECONDS": "reset_token_lifetime",
    "SIGNUP_COOLDOWN_SECONDS": "signup_cooldown",
    "IDEMPOTENCY_SECONDS": "idempotency_lifetime",
    "RETENTION_SECONDS": "retention",
    "REDACTION_SECONDS": "redact_after",
    "ARCHIVE_SECONDS": "archived_for",
}
YEARS = {"RETENTION_SECONDS": 10, "REDACTION_SECONDS": 10, "ARCHIVE_SECONDS": 30}
"""What may last longer than a month, of 365 days."""


LIMITS = {
    "MAILBOX_LIMIT_PER_HOUR": "mailbox_limit_per_hour",
    "MAILBOX_LIMIT_PER_DAY": "mailbox_limit_per_day",
    "CLIENT_LIMIT_PER_MINUTE": "client_limit_per_minute",
    "CLIENT_LIMIT_PER_HOUR": "client_limit_per_hour",
}

DEFAULT_TIMES = TimeRules(
    call_budget=timedelta(seconds=20),
    connect_timeout=timedelta(seconds=2),
    read_timeout=timedelta(seconds=10),
    lease=timedelta(seconds=45),
    unknown_grace=timedelta(seconds=120),
    start_margin=timedelta(seconds=3),
    caller_margin=timedelta(seconds=30),
    sweep_timeout=timedelta(seconds=90),
    sweep_linger=timedelta(seconds=65),
)


def complaint(**variables: str) -> str:
    """What is said about a complete environment with these variables."""
    with pytest.raises(ConfigurationError) as caught:
        read_settings(REQUIRED | variables)
    for value in variables.values():
        assert not value.strip() or value not in str(caught.value)
    return str(caught.value)


def test_what_need_not_be_set_has_its_documented_default() -> None:
    settings = read_settings(REQUIRED)
    assert settings.stage == "dev"
    assert settings.times == DEFAULT_TIMES
    assert settings.mail_provider == "ses"
    assert settings.smtp is None
    assert settings.ses_configuration_set is None
    assert settings.ses_client == "signed"
    assert settings.templates_directory is None
    assert settings.database_owner_secret_arn is None
    assert (settings.send_slots, settings.max_attempts) == (10, 5)
    assert settings.sends_per_second is None
    assert settings.verify_token_lifetime == DAY
    assert settings.reset_token_lifetime == timedelta(hours=1)
    assert settings.reset_url is None
    assert settings.verify_codes is False
    assert settings.verify_redirect_urls == ()
    assert [getattr(settings, name) for name in LIMITS.values()] == [5, 20, 30, 300]
    assert settings.signup_cooldown == timedelta(seconds=60)
    assert settings.idempotency_lifetime == DAY
    assert settings.retention == 90 * DAY
    assert settings.redact_after == 7 * DAY
    assert (settings.retention_mode, settings.archived_for) == ("delete", 3_650 * DAY)
    assert settings.attachment_bytes_in_flight == 24_000_000


def test_what_is_set_is_what_is_read() -> None:
    settings = read_settings(
        REQUIRED
        | {
            "STAGE": "prod",
            "DATABASE_OWNER_SECRET_ARN": "arn:owner",
            "SES_CONFIGURATION_SET": "set",
            "TEMPLATES_DIRECTORY": "/opt/templates",
            "SEND_SLOTS": "20",
            "ATTACHMENT_BYTES_IN_FLIGHT": "9000000",
            "SENDS_PER_SECOND": "14",
            "MAX_ATTEMPTS": "7",
        }
    )
    assert settings.stage == "prod"
    assert settings.database_secret_arn == "arn:database"
    assert settings.database_owner_secret_arn == "arn:owner"
    assert settings.token_keys_secret_arn == "arn:token-keys"
    assert settings.pepper_secret_arn == "arn:pepper"
    assert settings.public_url == "https://mail.example.com"
    assert settings.from_address == "no-reply@example.com"
    assert settings.attachments_bucket == "bucket"
    assert settings.ses_configuration_set == "set"
    assert settings.templates_directory == "/opt/templates"
    assert (settings.send_slots, settings.max_attempts) == (20, 7)
    assert settings.attachment_bytes_in_flight == 9_000_000
    assert settings.sends_per_second == 14


def test_settings_do_not_change() -> None:
    settings = read_settings(REQUIRED)
    with pytest.raises(FrozenInstanceError):
        settings.stage = "prod"  # type: ignore[misc]


@pytest.mark.parametrize("name", REQUIRED)
@pytest.mark.parametrize("value", [None, "", "  \t"])
def test_a_required_variable_that_is_missing_or_empty_is_named(
    name: str, value: str | None
) -> None:
    environment = {key: text for key, text in REQUIRED.items() if key != name}
    if value is not None:
        environment[name] = value
    with pytest.raises(ConfigurationError) as caught:
        read_settings(environment)
    assert str(caught.value) == f"{name} is not set"


@pytest.mark.parametrize(
    "name", ["DATABASE_OWNER_SECRET_ARN", "SES_CONFIGURATION_SET", "TEMPLATES_DIRECTORY"]
)
def test_an_optional_variable_that_is_empty_is_not_set(name: str) -> None:
    assert read_settings(REQUIRED | {name: " "}) == read_settings(REQUIRED)


def test_space_around_a_value_is_no_part_of_it() -> None:
    assert read_settings(REQUIRED | {"ATTACHMENTS_BUCKET": " bucket\n"}) == read_settings(REQUIRED)


@pytest.mark.parametrize("stage", ["local", "dev", "staging", "prod"])
def test_each_stage_is_known(stage: str) -> None:
    assert read_settings(REQUIRED | {"STAGE": stage}).stage == stage


@pytest.mark.parametrize("stage", ["production", "PROD", "canary"])
def test_an_unknown_stage_is_refused(stage: str) -> None:
    assert complaint(STAGE=stage) == "STAGE must be one of local, dev, staging, prod"


def test_an_unknown_mail_provider_is_refused() -> None:
    assert complaint(MAIL_PROVIDER="canary") == "MAIL_PROVIDER must be one of ses, smtp, resend"


def test_a_relay_is_read_only_where_it_is_used() -> None:
    assert read_settings(REQUIRED | {"SMTP_HOST": "relay.example.com"}).smtp is None
    smtp = read_settings(REQUIRED | SMTP).smtp
    assert smtp == config.Smtp("relay.example.com", 587, "starttls", None)


def test_every_part_of_a_relay_is_read() -> None:
    smtp = read_settings(
        REQUIRED
        | SMTP
        | {"SMTP_PORT": "25", "SMTP_SECURITY": "none", "SMTP_SECRET_ARN": "arn:relay"}
    ).smtp
    assert smtp == config.Smtp("relay.example.com", 25, "none", "arn:relay")


def test_a_relay_needs_a_host() -> None:
    with pytest.raises(ConfigurationError, match=r"^SMTP_HOST is not set$"):
        read_settings(REQUIRED | {"MAIL_PROVIDER": "smtp"})


@pytest.mark.parametrize("port", ["0", "65536", "smtp", "-25", "2.5", "\u0662\u0665"])
def test_a_port_is_a_number_of_a_port(port: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_settings(REQUIRED | SMTP | {"SMTP_PORT": port})
    assert str(caught.value) == "SMTP_PORT must be a whole number from 1 to 65535"


@pytest.mark.parametrize("port", [1, 65_535])
def test_the_first_and_the_last_port_are_ports(port: int) -> None:
    smtp = read_settings(REQUIRED | SMTP | {"SMTP_PORT": str(port)}).smtp
    assert smtp
    assert smtp.port == port


def test_an_unknown_security_of_a_relay_is_refused() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_settings(REQUIRED | SMTP | {"SMTP_SECURITY": "ssl"})
    assert str(caught.value) == "SMTP_SECURITY must be one of none, starttls, tls"


@pytest.mark.parametrize(
    "url",
    [
        "canary.example.com",
        "//canary.example.com",
        "ftp://canary.example.com",
        "javascript:canary",
        "https://",
        "https:///canary",
        "https://canary.example.com/?next=1",
        "https://canary.example.com/#here",
        "https://user:canary@example.com",
        "https://canary.example.com:port",
        "https://[canary",
        "https://canary.example.com/a b",
    ],
)
def test_a_public_address_that_is_no_plain_url_is_refused(url: str) -> None:
    assert complaint(PUBLIC_URL=url) == "PUBLIC_URL must be an http or https URL without a query"


@pytest.mark.parametrize(
    ("url", "read"),
    [
        ("https://mail.example.com/", "https://mail.example.com"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("https://example.com/mail/", "https://example.com/mail"),
    ],
)
def test_a_public_address_ends_without_a_slash(url: str, read: str) -> None:
    assert read_settings(REQUIRED | {"PUBLIC_URL": url}).public_url == read


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("SEND_SLOTS", 1, 1_000),
        ("MAX_ATTEMPTS", 1, 20),
        ("ATTACHMENT_BYTES_IN_FLIGHT", 1, 999_999_999),
        ("SENDS_PER_SECOND", 0, 100_000),
        *((name, 0, 1_000_000) for name in LIMITS),
    ],
)
def test_a_count_has_its_bounds(name: str, low: int, high: int) -> None:
    for inside in (low, high):
        read_settings(REQUIRED | {name: str(inside)})
    rule = f"{name} must be a whole number from {low} to {high}"
    for outside in (str(low - 1), str(high + 1), "4.5", "four", "1e1", "9" * 10, "+5"):
        with pytest.raises(ConfigurationError) as caught:
            read_settings(REQUIRED | {name: outside})
        assert str(caught.value) == rule


@pytest.mark.parametrize("mode", ["delete", "archive", "both"])
def test_what_becomes_of_old_messages_is_one_of_three(mode: str) -> None:
    assert read_settings(REQUIRED | {"RETENTION_MODE": mode}).retention_mode == mode
    with pytest.raises(ConfigurationError, match="RETENTION_MODE must be one of delete, archive"):
        read_settings(REQUIRED | {"RETENTION_MODE": mode.upper()})


@pytest.mark.parametrize("name", [*SECONDS, *LIFETIMES])
@pytest.mark.parametrize("value", ["soon", "-1", "1e3", "nan", "inf", "1.", ".5", "1.2345", "1 0"])
def test_a_duration_that_is_no_number_of_seconds_is_named(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_settings(REQUIRED | {name: value})
    assert str(caught.value).startswith(f"{name} must be a number of seconds from ")


@pytest.mark.parametrize(
    ("name", "most"),
    [(name, 86_400 * 31) for name in (*SECONDS, *LIFETIMES) if name not in YEARS]
    + [(name, 86_400 * 365 * years) for name, years in YEARS.items()],
)
def test_a_duration_has_an_end(name: str, most: int) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_settings(REQUIRED | {name: str(most + 1)})
    assert str(caught.value).endswith(f" to {most:.0f}")


def test_a_deployment_sends_from_its_address_alone_unless_it_lists_more() -> None:
    assert set(read_settings(REQUIRED).allowed_senders) == {"no-reply@example.com"}
    listed = read_settings(
        REQUIRED | {"ALLOWED_SENDERS": "Billing@Example.com, a@example.org, No-Reply@example.com"}
    )
    assert listed.allowed_senders == {
        "no-reply@example.com": "no-reply@example.com",
        "billing@example.com": "Billing@Example.com",
        "a@example.org": "a@example.org",
    }


@pytest.mark.parametrize(
    "senders",
    ["canary", "canary@example.com,", "Canary <canary@example.com>", "canary@münchen.example"],
)
def test_an_allowed_sender_is_a_bare_ascii_address(senders: str) -> None:
    assert complaint(ALLOWED_SENDERS=senders) == (
        "ALLOWED_SENDERS must be bare ASCII addresses separated by commas"
    )


def test_resend_has_settings_of_its_own() -> None:
    assert read_settings(REQUIRED).resend is None
    assert read_settings(REQUIRED | RESEND).resend == config.Resend(
        "arn:api-key", "https://api.resend.com"
    )
    elsewhere = RESEND | {"RESEND_ENDPOINT": "https://resend.example.com/v1/"}
    resend = read_settings(REQUIRED | elsewhere).resend
    assert resend == config.Resend("arn:api-key", "https://resend.example.com/v1")


def test_resend_needs_an_api_key() -> None:
    with pytest.raises(ConfigurationError, match=r"^RESEND_API_KEY_SECRET_ARN is not set$"):
        read_settings(REQUIRED | {"MAIL_PROVIDER": "resend"})


def test_an_api_key_travels_in_clear_on_one_machine_only() -> None:
    plain = RESEND | {"RESEND_ENDPOINT": "http://127.0.0.1:8025"}
    with pytest.raises(ConfigurationError, match=r"^RESEND_ENDPOINT must be an https URL$"):
        read_settings(REQUIRED | plain)
    assert read_settings(REQUIRED | plain | {"STAGE": "local"}).resend


def test_a_link_lives_for_an_hour_at_least() -> None:
    assert complaint(VERIFY_TOKEN_SECONDS="3599.9") == (
        "VERIFY_TOKEN_SECONDS must be a number of seconds from 3600 to 2678400"
    )


def test_a_reset_s_link_lives_for_a_quarter_of_an_hour_at_least() -> None:
    assert complaint(RESET_TOKEN_SECONDS="899.9") == (
        "RESET_TOKEN_SECONDS must be a number of seconds from 900 to 2678400"
    )


@pytest.mark.parametrize(("name", "attribute"), LIMITS.items())
def test_a_limit_of_zero_is_none(name: str, attribute: str) -> None:
    assert getattr(read_settings(REQUIRED | {name: "7"}), attribute) == 7
    assert getattr(read_settings(REQUIRED | {name: "0"}), attribute) is None


def test_ses_is_called_by_requests_of_our_own_or_by_the_sdk() -> None:
    assert read_settings(REQUIRED | {"SES_CLIENT": "boto3"}).ses_client == "boto3"
    assert complaint(SES_CLIENT="urllib") == "SES_CLIENT must be one of signed, boto3"


def test_codes_are_switched_on_by_word() -> None:
    assert read_settings(REQUIRED | {"VERIFY_CODES": "on"}).verify_codes is True
    assert complaint(VERIFY_CODES="yes") == "VERIFY_CODES must be one of on, off"


NO_PAGES = [
    "canary.example.com",
    "//canary.example.com",
    "javascript:canary",
    "https://",
    "https://canary.example.com/#here",
    "https://user:canary@example.com",
    "https://canary.example.com/a b",
    "http://canary.example.com/",
]


@pytest.mark.parametrize("url", [*NO_PAGES, "https://canary.example.com/?next=1"])
def test_a_page_for_resets_is_a_plain_encrypted_url(url: str) -> None:
    assert complaint(RESET_URL=url) == "RESET_URL must be an https URL without a query"


@pytest.mark.parametrize("url", [*NO_PAGES, ",", "https://canary.example.com/,"])
def test_a_page_to_go_on_to_is_an_encrypted_url_without_a_fragment(url: str) -> None:
    assert complaint(VERIFY_REDIRECT_URLS=url) == (
        "VERIFY_REDIRECT_URLS must be https URLs separated by commas"
    )


def test_a_page_stands_as_it_was_written() -> None:
    page = "https://app.example.com/new-password/"
    assert read_settings(REQUIRED | {"RESET_URL": page}).reset_url == page
    listed = "https://app.example.com/welcome?from=mail, https://example.com/"
    assert read_settings(REQUIRED | {"VERIFY_REDIRECT_URLS": listed}).verify_redirect_urls == (
        "https://app.example.com/welcome?from=mail",
        "https://example.com/",
    )


def test_a_page_on_one_machine_needs_no_encryption() -> None:
    plain = {"RESET_URL": "http://127.0.0.1:8000/", "VERIFY_REDIRECT_URLS": "http://localhost/"}
    assert read_settings(REQUIRED | {"STAGE": "local"} | plain).reset_url == plain["RESET_URL"]
    for name, url in plain.items():
        with pytest.raises(ConfigurationError, match=f"^{name} must be"):
            read_settings(REQUIRED | {name: url})


@pytest.mark.parametrize("name", ["a\nb", "a\x00", "n" * 129])
def test_a_sender_s_name_that_a_header_could_not_carry_is_refused(name: str) -> None:
    assert complaint(FROM_NAME=name) == "FROM_NAME must be printable and at most 128 characters"


def test_a_sender_may_have_a_name() -> None:
    assert read_settings(REQUIRED).from_name == ""
    assert read_settings(REQUIRED | {"FROM_NAME": "Ada, Inc."}).from_name == "Ada, Inc."


@pytest.mark.parametrize(("name", "attribute"), LIFETIMES.items())
def test_a_lifetime_is_read_from_its_own_variable(name: str, attribute: str) -> None:
    settings = read_settings(REQUIRED | {name: "3661.5"})
    assert getattr(settings, attribute) == timedelta(seconds=3661.5)
    assert replace(settings, **{attribute: timedelta()}) == replace(
        read_settings(REQUIRED), **{attribute: timedelta()}
    )


@pytest.mark.parametrize(("name", "attribute"), SECONDS.items())
def test_a_duration_of_a_delivery_is_read_from_its_own_variable(name: str, attribute: str) -> None:
    # So near to the default that every rule still holds.
    value = getattr(DEFAULT_TIMES, attribute) - timedelta(milliseconds=1)
    if attribute in {"unknown_grace", "lease", "sweep_timeout"}:
        value += timedelta(milliseconds=2)
    read = read_settings(REQUIRED | {name: f"{value.total_seconds():.3f}"})
    assert read.times == replace(DEFAULT_TIMES, **{attribute: value})


@pytest.mark.parametrize(
    "address",
    [
        "canary",
        "@canary.example.com",
        "canary@",
        "Canary <canary@example.com>",
        "canary@example.com, b@example.com",
        "canary@example.com\r\nBcc: b@example.com",
        "c" * 65 + "@example.com",
    ],
)
def test_a_sender_that_is_no_bare_address_is_refused(address: str) -> None:
    assert complaint(FROM_ADDRESS=address) == "FROM_ADDRESS must be one bare address"


# Each rule of time, broken alone by one millisecond.

RULES = {
    "CONNECT_TIMEOUT_SECONDS + READ_TIMEOUT_SECONDS must be below CALL_BUDGET_SECONDS": (
        {"READ_TIMEOUT_SECONDS": "18"},
        {"READ_TIMEOUT_SECONDS": "17.999"},
    ),
    "CALL_BUDGET_SECONDS + START_MARGIN_SECONDS must be below LEASE_SECONDS": (
        {"START_MARGIN_SECONDS": "25", "SWEEP_LINGER_SECONDS": "45"},
        {"START_MARGIN_SECONDS": "24.999", "SWEEP_LINGER_SECONDS": "45"},
    ),
    "LEASE_SECONDS + UNKNOWN_GRACE_SECONDS must be at least SWEEP_TIMEOUT_SECONDS + "
    "CALLER_MARGIN_SECONDS": (
        {"UNKNOWN_GRACE_SECONDS": "74.999"},
        {"UNKNOWN_GRACE_SECONDS": "75"},
    ),
    "SWEEP_LINGER_SECONDS + CALL_BUDGET_SECONDS + START_MARGIN_SECONDS must be at most "
    "SWEEP_TIMEOUT_SECONDS": (
        {"SWEEP_LINGER_SECONDS": "67.001"},
        {"SWEEP_LINGER_SECONDS": "67"},
    ),
    "LEASE_SECONDS must be from 30 to 90": (
        {"LEASE_SECONDS": "90.001"},
        {"LEASE_SECONDS": "90"},
    ),
}


@pytest.mark.parametrize(("rule", "cases"), RULES.items(), ids=range(len(RULES)))
def test_each_rule_of_time_is_kept_to_the_millisecond_and_named(
    rule: str, cases: tuple[dict[str, str], dict[str, str]]
) -> None:
    """LSE-02: no setting lets a lease end before the call that it covers."""
    broken, kept = cases
    assert complaint(**broken) == rule
    read_settings(REQUIRED | kept)


def test_every_rule_of_time_has_a_case_here() -> None:
    nothing_holds = TimeRules(
        call_budget=timedelta(seconds=1),
        connect_timeout=timedelta(seconds=1),
        read_timeout=timedelta(seconds=1),
        lease=timedelta(0),
        unknown_grace=timedelta(0),
        start_margin=timedelta(0),
        caller_margin=timedelta(0),
        sweep_timeout=timedelta(seconds=1),
        sweep_linger=timedelta(seconds=1),
    )
    assert nothing_holds.broken_rules(bounded_lease=True) == list(RULES)


def test_all_broken_rules_are_named_at_once() -> None:
    said = complaint(READ_TIMEOUT_SECONDS="18", SWEEP_LINGER_SECONDS="89")
    assert said.count(" must be ") == 2
    assert "; " in said


@pytest.mark.parametrize("lease", ["29.999", "90.001"])
@pytest.mark.parametrize("stage", ["dev", "staging", "prod"])
def test_a_deployed_lease_lasts_from_30_to_90_seconds(stage: str, lease: str) -> None:
    short = {"CALL_BUDGET_SECONDS": "15", "UNKNOWN_GRACE_SECONDS": "300"}
    said = complaint(STAGE=stage, LEASE_SECONDS=lease, **short)
    assert said == "LEASE_SECONDS must be from 30 to 90"


@pytest.mark.parametrize("lease", ["30", "90"])
def test_the_bounds_of_a_lease_are_allowed(lease: str) -> None:
    read_settings(
        REQUIRED
        | {
            "STAGE": "prod",
            "LEASE_SECONDS": lease,
            "CALL_BUDGET_SECONDS": "15",
            "UNKNOWN_GRACE_SECONDS": "300",
        }
    )


def test_the_local_stack_may_scale_all_durations_down_together() -> None:
    scaled = {
        "STAGE": "local",
        "CALL_BUDGET_SECONDS": "2",
        "CONNECT_TIMEOUT_SECONDS": "0.5",
        "READ_TIMEOUT_SECONDS": "1",
        "START_MARGIN_SECONDS": "1",
        "CALLER_MARGIN_SECONDS": "2",
        "SWEEP_TIMEOUT_SECONDS": "10",
        "SWEEP_LINGER_SECONDS": "5",
        "LEASE_SECONDS": "6",
        "UNKNOWN_GRACE_SECONDS": "8",
    }
    assert read_settings(REQUIRED | scaled).times.lease == timedelta(seconds=6)
    with pytest.raises(ConfigurationError, match="LEASE_SECONDS must be from 30 to 90"):
        read_settings(REQUIRED | scaled | {"STAGE": "dev"})


def test_the_settings_of_the_process_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in REQUIRED.items():
        monkeypatch.setenv(name, value)
    config.settings.cache_clear()
    first = config.settings()
    monkeypatch.setenv("PUBLIC_URL", "https://other.example.com")
    assert config.settings() is first
    config.settings.cache_clear()
