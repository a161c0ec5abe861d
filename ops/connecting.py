"""Where the API is and who asks, from options and the usual variables of AWS."""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from botocore.credentials import Credentials
from botocore.exceptions import BotoCoreError, ProfileNotFound
from botocore.session import Session

from ops.failing import FORBIDDEN, USAGE, OpsError

ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_EXECUTE_API", "AWS_ENDPOINT_URL")
LOCAL_REGION = "us-east-1"

_NO_URL = "the endpoint must be the URL of the API, such as https://…"
_GAP = re.compile(r"[\x00-\x20\x7f]")
_API_GATEWAY = re.compile(r"\.execute-api\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?$")


@dataclass(frozen=True, slots=True)
class Wish:
    """What the command line says of it; None asks the environment."""

    endpoint: str | None = None
    region: str | None = None
    profile: str | None = None
    is_local: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """The API's address without a slash at its end, and what signs for it."""

    endpoint: str
    region: str
    credentials: Credentials


def connect(wish: Wish) -> Place:
    """The place that wish and environment name. OpsError says what is missing, and its option."""
    if wish.is_local:
        endpoint = wish.endpoint or f"http://127.0.0.1:{os.environ.get('PORT') or 8000}"
        local = Credentials("local", "local")
        return Place(_checked(endpoint), LOCAL_REGION, local)
    endpoint = _checked(wish.endpoint or _stated_endpoint())
    session = _session(wish.profile)
    region = wish.region or _region(session, endpoint)
    return Place(endpoint, region, _credentials(session))


def _stated_endpoint() -> str:
    for name in ENDPOINT_VARIABLES:
        if os.environ.get(name):
            return os.environ[name]
    raise OpsError(
        "where is the API? Name it by --endpoint or AWS_ENDPOINT_URL_EXECUTE_API (the stack's"
        " output ApiUrl), or say --local",
        USAGE,
    )


def _checked(endpoint: str) -> str:
    """endpoint without the slash at its end. Addresses must not travel in the clear."""
    try:
        parts = urlsplit(endpoint)
        is_whole = parts.port != 0 and endpoint.isascii() and not _GAP.search(endpoint)
    except ValueError:  # a port that is none, half an IPv6 address
        is_whole = False
    if not is_whole:
        raise OpsError(_NO_URL, USAGE)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise OpsError(_NO_URL, USAGE)
    if parts.username or parts.password:
        raise OpsError("the endpoint must hold no login", USAGE)
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise OpsError("the endpoint must be https, but for one on this machine", USAGE)
    return endpoint.rstrip("/")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _session(profile: str | None) -> Session:
    try:
        session = Session(profile=profile)
        session.get_scoped_config()  # where a profile that is not there is found missing
    except ProfileNotFound:
        name = profile or os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE")
        raise OpsError(f"there is no profile {name!r} in the configuration of AWS", USAGE) from None
    return session


def _region(session: Session, endpoint: str) -> str:
    """That of the API's own name first: another one would sign for somebody else."""
    named = _API_GATEWAY.search(urlsplit(endpoint).hostname or "")
    region = named["region"] if named else session.get_config_variable("region")
    region = region or os.environ.get("AWS_REGION")
    if not region:
        raise OpsError("which region? Name it by --region or AWS_DEFAULT_REGION", USAGE)
    return str(region)


def _credentials(session: Session) -> Credentials:
    try:
        found = session.get_credentials()
        if found is not None:
            found.get_frozen_credentials()  # what cannot be had is told before anything is asked
            return found
    except BotoCoreError as error:
        raise OpsError(
            f"the credentials could not be read ({type(error).__name__}): log in again", FORBIDDEN
        ) from None
    raise OpsError(
        "no credentials: set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, log in, or"
        " say --local for the local stack",
        FORBIDDEN,
    )
