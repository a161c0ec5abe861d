"""Where SES is and as whom we call, where that can be said without the SDK.

It can where AWS runs a function: region, login and endpoint stand in variables. Whatever else the
SDK knows of (profiles, files, proxies, FIPS, dual stack, a region that is not plain) is left to it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from postlease.config import platform_variable
from postlease.providers.sigv4 import Credentials

if TYPE_CHECKING:
    from collections.abc import Callable

_SDK_ALONE = (
    "AWS_AUTH_SCHEME_PREFERENCE",
    "AWS_CREDENTIAL_EXPIRATION",
    "AWS_DATA_PATH",
    "AWS_DEFAULT_PROFILE",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_PROFILE",
    "AWS_USE_DUALSTACK_ENDPOINT",
    "AWS_USE_FIPS_ENDPOINT",
)
"""Variables that change what a call is, in ways that only the SDK knows."""

_CONTAINER = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
_REGION = re.compile(r"(?:us|eu|ap|sa|ca|me|af|il|mx)-[a-z]+-[0-9]|us-gov-[a-z]+-[0-9]", re.ASCII)
_ENDPOINT = re.compile(r"(https?)://[A-Za-z0-9.-]+(:[0-9]{1,5})?/?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Account:
    """An endpoint (scheme, host, port if need be), its region, and a way to credentials.

    authorities: a file of those that the endpoint's certificate may come from, or the system's.
    """

    endpoint: str
    region: str
    authorities: str | None
    credentials: Callable[[], Credentials] = field(repr=False)


def find() -> Account | None:
    """The account that the environment names now; None where only the SDK can tell.

    Raises what the SDK raises when the endpoint of a container's credentials does not answer.
    """
    region = platform_variable("AWS_DEFAULT_REGION") or ""
    endpoint = (
        platform_variable("AWS_ENDPOINT_URL_SESV2")
        or platform_variable("AWS_ENDPOINT_URL")
        or f"https://email.{region}.amazonaws.com"
    )
    match = _ENDPOINT.fullmatch(endpoint)
    if not _REGION.fullmatch(region) or match is None or _is_for_the_sdk(match[1]):
        return None
    credentials = _credentials()
    if credentials is None:
        return None
    authorities = platform_variable("AWS_CA_BUNDLE") or platform_variable("REQUESTS_CA_BUNDLE")
    return Account(endpoint.rstrip("/"), region, authorities, credentials)


def _is_for_the_sdk(scheme: str) -> bool:
    proxy = f"{scheme}_proxy"
    if any(map(platform_variable, (*_SDK_ALONE, proxy, proxy.upper()))):
        return True
    settings = platform_variable("AWS_CONFIG_FILE") or "~/.aws/config"
    return Path(settings).expanduser().is_file()


def _credentials() -> Callable[[], Credentials] | None:
    """A way to credentials that are good now, each time that it is gone."""
    access_key = platform_variable("AWS_ACCESS_KEY_ID")
    secret_key = platform_variable("AWS_SECRET_ACCESS_KEY")
    if access_key and secret_key:
        token = platform_variable("AWS_SECURITY_TOKEN") or platform_variable("AWS_SESSION_TOKEN")
        # Lambda ends an environment before these do.
        given = Credentials(access_key, secret_key, token)
        return lambda: given
    if access_key or not any(map(platform_variable, _CONTAINER)):
        return None
    # A function that was restored from a snapshot asks an endpoint; the SDK knows how, and when.
    from botocore.session import Session  # noqa: PLC0415

    refreshed = Session().get_credentials()
    if refreshed is None:
        return None

    def ask() -> Credentials:
        frozen = refreshed.get_frozen_credentials()
        return Credentials(frozen.access_key or "", frozen.secret_key or "", frozen.token)

    return ask
