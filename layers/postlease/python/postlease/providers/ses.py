"""Amazon SES, API v2: one SendEmail with the whole MIME, and no retry by the SDK.

SES keeps no idempotency key and replaces the Message-ID. What a mail is known by in its events
are two tags: `postlease-id` and `postlease-attempt`.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import TYPE_CHECKING

from postlease.config import LARGEST_MAILS
from postlease.errors import UnavailableError
from postlease.model import Accepted, Blocked, Outcome, Rejected, Unknown, Unreachable
from postlease.providers.ses_answers import classify

if TYPE_CHECKING:
    from botocore.exceptions import BotoCoreError
    from botocore.loaders import Loader
    from types_boto3_sesv2.client import SESV2Client
    from types_boto3_sesv2.type_defs import SendEmailRequestTypeDef

    from postlease.config import TimeRules
    from postlease.model import OutgoingMail

LARGEST = LARGEST_MAILS["ses"]
"""More would be refused after the upload."""


class SesProvider:
    """Sends through SES with one client, made at the first mail and shared by all threads."""

    name = "ses"
    keeps_keys = False

    def __init__(
        self, times: TimeRules, *, configuration_set: str | None, connections: int
    ) -> None:
        self._times = times
        self._configuration_set = configuration_set
        self._connections = connections
        self._lock = threading.Lock()
        self._client: SESV2Client | None = None

    def send(self, mail: OutgoingMail) -> Outcome:
        """One request, one answer; see `ses_answers` for what the answers mean."""
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

        if len(mail.content) > LARGEST:
            return Rejected("too_large", is_answer=False)
        try:
            client = self._connected()
        except BotoCoreError as error:
            return _without_answer(error)
        except Exception:  # noqa: BLE001 - whatever it is, nothing has left, and no mail can
            return Blocked("client_unusable")
        try:
            answer = client.send_email(**self._request(mail))
        except ClientError as error:
            return classify(
                code=str(error.response.get("Error", {}).get("Code", "")),
                status=int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)),
                text=str(error.response.get("Error", {}).get("Message", "")),
                sender=mail.envelope.sender,
            )
        except BotoCoreError as error:
            return _without_answer(error)
        identifier = answer.get("MessageId")
        return Accepted(identifier) if identifier else Unknown("unreadable_answer")

    def get_ready(self) -> None:
        """Make the client: it takes long enough for calls to pile up behind it."""
        # Whatever is wrong, each mail's own call meets it again and answers with it.
        with contextlib.suppress(Exception):
            self._connected()

    def sending_rate(self) -> float | None:
        """The account's MaxSendRate (GetAccount), which counts recipients."""
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

        try:
            quota = self._connected().get_account().get("SendQuota", {})
        except (BotoCoreError, ClientError) as error:
            raise UnavailableError(f"SES tells no rate: {type(error).__name__}") from None
        rate = quota.get("MaxSendRate", 0)
        return rate if rate > 0 else None

    def _request(self, mail: OutgoingMail) -> SendEmailRequestTypeDef:
        tags = {
            **mail.tags,
            "postlease-id": str(mail.message_id),
            "postlease-attempt": str(mail.attempt),
        }
        request: SendEmailRequestTypeDef = {
            "FromEmailAddress": mail.envelope.sender,
            "Destination": {
                "ToAddresses": mail.envelope.to,
                "CcAddresses": mail.envelope.cc,
                "BccAddresses": mail.envelope.bcc,
            },
            "Content": {"Raw": {"Data": mail.content}},
            "EmailTags": [{"Name": name, "Value": value} for name, value in tags.items()],
        }
        if self._configuration_set:
            request["ConfigurationSetName"] = self._configuration_set
        return request

    def _connected(self) -> SESV2Client:
        # Clients may be shared by threads, but not made by several at once.
        with self._lock:
            if self._client is None:
                self._client = self._make_client()
            return self._client

    def _make_client(self) -> SESV2Client:
        # 300 ms of import and 80 ms of client: only a function that sends pays.
        import boto3  # noqa: PLC0415
        from botocore.config import Config  # noqa: PLC0415
        from botocore.session import Session  # noqa: PLC0415

        bare = Session()
        bare.register_component("data_loader", _loader())
        return boto3.session.Session(botocore_session=bare).client(
            "sesv2",
            config=Config(
                retries={"total_max_attempts": 1, "mode": "standard"},
                connect_timeout=self._times.connect_timeout.total_seconds(),
                read_timeout=self._times.read_timeout.total_seconds(),
                max_pool_connections=self._connections,
            ),
        )


@functools.cache
def _loader() -> Loader:
    """The SDK's descriptions of its services: most of what a client costs, so read once a process.

    A doorbell makes a client for each of its batches. Connections and logins are not kept: they may
    die while an environment is frozen.
    """
    from botocore.loaders import create_loader  # noqa: PLC0415

    return create_loader()


def _without_answer(error: BotoCoreError) -> Outcome:
    """What it means that the SDK gave up without an answer from SES.

    Every kind that can only arise before the request is written is named; any other may have
    left, and counts as unknown.
    """
    from botocore import exceptions as sdk  # noqa: PLC0415

    meanings: tuple[tuple[type[BotoCoreError], Outcome], ...] = (
        (sdk.ParamValidationError, Rejected("invalid_request", is_answer=False)),
        (sdk.ConnectTimeoutError, Unreachable("connect_timeout")),
        # OpenSSL reports the end of an established stream as a closed connection: what comes as
        # an SSL error is a handshake that failed.
        (sdk.SSLError, Unreachable("tls_failed")),
        (sdk.ConnectionError, Unreachable("connect_failed")),
        (sdk.CredentialRetrievalError, Unreachable("credentials_endpoint")),
        (sdk.NoCredentialsError, Blocked("credentials_missing")),
        (sdk.PartialCredentialsError, Blocked("credentials_missing")),
        (sdk.NoRegionError, Blocked("region_missing")),
        (sdk.ReadTimeoutError, Unknown("read_timeout")),
        (sdk.ConnectionClosedError, Unknown("connection_closed")),
    )
    return next(
        (meaning for kind, meaning in meanings if isinstance(error, kind)), Unknown("no_answer")
    )
