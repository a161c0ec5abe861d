"""Our signer writes what AWS's own signer writes, byte by byte."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import botocore.auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as SdkCredentials
from hypothesis import example, given, settings
from hypothesis import strategies as st

from postlease.providers.sigv4 import Credentials, Signer

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", None)
NOON = dt.datetime(2026, 11, 30, 12, 0, 0, tzinfo=dt.UTC)
PATH = "/v2/email/outbound-emails"

VISIBLE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=60)
ODD = st.text(st.sampled_from(" \tab,;:=\"'/+%"), max_size=30)
NAMES = st.from_regex(r"X-[A-Za-z][A-Za-z0-9-]{0,12}", fullmatch=True)


def by_the_sdk(
    credentials: Credentials,
    region: str,
    method: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes,
    moment: dt.datetime,
) -> dict[str, str]:
    """What botocore signs, at moment."""
    request: Any = AWSRequest(method, f"https://{headers['Host']}{path}", headers, body)
    login = SdkCredentials(credentials.access_key, credentials.secret_key, credentials.token)
    with patch.object(botocore.auth, "get_current_datetime", lambda: moment):
        botocore.auth.SigV4Auth(login, "ses", region).add_auth(request)
    return dict(request.headers.items())


@settings(max_examples=100)
@given(
    credentials=st.builds(
        Credentials, VISIBLE, VISIBLE, st.one_of(st.none(), st.just(""), VISIBLE, ODD)
    ),
    region=st.from_regex(r"[a-z]{2}(-gov)?-[a-z]{4,9}-[0-9]", fullmatch=True),
    method=st.sampled_from(["POST", "GET"]),
    path=st.sampled_from([PATH, "/v2/email/account", "/"]),
    extra=st.dictionaries(NAMES, ODD, max_size=4),
    body=st.binary(max_size=200),
    moment=st.datetimes(allow_imaginary=False, timezones=st.just(dt.UTC)).filter(
        lambda moment: moment.year >= 2000
    ),
)
@example(KEY, "us-east-1", "POST", PATH, {"X-A": " a  b\t c "}, b"{}", NOON)
def test_it_writes_what_the_sdk_writes(
    credentials: Credentials,
    region: str,
    method: str,
    path: str,
    extra: dict[str, str],
    body: bytes,
    moment: dt.datetime,
) -> None:
    names = {name.lower() for name in extra}
    if len(names) < len(extra) or names & {"x-amz-date", "x-amz-security-token", "x-amzn-trace-id"}:
        return
    headers = {"Host": f"email.{region}.amazonaws.com", "Content-Type": "application/json", **extra}
    ours = Signer(service="ses", region=region).sign(
        credentials,
        method=method,
        path=path,
        headers=headers,
        body=body,
        moment=moment.strftime("%Y%m%dT%H%M%SZ"),
    )
    assert ours == by_the_sdk(credentials, region, method, path, headers, body, moment)


def test_a_key_is_made_anew_for_another_day_and_another_secret() -> None:
    signer = Signer(service="ses", region="us-east-1")
    headers = {"Host": "127.0.0.1:8000"}
    other = Credentials("AKIDEXAMPLE", "another", "token")
    for credentials in (KEY, other, KEY, KEY):
        for moment in (NOON, NOON + dt.timedelta(days=1), NOON):
            ours = signer.sign(
                credentials,
                method="POST",
                path=PATH,
                headers=headers,
                body=b"{}",
                moment=moment.strftime("%Y%m%dT%H%M%SZ"),
            )
            theirs = by_the_sdk(credentials, "us-east-1", "POST", PATH, headers, b"{}", moment)
            assert ours == theirs


def test_credentials_are_not_printed() -> None:
    assert "EXAMPLE" not in repr(KEY)
