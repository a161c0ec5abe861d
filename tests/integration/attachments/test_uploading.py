"""A presigned upload takes one file, announced beforehand, to a place of its producer's own."""

from __future__ import annotations

import base64
import hashlib
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from postlease import attachments, config
from postlease.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.attachments import Upload
    from tests.integration.retention.conftest import Bucket

CONTENT = b"%PDF-1.7"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def ask(producer: str = "billing", **changed: object) -> Upload:
    """An upload of CONTENT, unless changed."""
    asked = {
        "filename": "a.pdf",
        "content_type": "application/pdf",
        "size": len(CONTENT),
        "sha256": SHA256,
    }
    return attachments.upload(producer, **(asked | changed))  # type: ignore[arg-type]


def put(upload: Upload, content: bytes = CONTENT) -> int:
    """Send content as upload says; the status."""
    request = urllib.request.Request(  # noqa: S310 - a loopback port
        upload.url, data=content, method=upload.method, headers=dict(upload.headers)
    )
    with urllib.request.urlopen(request) as answer:  # noqa: S310
        return int(answer.status)


def test_the_tag_of_a_producer_is_16_digits_of_its_sha_256() -> None:
    assert attachments.tag("billing") == hashlib.sha256(b"billing").hexdigest()[:16]


def test_an_upload_arrives_under_its_reference_with_its_type(bucket: Bucket) -> None:
    upload = ask()
    assert put(upload) == 200
    stored = bucket.s3.get_object(Bucket=bucket.name, Key=upload.storage_ref)
    assert stored["Body"].read() == CONTENT
    assert stored["ContentType"] == "application/pdf"


def test_an_upload_lies_under_the_producer_s_own_prefix_and_nowhere_twice(bucket: Bucket) -> None:
    one, two = ask("billing"), ask("billing")
    assert one.storage_ref.startswith(f"attachments/uploads/{attachments.tag('billing')}/")
    assert one.storage_ref != two.storage_ref
    assert attachments.tag("billing") not in ask("shop").storage_ref


def test_length_type_and_checksum_are_signed_so_that_the_storage_takes_no_other_bytes(
    bucket: Bucket,
) -> None:
    upload = ask()
    [signed] = parse_qs(urlsplit(upload.url).query)["X-Amz-SignedHeaders"]
    assert signed.split(";") == ["content-length", "content-type", "host", "x-amz-checksum-sha256"]
    assert upload.headers == {
        "Content-Length": "8",
        "Content-Type": "application/pdf",
        "x-amz-checksum-sha256": base64.b64encode(bytes.fromhex(SHA256)).decode(),
    }


def test_an_upload_ends_fifteen_minutes_after_it_was_signed(bucket: Bucket) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    upload = ask()
    assert timedelta() <= upload.expires_at - before - timedelta(minutes=15) < timedelta(minutes=1)
    assert parse_qs(urlsplit(upload.url).query)["X-Amz-Expires"] == ["900"]


def test_an_upload_is_signed_without_a_call(
    bucket: Bucket, storage_away: Callable[..., None]
) -> None:
    storage_away(away=True)
    assert ask().method == "PUT"


def test_an_upload_goes_to_the_bucket_s_own_region(
    bucket: Bucket, environment: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    environment(AWS_DEFAULT_REGION="eu-central-1", ATTACHMENTS_BUCKET="mails")
    assert urlsplit(ask().url).netloc == "mails.s3.eu-central-1.amazonaws.com"


def test_the_url_is_not_printed(bucket: Bucket) -> None:
    assert "X-Amz" not in repr(ask())


@pytest.mark.parametrize(
    ("name", "in_key"),
    [
        ("a b+c%20.pdf", "a_b_c_20.pdf"),
        ("\u00e9.pdf", "_.pdf"),
        ("../../etc/passwd", "_.._etc_passwd"),
        ("C:\\x\\y.pdf", "C_x_y.pdf"),
        (".htaccess", "htaccess"),
        ("..", "file"),
        ("x" * 200 + ".pdf", "x" * 96 + ".pdf"),
    ],
)
def test_the_key_ends_with_a_safe_form_of_the_name(bucket: Bucket, name: str, in_key: str) -> None:
    assert ask(filename=name).storage_ref.rpartition("/")[2] == in_key


@pytest.mark.parametrize(
    ("changed", "pointer"),
    [
        ({"filename": ""}, "/filename"),
        ({"filename": "x" * 256}, "/filename"),
        ({"filename": "a\r\nX-Evil: 1.pdf"}, "/filename"),
        ({"filename": "a\u2028.pdf"}, "/filename"),
        ({"filename": "a.exe"}, "/filename"),
        ({"content_type": "pdf"}, "/content_type"),
        ({"content_type": "a/b\r\nX-Evil: 1"}, "/content_type"),
        ({"size": -1}, "/size"),
        ({"sha256": SHA256[:-1]}, "/sha256"),
        ({"sha256": SHA256.upper()}, "/sha256"),
    ],
)
def test_what_no_mail_can_carry_is_refused_before_it_is_uploaded(
    bucket: Bucket, changed: dict[str, object], pointer: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        ask(**changed)
    assert caught.value.pointer == pointer


def test_one_file_fills_at_most_a_whole_mail(bucket: Bucket) -> None:
    """38 MB after base64: SES-06."""
    largest = 28_500_000
    assert ask(size=largest).headers["Content-Length"] == str(largest)
    with pytest.raises(InvalidInputError) as caught:
        ask(size=largest + 1)
    assert caught.value.pointer == "/size"


@pytest.mark.parametrize("provider", config.LARGEST_MAILS)
def test_the_configured_provider_says_how_large_a_mail_may_be(
    bucket: Bucket,
    environment: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    provider: str,
) -> None:
    monkeypatch.setitem(config.LARGEST_MAILS, provider, 2 * 1024 * 1024 + 12)
    environment(
        MAIL_PROVIDER=provider, SMTP_HOST="relay.example.com", RESEND_API_KEY_SECRET_ARN="arn"
    )
    assert ask(size=9)
    with pytest.raises(InvalidInputError):
        ask(size=10)
