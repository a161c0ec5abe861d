"""The search for canaries finds each spelling; else the silence of the logs would say nothing."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest

from postlease.telemetry import logger
from tests.canaries import Canaries, entries, looks_personal

ADDRESS = "canary0a1b2c@nest9f8e7d.example.com"
ALL = ["canary0a1b2c", "nest9f8e7d"]


@pytest.mark.parametrize(
    "text",
    [
        ADDRESS,
        ADDRESS.upper(),
        quote(ADDRESS, safe=""),
        "".join(f"%{byte:02X}" for byte in ADDRESS.encode()),
        "".join(f"\\u{ord(letter):04x}" for letter in ADDRESS),
        json.dumps({"to": [f"Zoë <{ADDRESS}>"]}),
        ADDRESS.encode().hex(),
        repr(ADDRESS.encode()),
        *(
            base64.b64encode(f"{'x' * n}{ADDRESS}{'y' * m}".encode()).decode()
            for n in range(4)
            for m in range(3)
        ),
        *(
            base64.urlsafe_b64encode(f"{'x' * n}{ADDRESS.upper()}".encode()).decode()
            for n in range(3)
        ),
    ],
)
def test_an_address_is_found_in_every_spelling(text: str) -> None:
    assert Canaries({*ALL, "absent"}).found_in(f"a {text} b") == ALL


def test_a_code_is_found_where_it_stands_alone() -> None:
    canaries = Canaries(codes={"042137"})
    for text in ("042137", 'code="042137",', "code 042137\n"):
        assert canaries.found_in(text) == ["042137"]
    for text in ("1042137", "0.042137", "0421370", "a042137"):
        assert canaries.found_in(text) == []


def test_a_person_and_a_key_are_searched_for() -> None:
    canaries = Canaries()
    person, key = canaries.person(), canaries.key()
    text = f"{person.name} {person.address} {key}"
    assert canaries.found_in(text) == sorted({person.name, person.mailbox, person.domain, key})
    assert canaries.found_in(text, but=frozenset({key, person.name, person.mailbox})) == [
        person.domain
    ]


def test_the_entries_of_a_log_are_told_apart_by_application() -> None:
    log = (
        "2026-03-12 09:30:00.123 UTC [7] user= app=: started\n"
        "2026-03-12 09:30:01.123 UTC [8] user=a app=ours: LOG:  statement: SELECT\n\t1\n"
        "2026-03-12 09:30:02.123 UTC [9] user=a app=theirs: ERROR:  no\n\tsecond line\n"
    )
    started, theirs = entries(log, but_of="ours")
    assert "started" in started
    assert theirs.endswith("no\n\tsecond line\n")
    assert len(entries(log)) == 3


@pytest.mark.parametrize(
    "text",
    [
        "ada@example.com",
        "ADA%40MAIL.EXAMPLE.NET",
        "to=<r***@example.com>",
        f"token {'Az_-' * 16}.",
    ],
)
def test_what_looks_like_a_person_of_the_tests_or_a_token(text: str) -> None:
    assert looks_personal(text)


@pytest.mark.parametrize("text", ["example.com", "evt_01M8MAWE46EPBBT1MHDSY4Q8D4", "Az_-" * 17])
def test_what_looks_like_neither(text: str) -> None:
    assert not looks_personal(text)


def test_a_line_of_the_products_log_is_read(leaks: list[str]) -> None:
    logger.info("sent", extra={"to": ["ada@example.com"]})
    logger.info("sent to ada@example.com")
    logger.info("sent", extra={"event_id": "evt_01M8MAWE46EPBBT1MHDSY4Q8D4"})
    assert len(leaks) == 2
    leaks.clear()
