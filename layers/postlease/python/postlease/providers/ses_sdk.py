"""SES by the SDK: for whatever the environment asks that `ses_account` does not read.

It is also what the other way is measured against: every test of `ses` is asked of both.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from postlease.errors import UnavailableError
from postlease.model import Accepted, Blocked, Outcome, Rejected, Unknown, Unreachable
from postlease.providers.ses_answers import classify

if TYPE_CHECKING:
    from collections.abc import Mapping

    from botocore.exceptions import BotoCoreError
    from botocore.loaders import Loader

    from postlease.config import TimeRules


class SdkClient:
    """One client of boto3, which threads may share. Raises what boto3 raises when it is made."""

    def __init__(self, times: TimeRules, *, connections: int) -> None:
        # 300 ms of import and 80 ms of client: only a function that sends pays.
        import boto3  # noqa: PLC0415
        from botocore.config import Config  # noqa: PLC0415
        from botocore.session import Session  # noqa: PLC0415

        bare = Session()
        bare.register_component("data_loader", _loader())
        self._client = boto3.session.Session(botocore_session=bare).client(
            "sesv2",
            config=Config(
                retries={"total_max_attempts": 1, "mode": "standard"},
                connect_timeout=times.connect_timeout.total_seconds(),
                read_timeout=times.read_timeout.total_seconds(),
                max_pool_connections=connections,
            ),
        )

    def send(self, fields: Mapping[str, Any], content: bytes) -> Outcome:
        """One SendEmail of content, with the request's other fields."""
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

        try:
            answer = self._client.send_email(**fields, Content={"Raw": {"Data": content}})
        except ClientError as error:
            return classify(
                code=str(error.response.get("Error", {}).get("Code", "")),
                status=int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)),
                text=str(error.response.get("Error", {}).get("Message", "")),
                sender=str(fields["FromEmailAddress"]),
            )
        except BotoCoreError as error:
            return _without_answer(error)
        identifier = answer.get("MessageId")
        return Accepted(identifier) if identifier else Unknown("unreadable_answer")

    def sending_rate(self) -> float:
        """The account's MaxSendRate, 0 or less where it has none; UnavailableError."""
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

        try:
            return self._client.get_account().get("SendQuota", {}).get("MaxSendRate", 0)
        except (BotoCoreError, ClientError) as error:
            raise UnavailableError(f"SES tells no rate: {type(error).__name__}") from None


def before_a_call(error: Exception) -> Outcome:
    """What it means that there is no client, or nobody to call as: nothing has left."""
    from botocore.exceptions import BotoCoreError  # noqa: PLC0415

    # Whatever else it is, no mail can leave.
    return (
        _without_answer(error) if isinstance(error, BotoCoreError) else Blocked("client_unusable")
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
