"""A producer's attachments are pinned to what they are: version, size and SHA-256."""

from __future__ import annotations

import hashlib
import unicodedata
from typing import TYPE_CHECKING

import pytest
from botocore.exceptions import ClientError

from postlease import attachments, config
from postlease.attachments import Pinned, Wanted, rules
from postlease.errors import InvalidInputError, UnavailableError
from postlease.model import AttachmentReference

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.database import Connection
    from tests.integration.retention.conftest import Bucket

PRODUCER = "billing"
OWN = f"attachments/uploads/{attachments.tag(PRODUCER)}/"
KEPT = f"attachments/kept/{attachments.tag(PRODUCER)}/"
SHARED = "attachments/shared/"
OTHERS = f"attachments/uploads/{attachments.tag('shop')}/"
CONTENT = b"%PDF-1.7"


def wanted(key: str, number: int = 0, **changed: str | None) -> Wanted:
    """The attachment at place number of a message."""
    asked: dict[str, str | None] = {"filename": "a.pdf"}
    return Wanted(pointer=f"/attachments/{number}", storage_ref=key, **(asked | changed))  # type: ignore[arg-type]


def refusal(*asked: Wanted) -> tuple[str, str]:
    """Pointer and detail of the refusal of asked."""
    with pytest.raises(InvalidInputError) as caught:
        attachments.pin(PRODUCER, asked)
    return caught.value.pointer, caught.value.detail


def test_version_size_and_sha_256_are_what_lies_there_now(bucket: Bucket) -> None:
    bucket.put(OWN + "a", b"older")
    version = bucket.put(OWN + "a", CONTENT)
    assert attachments.pin(PRODUCER, [wanted(OWN + "a", content_id="logo")]) == [
        Pinned(
            storage_ref=OWN + "a",
            filename="a.pdf",
            content_type="application/pdf",
            content_id="logo",
            version_id=version,
            size=len(CONTENT),
            sha256=hashlib.sha256(CONTENT).digest(),
        )
    ]


def test_a_version_that_is_named_is_pinned_although_a_newer_one_lies_on_top(
    bucket: Bucket,
) -> None:
    version = bucket.put(OWN + "a", b"older")
    bucket.put(OWN + "a", CONTENT)
    [pinned] = attachments.pin(PRODUCER, [wanted(OWN + "a", version_id=version)])
    assert (pinned.version_id, pinned.size) == (version, 5)
    assert pinned.sha256 == hashlib.sha256(b"older").digest()


def test_several_are_pinned_in_their_order(bucket: Bucket) -> None:
    keys = [f"{OWN}{number}" for number in range(20)]
    for key in keys:
        bucket.put(key, key.encode())
    pinned = attachments.pin(PRODUCER, [wanted(key, n) for n, key in enumerate(keys)])
    assert [one.sha256 for one in pinned] == [hashlib.sha256(k.encode()).digest() for k in keys]


def test_a_message_without_attachments_asks_nobody(
    bucket: Bucket, storage_away: Callable[..., None]
) -> None:
    storage_away(away=True)
    assert attachments.pin(PRODUCER, []) == []


def test_what_the_schema_stores_is_what_was_pinned(bucket: Bucket) -> None:
    version = bucket.put(OWN + "a", CONTENT)
    [pinned] = attachments.pin(PRODUCER, [wanted(OWN + "a")])
    assert pinned.as_member() == {
        "storage_ref": OWN + "a",
        "filename": "a.pdf",
        "content_type": "application/pdf",
        "content_id": None,
        "version_id": version,
        "size": len(CONTENT),
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
    }


class Head:
    """Stands between the product and the storage: what a stored checksum looks like is not ours."""

    def __init__(self, real: object, **changed: str) -> None:
        self._real = real
        self._changed = changed
        self.asked = 0
        self.read = 0

    def head_object(self, **named: object) -> dict[str, object]:
        """The answer, changed and counted."""
        self.asked += 1
        assert named["ChecksumMode"] == "ENABLED"
        return {**self._real.head_object(**named), **self._changed}  # type: ignore[attr-defined]

    def get_object(self, **named: object) -> object:
        """The answer, counted."""
        self.read += 1
        return self._real.get_object(**named)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("changed", "reads"),
    [
        ({"ChecksumSHA256": "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="}, 0),
        ({"ChecksumSHA256": "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=-2"}, 1),
        (
            {
                "ChecksumSHA256": "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=",
                "ETag": '"9b2cf535f27731c974343645a3985328-2"',
            },
            1,
        ),
        ({"ChecksumSHA256": ""}, 1),
        ({"ChecksumCRC32": "jNwWgw=="}, 1),
    ],
)
def test_a_checksum_of_the_whole_object_is_taken_and_any_other_object_is_read(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], reads: int
) -> None:
    content = b"abc"  # the SHA-256 above is of it
    bucket.put(OWN + "a", content)
    head = Head(bucket.s3, **changed)
    monkeypatch.setattr("postlease.attachments.pinning.storage", lambda: head)
    [pinned] = attachments.pin(PRODUCER, [wanted(OWN + "a")])
    assert pinned.sha256 == hashlib.sha256(content).digest()
    assert head.read == reads


