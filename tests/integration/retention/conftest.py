"""A versioned bucket of the emulated storage, and messages with objects in it."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from postlease import outbox
from tests import arrange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from postlease.database import Connection

AGE = timedelta(days=90)
OLD = timedelta(days=91)
CONTENT = b"%PDF-"


def always() -> bool:
    """Time without an end."""
    return True


@dataclass(frozen=True, slots=True)
class Bucket:
    """The bucket, seen from outside the product."""

    s3: Any
    name: str

    def put(self, key: str, content: bytes = CONTENT) -> str:
        """Store content under key; its version."""
        return str(self.s3.put_object(Bucket=self.name, Key=key, Body=content)["VersionId"])

    def versions(self) -> set[tuple[str, str]]:
        """Every version of every object."""
        pages = self.s3.get_paginator("list_object_versions").paginate(Bucket=self.name)
        return {(v["Key"], v["VersionId"]) for page in pages for v in page.get("Versions", [])}

    def delete_markers(self) -> list[Any]:
        """What a deletion without a version leaves behind."""
        return list(self._listed().get("DeleteMarkers", []))

    def refuse_deletion(self, key: str) -> None:
        """Let the storage refuse to delete key."""
        denial = {
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:DeleteObject",
            "Resource": f"arn:aws:s3:::{self.name}/{key}",
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": [denial]})
        self.s3.put_bucket_policy(Bucket=self.name, Policy=policy)

    def allow_all(self) -> None:
        """Take the refusal back."""
        self.s3.delete_bucket_policy(Bucket=self.name)

    def _listed(self) -> Any:
        return self.s3.list_object_versions(Bucket=self.name)


@pytest.fixture
def bucket(aws_endpoint: str, environment: Callable[..., None]) -> Iterator[Bucket]:
    """A new bucket, and settings that name it."""
    s3 = boto3.client(
        "s3",
        endpoint_url=aws_endpoint,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
    )
    made = Bucket(s3, f"attachments-{secrets.token_hex(6)}")
    s3.create_bucket(Bucket=made.name)
    s3.put_bucket_versioning(Bucket=made.name, VersioningConfiguration={"Status": "Enabled"})
    environment(ATTACHMENTS_BUCKET=made.name)
    yield made
    s3.close()


@pytest.fixture
def storage_away(
    bucket: Bucket, environment: Callable[..., None], aws_endpoint: str
) -> Callable[..., None]:
    """Call it with away=True and nobody listens at the storage's address."""

    def change(*, away: bool) -> None:
        environment(
            ATTACHMENTS_BUCKET=bucket.name,
            AWS_ENDPOINT_URL="http://127.0.0.1:9" if away else aws_endpoint,
        )

    return change


def attach(
    owner: Connection, message_id: UUID, key: str, version: str | None, position: int = 1
) -> None:
    """Let a message refer to an object with the usual content."""
    owner.execute(
        "INSERT INTO postlease.email_attachments"
        " (message_id, position, filename, content_type, storage_ref, version_id, size, sha256)"
        " VALUES (%s, %s, 'a.pdf', 'application/pdf', %s, %s, %s, %s)",
        [message_id, position, key, version, len(CONTENT), hashlib.sha256(CONTENT).digest()],
    )


def finished(
    owner: Connection, application: Connection, number: int = 1, *, ago: timedelta = OLD
) -> list[UUID]:
    """Messages that went the whole way, ago."""
    arrange.enqueue(owner, number)
    messages = arrange.dispatch(application, number, owner=secrets.token_hex(4))
    claims = [message.claim for message in messages]
    outbox.record(application, [arrange.sent(claim) for claim in claims])
    ids = [claim.message_id for claim in claims]
    for message_id in ids:
        arrange.age(owner, message_id, ago, "created_at", "available_at", "sent_at", "finished_at")
    return ids
