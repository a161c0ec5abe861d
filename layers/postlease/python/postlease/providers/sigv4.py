"""Signatures of AWS, version 4, of requests whose path is plain and has no query. Pure.

The SDK's signer costs a sixth of a call that costs too much as it is. What it would write is what
stands here, byte by byte; a test asks both.
Source: "Create a signed AWS API request" in the IAM user guide.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_ALGORITHM = "AWS4-HMAC-SHA256"
_END = "aws4_request"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Whom a request comes from. token: of a session, or None."""

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    token: str | None = field(repr=False)


class Signer:
    """Signs for one service in one region, from any number of threads."""

    def __init__(self, *, service: str, region: str) -> None:
        self._service = service
        self._region = region
        # The key of a day, with what it was made of: one assignment, so never half of another's.
        self._last: tuple[tuple[str, str], bytes] = (("", ""), b"")

    def sign(
        self,
        credentials: Credentials,
        *,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        moment: str,
    ) -> dict[str, str]:
        """headers, which must hold `Host`, and those that sign all of them.

        moment is UTC as `20261130T041056Z`; servers take it for five minutes.
        """
        signed = {**headers, "X-Amz-Date": moment}
        if credentials.token:
            signed["X-Amz-Security-Token"] = credentials.token
        lines = sorted((name.lower(), " ".join(value.split())) for name, value in signed.items())
        names = ";".join(name for name, _ in lines)
        canonical = "".join(f"{name}:{value}\n" for name, value in lines)
        digest = hashlib.sha256(body).hexdigest()
        request = f"{method}\n{path}\n\n{canonical}\n{names}\n{digest}"
        scope = f"{moment[:8]}/{self._region}/{self._service}/{_END}"
        text = f"{_ALGORITHM}\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        key = self._key(credentials.secret_key, moment[:8])
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        signed["Authorization"] = (
            f"{_ALGORITHM} Credential={credentials.access_key}/{scope}, "
            f"SignedHeaders={names}, Signature={signature}"
        )
        return signed

    def _key(self, secret: str, day: str) -> bytes:
        made_of, key = self._last
        if made_of != (secret, day):
            key = f"AWS4{secret}".encode()
            for part in (day, self._region, self._service, _END):
                key = hmac.digest(key, part.encode(), "sha256")
            self._last = ((secret, day), key)
        return key