def test_an_object_uploaded_in_parts_has_the_sha_256_of_all_its_bytes(bucket: Bucket) -> None:
    key, content = OWN + "a", b"y" * 6_000_000
    named = {"Bucket": bucket.name, "Key": key}
    upload = bucket.s3.create_multipart_upload(**named, ChecksumAlgorithm="SHA256")["UploadId"]
    parts = [
        {
            "PartNumber": number,
            "ETag": bucket.s3.upload_part(
                **named,
                PartNumber=number,
                UploadId=upload,
                Body=content,
                ChecksumAlgorithm="SHA256",
            )["ETag"],
        }
        for number in (1, 2)
    ]
    bucket.s3.complete_multipart_upload(**named, UploadId=upload, MultipartUpload={"Parts": parts})
    [pinned] = attachments.pin(PRODUCER, [wanted(key)])
    assert (pinned.size, pinned.sha256) == (12_000_000, hashlib.sha256(content * 2).digest())


@pytest.mark.parametrize("prefix", [OWN, KEPT, SHARED])
def test_a_producer_may_name_its_own_objects_and_shared_ones(bucket: Bucket, prefix: str) -> None:
    bucket.put(prefix + "a")
    assert attachments.pin(PRODUCER, [wanted(prefix + "a")])


@pytest.mark.parametrize(
    "key",
    [
        OTHERS + "a",
        OTHERS.replace("uploads", "kept") + "a",
        "attachments/a",
        "other/a",
        "a",
        "",
        OWN,
        SHARED,
        OWN[:-1],
        "/" + OWN + "a",
        OWN.upper() + "a",
        f"{OWN}../{attachments.tag('shop')}/a",
        f"{SHARED}../uploads/{attachments.tag('shop')}/a",
        OWN + "./a",
        OWN + "..",
        OWN + "a\n",
        OWN + "a\x00",
        OWN + "\ud800",
        OWN + "x" * 1024,
    ],
)
def test_another_s_object_is_refused_in_the_words_for_one_that_is_not_there(
    bucket: Bucket, storage_away: Callable[..., None], key: str
) -> None:
    bucket.put(OTHERS + "a")
    missing = refusal(wanted(OWN + "missing"))
    storage_away(away=True)  # it is not even asked for
    assert refusal(wanted(key)) == missing


@pytest.mark.parametrize(
    "version", ["", "no-such", "11111111-1111-1111-1111-111111111111", "a b", "\u00e9", "x" * 1025]
)
def test_a_version_that_is_not_there_is_an_object_that_is_not_there(
    bucket: Bucket, version: str
) -> None:
    bucket.put(OWN + "a")
    assert refusal(wanted(OWN + "a", version_id=version)) == refusal(wanted(OWN + "missing"))


