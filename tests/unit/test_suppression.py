"""The list knows digests: the same for every spelling of an address, another for each pepper."""

from __future__ import annotations

from postlease import suppression

PEPPER = b"pepper-" * 8


def test_every_spelling_of_case_has_the_same_digest() -> None:
    assert suppression.digest(PEPPER, "Ada@Example.COM") == suppression.digest(
        PEPPER, "ada@example.com"
    )


def test_other_addresses_and_other_peppers_have_other_digests() -> None:
    digests = {
        suppression.digest(pepper, address)
        for pepper in (PEPPER, b"other-pepper-" * 4)
        for address in ("ada@example.com", "ada+list@example.com", "bob@example.com")
    }
    assert len(digests) == 6


def test_a_digest_has_32_bytes_and_tells_no_address() -> None:
    digest = suppression.digest(PEPPER, "ada@example.com")
    assert len(digest) == 32
    assert b"ada" not in digest
