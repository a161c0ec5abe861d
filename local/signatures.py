"""SigV4 as API Gateway checks it on an IAM route: signature, scope, date and body."""

from __future__ import annotations

import hashlib
import hmac
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from local.runtime import REGION

if TYPE_CHECKING:
    from local.web import Request

ACCESS_KEY = "local"
SECRET_KEY = "local"  # noqa: S105  the documented login of the local stack
SIGNING_NAME = "execute-api"

_CLOCK_SKEW = timedelta(minutes=5)
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/,\s]+)/(?P<scope>[^,\s]+),\s*"
    r"SignedHeaders=(?P<names>[a-z0-9;-]+),\s*Signature=(?P<signature>[0-9a-f]{64})"
)


def is_signed(request: Request, *, now: datetime | None = None) -> bool:
    """Whether request carries a valid signature of local/local, at most five minutes off now."""
    return fault(request, now=now) is None


def fault(request: Request, *, now: datetime | None = None) -> str | None:
    """Why request is not signed as it must be, for whoever runs the stack; no header is repeated.

    The caller learns none of it, as from API Gateway.
    """
    given = _AUTHORIZATION.fullmatch((request.header("authorization") or "").strip())
    timestamp = request.header("x-amz-date") or ""
    if given is None:
        return "no Authorization header of AWS4-HMAC-SHA256"
    if not _is_fresh(timestamp, now or datetime.now(UTC)):
        return "X-Amz-Date is missing, or more than five minutes off"
    if given["key"] != ACCESS_KEY:
        return f"the access key is not `{ACCESS_KEY}`"
    names = given["names"].split(";")
    if not {"host", "x-amz-date"} <= set(names):
        return "host and x-amz-date have to be among the signed headers"
    if given["scope"] != f"{timestamp[:8]}/{REGION}/{SIGNING_NAME}/aws4_request":
        return f"the scope is not {REGION}/{SIGNING_NAME} of the day in X-Amz-Date"
    digest = hashlib.sha256(request.body).hexdigest()
    if (request.header("x-amz-content-sha256") or digest) != digest:
        return "X-Amz-Content-Sha256 is not the body's digest"
    if not hmac.compare_digest(given["signature"], _signature(request, names, timestamp)):
        return (
            f"another signature: the secret is not `{SECRET_KEY}`, or the path, the query (its "
            "parameters in alphabetical order), a header or the body is not what was signed"
        )
    return None


def _is_fresh(timestamp: str, now: datetime) -> bool:
    try:
        moment = datetime.strptime(timestamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return False
    return abs(now - moment) <= _CLOCK_SKEW


def _signature(request: Request, names: list[str], timestamp: str) -> str:
    """What the signature must be, by the signer that AWS's own SDK uses."""
    url = f"http://{request.header('host')}{request.target}"
    signed = AWSRequest(method=request.method, url=url, data=request.body)
    for name in names:
        values = [value for key, value in request.headers if key.lower() == name]
        signed.headers[name] = ",".join(values)
    signed.context["timestamp"] = timestamp
    signer = SigV4Auth(Credentials(ACCESS_KEY, SECRET_KEY), SIGNING_NAME, REGION)
    text = signer.string_to_sign(signed, signer.canonical_request(signed))
    return str(signer.signature(text, signed))
