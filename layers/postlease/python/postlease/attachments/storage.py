"""The S3 client of this process, and what the failures of a call mean."""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import TYPE_CHECKING

from postlease.config import settings
from postlease.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from types_boto3_s3.client import S3Client

_GONE = {"NoSuchKey", "NoSuchVersion", "404"}
# The version named is a deletion's mark, or nothing that could be a version at all.
_NEVER_WAS = {"MethodNotAllowed", "405", "InvalidArgument", "400"}

# Senders ask at the same time. A client may be shared between threads, but not made in two.
_making = threading.Lock()


class SilentError(UnavailableError):
    """The storage keeps its callers waiting: worse than a refusal, for others wait behind them."""


class ColdError(UnavailableError):
    """The object was moved to where it cannot be read from at once."""


class AbsentError(Exception):
    """Nothing lies under this key, or not in this version. Stays in this package."""


def storage() -> S3Client:
    """The client, made at the first call. It repeats nothing."""
    with _making:
        return client()


@functools.cache
def client() -> S3Client:
    """See `storage`."""
    # boto3 costs 300 ms of import, and most mails have no attachment.
    import boto3  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    times = settings().times
    return boto3.client(
        "s3",
        config=Config(
            connect_timeout=times.connect_timeout.total_seconds(),
            read_timeout=times.read_timeout.total_seconds(),
            retries={"total_max_attempts": 1},
            # A presigned URL must name the bucket's own region: whoever is sent on to it from the
            # global name has signed for another host.
            signature_version="s3v4",
            s3={"addressing_style": "virtual", "us_east_1_regional_endpoint": "regional"},
        ),
    )


@contextlib.contextmanager
def translated(*, names_version: bool = False) -> Iterator[None]:
    """A call to the storage: AbsentError if it says so, UnavailableError if it fails otherwise.

    SilentError, which is one, if it took the time that a call has, and gave no answer.

    names_version: the call asks for a version that somebody else wrote down.
    """
    from botocore import exceptions as sdk  # noqa: PLC0415

    try:
        yield
    except sdk.ClientError as error:
        code = error.response.get("Error", {}).get("Code")
        if code in _GONE or (names_version and code in _NEVER_WAS):
            raise AbsentError from None
        if code == "InvalidObjectState":
            raise ColdError("the object is in cold storage") from None
        raise UnavailableError("the attachment storage refused") from None
    except (sdk.ReadTimeoutError, sdk.ConnectTimeoutError):
        raise SilentError("the attachment storage is silent") from None
    except (sdk.BotoCoreError, sdk.HTTPClientError, OSError):
        raise UnavailableError("the attachment storage does not answer") from None
