"""Hostile values through the API of a running stack: refused by name, or arrived as they are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import markupsafe
import pytest

from local.stack import Stack
from tests import hostile
from tests.e2e.conftest import Answer, ask, signed

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTENT = b"\x00\xff%PDF"
OBJECT = "attachments/shared/hostile"
NAMES = {
    name: shown.strip()
    for name, shown in hostile.NAMES.items()
    if len(name) <= 100 and "\u202e" not in name
} | {"請求書" * 33: "請求書" * 33}
FILENAMES = {name: shown for name, shown in hostile.FILENAMES.items() if 0 < len(name) <= 255}
ADDRESSES = {
    address: address.replace("@Example.COM", "@example.com") for address in hostile.ADDRESSES
}


@pytest.fixture(scope="module")
def product(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The product, swept by hand alone, with a template that shows what it is given."""
    folder = tmp_path_factory.mktemp("templates")
    (folder / "hostile" / "en").mkdir(parents=True)
    for name, source in (
        ("en/subject.txt.j2", "{{ subject }}\n"),
        ("en/body.txt.j2", "Hello {{ parameter }}\nend\n"),
        ("en/body.html.j2", "<p>{{ parameter }}</p>\n"),
    ):
        (folder / "hostile" / name).write_text(source)
    declared = {"parameters": {name: {"url": True} for name in ("subject", "parameter")}}
    (folder / "hostile" / "template.json").write_text(json.dumps(declared))
    settings = {"SWEEP_LINGER_SECONDS": "0", "TEMPLATES_DIRECTORY": str(folder)}
    with Stack(database_url=server_url, settings=settings) as stack:
        stack.aws.client("s3").put_object(
            Bucket="postlease-attachmentsbucket", Key=OBJECT, Body=CONTENT
        )
        yield stack


def message(
    name: str = "Ada",
    subject: str = "Hello",
    filename: str = "invoice.pdf",
    address: str = "ada@example.com",
    parameter: str = "1",
) -> dict[str, Any]:
    """The body of a request with a value on each axis."""
    return {
        "template": "hostile",
        "to": [{"email": address, "name": name} if name else address, "bob@example.com"],
        "cc": [{"email": "cleo@example.net", "name": "Cleo"}],
        "bcc": [hostile.HIDDEN],
        "reply_to": {"email": "help@example.com", "name": "Help, please"},
        "parameters": {"subject": subject, "parameter": parameter},
        "attachments": [{"storage_ref": OBJECT, "filename": filename}],
    }


def post(product: Stack, body: Any, path: str = "") -> Answer:
    return signed(product, "POST", f"/v1/messages{path}", body)


def test_every_pair_of_hostile_values_arrives_as_its_parts(product: Stack) -> None:
    """MIM-01, MIM-03, MIM-04, MIM-06, MIM-08, MIM-10, ATT-01, ATT-03: nothing is lost."""
    rows = hostile.all_pairs(
        tuple(NAMES)[:13],
        tuple(hostile.SUBJECTS)[:13],
        tuple(FILENAMES)[:13],
        tuple(ADDRESSES),
        tuple(hostile.PARAMETERS),
    )
    assert len(rows) <= 200
    ids = []
    for start in range(0, len(rows), 60):
        batch = {"messages": [message(*row) for row in rows[start : start + 60]]}
        answer = post(product, batch, "/batch")
        assert answer.status == 202, answer.body[:2_000]
        ids += [one["event_id"] for one in answer.json["messages"]]
    product.invoke("sweep")
    arrived = {mail["message_id"]: mail["provider_message_id"] for mail in product.inbox()}
    assert len(product.inbox()) == len(rows)
    found = []
    for event_id, (name, subject, filename, address, parameter) in zip(ids, rows, strict=True):
        raw = ask(f"{product.url}/_local/api/inbox/{arrived[event_id]}/raw").body
        parts, headers = hostile.read(raw)
        wanted = hostile.Parts(
            sender=parts.sender,
            to=((NAMES[name], ADDRESSES[address]), ("", "bob@example.com")),
            cc=(("Cleo", "cleo@example.net"),),
            reply_to=(("Help, please", "help@example.com"),),
            subject=hostile.SUBJECTS[subject],
            text=f"Hello {parameter}\nend\n",
            html=f"<p>{markupsafe.escape(parameter)}</p>\n",
            files=((FILENAMES[filename], CONTENT, None),),
        )
        faults = hostile.differences(wanted, parts, headers) + hostile.faults_of(raw)
        found += [f"{event_id}: {fault[:600]}" for fault in faults]
    assert found == []


UNSTORABLE = ("\x00", "\ud83d")
REFUSED = [
    *(("/to/0/name", {"name": value}) for value in hostile.REFUSED_NAMES),
    *(("/to/0/name", {"name": value}) for value in ("x" * 101, "\u202eeve")),
    *(("/parameters/subject", {"subject": value}) for value in UNSTORABLE),
    *(
        ("/parameters", {"subject": value})
        for value in (*hostile.REFUSED_SUBJECTS, "", "\n")
        if not set(UNSTORABLE) & set(value)
    ),
    *(("/attachments/0/filename", {"filename": value}) for value in hostile.REFUSED_FILENAMES),
    *(("/attachments/0/filename", {"filename": value}) for value in ("", "a" * 256, "a.exe. ")),
    *(
        ("/to/0/email", {"address": value})
        for value in hostile.REFUSED_ADDRESSES
        if "münchen" not in value  # its A-labels are mailed to
    ),
    *(("/parameters/parameter", {"parameter": value}) for value in ("x" * 10_001, *UNSTORABLE)),
]


def test_what_cannot_be_mailed_is_refused_by_the_name_of_its_field(product: Stack) -> None:
    """MIM-03, MIM-06, ATT-03, RCP-03: and nothing of it is stored."""
    before = product.queue()
    wrong = []
    for pointer, given in REFUSED:
        answer = post(product, message(**given))
        named = [error["pointer"] for error in answer.json.get("errors", [])]
        if not (400 <= answer.status < 500 and f"#{pointer}" in named):
            wrong.append((answer.status, named, pointer, ascii(given)))
    assert wrong == []
    assert product.queue() == before
