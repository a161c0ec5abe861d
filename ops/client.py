"""One signed request to the API, and what its answer means."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import (
    BotoCoreError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    ProxyConnectionError,
    SSLError,
)
from botocore.httpsession import URLLib3Session

from ops.failing import FORBIDDEN, REFUSED, UNAVAILABLE, UNKNOWN, OpsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ops.connecting import Place

_TIMEOUTS = (5, 35)
"""To connect and to read, in seconds: API Gateway answers within 30."""

_PROBLEM = "urn:postlease:problem:"
_NEVER_SENT = (ConnectTimeoutError, EndpointConnectionError, ProxyConnectionError, SSLError)


class _Answer(dict[str, Any]):
    """An object of an answer. What it lacks, no API of this release leaves out."""

    def __missing__(self, name: str) -> Any:
        raise OpsError(
            f"the API's answer lacks {name!r}: is it Postlease's, and of this release?", UNAVAILABLE
        )


class Api:
    """The API at one place."""

    def __init__(self, place: Place) -> None:
        """Nothing is sent before the first call."""
        self._place = place
        self._session = URLLib3Session(timeout=_TIMEOUTS)  # type: ignore[arg-type]  # pairs too

    def get(self, path: str, **query: str | int | None) -> Any:
        """What path answers; parameters that are None are left out."""
        return self._ask("GET", path, query, None)

    def post(self, path: str, body: Mapping[str, object] | None = None) -> Any:
        """What path answers to a POST."""
        return self._ask("POST", path, {}, body)

    def put(self, path: str, body: Mapping[str, object]) -> Any:
        """What path answers to a PUT."""
        return self._ask("PUT", path, {}, body)

    def delete(self, path: str, **query: str | int | None) -> Any:
        """What path answers to a DELETE."""
        return self._ask("DELETE", path, query, None)

    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int | None],
        body: Mapping[str, object] | None,
    ) -> Any:
        stated = sorted((name, value) for name, value in query.items() if value is not None)
        url = f"{self._place.endpoint}{path}"
        if stated:
            url += f"?{urlencode(stated, quote_via=quote)}"
        content = None if body is None else json.dumps(body).encode()
        typed = {} if content is None else {"content-type": "application/json"}
        request = AWSRequest(method, url, headers=typed, data=content)
        try:
            # Anew each time: those of a role or a login end while somebody watches.
            key = self._place.credentials.get_frozen_credentials()
            SigV4Auth(key, "execute-api", self._place.region).add_auth(request)
        except BotoCoreError as error:
            raise OpsError(
                f"the credentials could not be read ({type(error).__name__}): log in again",
                FORBIDDEN,
            ) from None
        try:
            answer = self._session.send(request.prepare())
        except _NEVER_SENT as error:
            raise self._unreachable(error) from None
        except (HTTPClientError, BotoCoreError) as error:
            raise self._unanswered(method, error) from None
        return self._read(method, path, answer.status_code, answer.content)

    def _unreachable(self, error: BotoCoreError) -> OpsError:
        return OpsError(
            f"{self._place.endpoint} cannot be reached ({type(error).__name__})", UNAVAILABLE
        )

    def _unanswered(self, method: str, error: BotoCoreError) -> OpsError:
        text = f"{self._place.endpoint} did not answer ({type(error).__name__})"
        if method != "GET":
            text += "; what was asked for may have been done all the same: look before you repeat"
        return OpsError(text, UNAVAILABLE)

    def _read(self, method: str, path: str, status: int, content: bytes) -> Any:
        if status == 204:
            return None
        try:
            answer = json.loads(content, object_hook=_Answer)
        except (ValueError, RecursionError):
            answer = None
        if 200 <= status < 300:
            if isinstance(answer, _Answer):
                return answer
            raise OpsError(
                f"{self._place.endpoint} answers ({status}), but not as the API of Postlease does",
                UNAVAILABLE,
            )
        raise self._refusal(method, path, status, answer if isinstance(answer, dict) else {})

    def _refusal(self, method: str, path: str, status: int, answer: dict[str, Any]) -> OpsError:
        told = str(answer.get("type") or "")
        problem = told.removeprefix(_PROBLEM) if told.startswith(_PROBLEM) else None
        if status in {401, 403}:
            text = str(answer.get("detail") or answer.get("message") or "Forbidden")
            return OpsError(
                f"{method} {path} is not allowed ({status}: {text}). Either these credentials lack"
                f" execute-api:Invoke for it, or they are signed for another region than the API's"
                f" ({self._place.region}), or this machine's clock is wrong",
                FORBIDDEN,
                problem=problem,
            )
        if problem is None and status in {404, 405}:
            return OpsError(
                f"{self._place.endpoint} answers, but is no API of Postlease that has {path}",
                UNAVAILABLE,
            )
        if status == 429 or status >= 500 or problem is None:
            text = str(answer.get("detail") or answer.get("message") or "no reason was given")
            return OpsError(
                f"the API cannot answer now ({status}: {text})", UNAVAILABLE, problem=problem
            )
        places = [
            f"{error.get('pointer') or error.get('parameter')} {error.get('detail')}"
            for error in answer.get("errors") or []
            if isinstance(error, dict)
        ]
        text = "; ".join(places) or str(answer.get("detail") or problem)
        if status in {404, 410}:
            return OpsError(f"{path}: {text}", UNKNOWN, problem=problem)
        return OpsError(text, REFUSED, problem=problem)