@pytest.mark.parametrize("code", ["400", "405"])
def test_what_the_storage_calls_no_version_is_an_object_that_is_not_there(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    class Refusing:
        def head_object(self, **_named: object) -> None:
            raise ClientError({"Error": {"Code": code}}, "HeadObject")

    monkeypatch.setattr("postlease.attachments.pinning.storage", Refusing)
    assert refusal(wanted(OWN + "a", version_id="v"))[0] == "/attachments/0/storage_ref"
    with pytest.raises(UnavailableError):
        attachments.pin(PRODUCER, [wanted(OWN + "a")])


def test_a_deleted_object_is_not_there(bucket: Bucket) -> None:
    bucket.put(OWN + "a")
    bucket.s3.delete_object(Bucket=bucket.name, Key=OWN + "a")
    assert refusal(wanted(OWN + "a"))[0] == "/attachments/0/storage_ref"


def test_an_object_that_goes_while_it_is_read_is_not_there(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = bucket.put(OWN + "a")

    class Going(Head):
        def get_object(self, **named: object) -> object:
            bucket.s3.delete_object(Bucket=bucket.name, Key=OWN + "a", VersionId=version)
            return super().get_object(**named)

    going = Going(bucket.s3, ChecksumSHA256="")
    monkeypatch.setattr("postlease.attachments.pinning.storage", lambda: going)
    assert refusal(wanted(OWN + "a"))[0] == "/attachments/0/storage_ref"


def test_the_pointer_names_the_one_at_fault(bucket: Bucket) -> None:
    bucket.put(OWN + "a")
    assert refusal(wanted(OWN + "a"), wanted(OWN + "b", 1))[0] == "/attachments/1/storage_ref"


@pytest.mark.parametrize(
    ("changed", "member"),
    [
        ({"filename": ""}, "filename"),
        ({"filename": "a\x00.pdf"}, "filename"),
        ({"filename": "x" * 256}, "filename"),
        ({"filename": "a.exe"}, "filename"),
        ({"filename": "a.PDF.Js"}, "filename"),
        ({"content_type": "pdf"}, "content_type"),
        ({"content_type": "a/b; name=c"}, "content_type"),
    ],
)
def test_a_name_or_type_that_no_mail_can_carry_is_refused(
    bucket: Bucket, changed: dict[str, str], member: str
) -> None:
    """ATT-03: what is accepted here raises at no later stage."""
    bucket.put(OWN + "a")
    assert refusal(wanted(OWN + "a", **changed))[0] == f"/attachments/0/{member}"


@pytest.mark.parametrize(
    ("filename", "given", "kind"),
    [
        ("a.pdf", None, "application/pdf"),
        ("A.PNG", None, "image/png"),
        ("a.tar.gz", None, "application/octet-stream"),
        ("a.no-such", None, "application/octet-stream"),
        ("a", None, "application/octet-stream"),
        ("a.pdf", "text/plain", "text/plain"),
    ],
)
def test_the_type_is_the_given_one_or_what_the_name_s_ending_says(
    bucket: Bucket, filename: str, given: str | None, kind: str
) -> None:
    bucket.put(OWN + "a")
    [pinned] = attachments.pin(PRODUCER, [wanted(OWN + "a", filename=filename, content_type=given)])
    assert pinned.content_type == kind


def test_more_than_the_provider_takes_after_base64_is_refused(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SES-06: three quarters of it, without what a mail needs beside them."""
    monkeypatch.setitem(config.LARGEST_MAILS, "ses", 2 * 1024 * 1024 + 16)
    for name, size in (("a", 4), ("b", 5), ("c", 9), ("d", 13)):
        bucket.put(OWN + name, b"x" * size)
    assert attachments.pin(PRODUCER, [wanted(OWN + "a"), wanted(OWN + "b", 1)])
    assert refusal(wanted(OWN + "a"), wanted(OWN + "c", 1))[0] == "/attachments"
    assert refusal(wanted(OWN + "a"), wanted(OWN + "d", 1))[0] == "/attachments/1/storage_ref"


def test_the_schema_takes_as_much_as_the_api(owner: Connection) -> None:
    row = owner.execute(
        "SELECT pg_get_constraintdef(oid) AS rule FROM pg_constraint"
        " WHERE conname = 'email_attachments_total_size'"
    ).fetchone()
    assert row
    assert f"<= {rules.LARGEST_TOTAL})" in row["rule"]


def test_what_is_too_large_is_not_read(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(config.LARGEST_MAILS, "ses", 2 * 1024 * 1024 + 4)
    bucket.put(OWN + "a", b"x" * 4)
    head = Head(bucket.s3)
    monkeypatch.setattr("postlease.attachments.pinning.storage", lambda: head)
    refusal(wanted(OWN + "a"))
    assert head.read == 0


def test_a_storage_that_does_not_answer_is_unavailable_and_names_no_key(
    bucket: Bucket, storage_away: Callable[..., None]
) -> None:
    storage_away(away=True)
    with pytest.raises(UnavailableError) as caught:
        attachments.pin(PRODUCER, [wanted(OWN + "a")])
    assert "uploads" not in str(caught.value)


KEYS = [
    "a b.pdf",
    "a+b.pdf",
    "a%20b.pdf",
    "a%2Bb.pdf",
    "a%252Bb.pdf",
    unicodedata.normalize("NFC", "\u00e9.pdf"),
    unicodedata.normalize("NFD", "\u00e9.pdf"),
    "dir//x",
    "/x",
    "x/",
    "a?b#c&d=e.pdf",
    "a;b:c@d,e$f!g'h(i)j*k~l.pdf",
    "...",
    "\u05e9\u05dc\u05d5\u05dd.docx",
]


def test_a_key_is_passed_on_as_it_is_written(bucket: Bucket) -> None:
    """ATT-04: all lie there together, and each is pinned and loaded as itself, never as another."""
    for key in KEYS:
        bucket.put(OWN + key, key.encode())
    pinned = [
        one
        for start in (0, 7)
        for one in attachments.pin(
            PRODUCER, [wanted(OWN + key, n) for n, key in enumerate(KEYS[start : start + 7])]
        )
    ]
    assert [one.sha256 for one in pinned] == [hashlib.sha256(k.encode()).digest() for k in KEYS]
    loaded = attachments.load(
        [
            AttachmentReference(
                one.filename,
                one.content_type,
                one.storage_ref,
                one.version_id,
                one.size,
                one.sha256,
            )
            for one in pinned
        ]
    )
    assert [attachment.content.decode() for attachment in loaded] == KEYS
