"""The events that triggers hand to a function: API Gateway's HTTP 2.0, Scheduler's, SQS's.

Pure: a request, a schedule or messages in, a dictionary out, and the way back from a result.
"""

from __future__ import annotations

import base64
import binascii
import json
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

from local.runtime import ACCOUNT, REGION
from local.web import Response

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from local.web import Request

API_ID = "local"
_TEXT_TYPES = ("application/json", "application/javascript", "application/xml")


class BadAnswerError(Exception):
    """A function's result is no HTTP answer; the caller gets a 500."""


def is_text(content_type: str) -> bool:
    """Whether API Gateway passes a body of this type on as it is; any other arrives in base64."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind in _TEXT_TYPES or kind.endswith(("+json", "+xml"))


def http_event(
    request: Request, *, route_key: str, parameters: Mapping[str, str], signed: bool = False
) -> dict[str, Any]:
    """request in payload format 2.0. The source address is the peer's, whatever a header says."""
    headers, cookies = _headers(request)
    path = unquote(request.path)
    moment = datetime.now(UTC)
    context: dict[str, Any] = {
        "accountId": ACCOUNT,
        "apiId": API_ID,
        "domainName": headers.get("host", ""),
        "domainPrefix": headers.get("host", "").split(".")[0].split(":")[0],
        "http": {
            "method": request.method,
            "path": path,
            "protocol": "HTTP/1.1",
            "sourceIp": request.peer,
            "userAgent": headers.get("user-agent", ""),
        },
        "requestId": uuid.uuid4().hex[:15] + "=",
        "routeKey": route_key,
        "stage": "$default",
        "time": moment.strftime("%d/%b/%Y:%H:%M:%S +0000"),
        "timeEpoch": int(moment.timestamp() * 1000),
    }
    if signed:
        context["authorizer"] = {"iam": _iam_identity()}
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": route_key,
        "rawPath": path,
        "rawQueryString": request.query,
        "headers": headers,
        "requestContext": context,
        "isBase64Encoded": False,
    }
    if cookies:
        event["cookies"] = cookies
    if query := _joined(parse_qsl(request.query, keep_blank_values=True)):
        event["queryStringParameters"] = query
    if parameters:
        event["pathParameters"] = {name: unquote(value) for name, value in parameters.items()}
    if request.body:
        text = _text(request.body) if is_text(headers.get("content-type", "")) else None
        event["isBase64Encoded"] = text is None
        event["body"] = base64.b64encode(request.body).decode() if text is None else text
    return event


def http_response(result: Any) -> Response:
    """A function's result as API Gateway turns it into an answer."""
    if not isinstance(result, dict) or "statusCode" not in result:
        body = result if isinstance(result, str) else json.dumps(result)
        return Response(200, body.encode(), (("content-type", "application/json"),))
    try:
        status = int(result["statusCode"])
        headers = [(str(k), str(v)) for k, v in (result.get("headers") or {}).items()]
        headers += [("set-cookie", str(cookie)) for cookie in result.get("cookies") or ()]
        body = result.get("body") or ""
        encoded = result.get("isBase64Encoded")
        content = base64.b64decode(body, validate=True) if encoded else body.encode()
    except (AttributeError, TypeError, ValueError, binascii.Error) as error:
        raise BadAnswerError from error
    if not 100 <= status <= 599 or any("\r" in text or "\n" in text for h in headers for text in h):
        raise BadAnswerError
    # The gateway measures the body itself; a second length would confuse clients.
    kept = [(k, v) for k, v in headers if k.lower() not in {"content-length", "connection"}]
    if content and not any(name.lower() == "content-type" for name, _ in kept):
        kept.append(("content-type", "text/plain;charset=UTF-8"))
    return Response(status, content, tuple(kept))


def schedule_event(name: str, fixed_input: str | None = None) -> Any:
    """What EventBridge Scheduler sends: the schedule's fixed input, or its own event."""
    if fixed_input is not None:
        return json.loads(fixed_input)
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "Scheduled Event",
        "source": "aws.scheduler",
        "account": ACCOUNT,
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": REGION,
        "resources": [f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule/default/{name}"],
        "detail": "{}",
    }


def queue_event(queue: str, messages: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """A batch of SQS, from what ReceiveMessage answered. queue is the queue's ARN."""
    return {
        "Records": [
            {
                "messageId": message["MessageId"],
                "receiptHandle": message["ReceiptHandle"],
                "body": message["Body"],
                "attributes": message.get("Attributes", {}),
                "messageAttributes": {},
                "md5OfBody": message["MD5OfBody"],
                "eventSource": "aws:sqs",
                "eventSourceARN": queue,
                "awsRegion": REGION,
            }
            for message in messages
        ]
    }


def failed_messages(result: Any, sent: Iterable[str]) -> set[str]:
    """Which of the message ids sent a function's answer calls failed; all, if it cannot be read.

    Nothing at all, and an empty list, mean that all is done (Lambda's rules for partial batches).
    """
    everything = set(sent)
    failures = result.get("batchItemFailures") if isinstance(result, dict) else result
    if not failures:
        return set()
    try:
        named = {failure["itemIdentifier"] for failure in failures}
    except (KeyError, TypeError):
        return everything
    return everything if named - everything else named


def _headers(request: Request) -> tuple[dict[str, str], list[str]]:
    pairs, cookies = [], []
    for name, value in request.headers:
        if name.lower() == "cookie":
            cookies += [part.strip() for part in value.split(";") if part.strip()]
        else:
            pairs.append((name.lower(), value))
    headers = _joined(pairs)
    forwarded = headers.get("x-forwarded-for")
    headers["x-forwarded-for"] = f"{forwarded}, {request.peer}" if forwarded else request.peer
    headers["x-forwarded-proto"] = "http"
    headers["x-forwarded-port"] = headers.get("host", "").partition(":")[2] or "80"
    headers["x-amzn-trace-id"] = f"Root=1-{uuid.uuid4().hex[:8]}-{uuid.uuid4().hex[:24]}"
    return headers, cookies


def _joined(pairs: list[tuple[str, str]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in pairs:
        joined[name] = f"{joined[name]},{value}" if name in joined else value
    return joined


def _text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def _iam_identity() -> dict[str, Any]:
    return {
        "accessKey": "local",
        "accountId": ACCOUNT,
        "callerId": "AIDALOCAL",
        "cognitoIdentity": None,
        "principalOrgId": None,
        "userArn": f"arn:aws:iam::{ACCOUNT}:user/local",
        "userId": "AIDALOCAL",
    }
