"""Tokens: one text per set of fields, one spelling per text, and no secret in any message."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import hmac
import re
import string
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postlease import tokens
from postlease.errors import ConfigurationError, TokenKeyUnknownError, TokenMismatchError
from postlease.model import TokenFacts

OLD = "0" * 63 + "a"
NEW = "1" * 63 + "b"
KEY = OLD.encode()
TOKEN_ID = UUID("00112233-4455-4677-8899-aabbccddeeff")
USER_ID = UUID("ffeeddcc-bbaa-4988-b766-554433221100")


def derived(**changes: Any) -> str:
    """A token whose fields are the module's example but for changes."""
    fields: dict[str, Any] = {
        "key": KEY,
        "purpose": "verify_email",
        "token_id": TOKEN_ID,
        "version": 1,
        "user_id": USER_ID,
    }
    fields |= changes
    return tokens.derive(fields.pop("key"), **fields)


def code(**changes: Any) -> str:
    """The code of the same token, but for changes."""
    fields: dict[str, Any] = {
        "key": KEY,
        "purpose": "verify_email",
        "token_id": TOKEN_ID,
        "version": 1,
        "user_id": USER_ID,
    }
    fields |= changes
    return tokens.code(fields.pop("key"), **fields)


def facts(**changes: Any) -> TokenFacts:
    """What the database knows of `derived()`, but for changes."""
    return dataclasses.replace(
        TokenFacts(
            id=TOKEN_ID,
            user_id=USER_ID,
            purpose="verify_email",
            version=1,
            key_id="k1",
            token_hash=tokens.token_hash(derived()),
        ),
        **changes,
    )


def test_the_token_is_its_id_and_the_mac_of_fixed_width_fields() -> None:
    expected = hmac.new(
        KEY,
        b"link"
        b"verify_email\0\0\0\0"
        + bytes.fromhex("00112233445546778899aabbccddeeff")
        + b"\0\0\0\x01"
        + bytes.fromhex("ffeeddccbbaa4988b766554433221100"),
        hashlib.sha256,
    ).digest()
    assert base64.urlsafe_b64decode(derived()) == TOKEN_ID.bytes + expected


def test_the_token_is_safe_in_a_url_without_escaping() -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]{64}", derived())


@pytest.mark.parametrize(
    "change",
    [
        {"key": NEW.encode()},
        {"purpose": "reset_password"},
        {"token_id": uuid4()},
        {"version": 2},
        {"user_id": uuid4()},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_field_changes_the_mac(change: dict[str, Any]) -> None:
    assert (
        base64.urlsafe_b64decode(derived(**change))[16:]
        != (base64.urlsafe_b64decode(derived())[16:])
    )


def test_the_hash_is_the_sha256_of_the_text() -> None:
    assert tokens.token_hash(derived()) == hashlib.sha256(derived().encode()).digest()


@given(token_id=st.uuids(), user_id=st.uuids(), version=st.integers(1, 2**31 - 1))
def test_a_derived_token_parses_to_its_id(token_id: UUID, user_id: UUID, version: int) -> None:
    token = derived(token_id=token_id, user_id=user_id, version=version)
    assert tokens.parse(token) == token_id


@given(st.text(alphabet=string.ascii_letters + string.digits + "-_", min_size=64, max_size=64))
def test_a_well_formed_text_has_one_spelling(text: str) -> None:
    assert base64.urlsafe_b64encode(base64.urlsafe_b64decode(text)).decode() == text
    assert tokens.parse(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        derived()[:-1],
        derived() + "A",
        derived() + "=",
        derived() + "\n",
        " " + derived(),
        derived()[:-1] + "=",
        derived()[:-1] + "+",
        derived()[:-1] + "/",
        derived()[:-1] + "é",
        derived()[:-1] + "\0",
        derived()[:-1] + "\ud800",
        derived()[:-1] + "\N{FULLWIDTH DIGIT ONE}",
        derived() * 1000,
    ],
)
def test_another_spelling_is_no_token(text: str) -> None:
    assert tokens.parse(text) is None


@given(st.text(max_size=80))
def test_parse_raises_for_no_text(text: str) -> None:
    parsed = tokens.parse(text)
    assert parsed is None or isinstance(parsed, UUID)


def test_a_token_matches_its_own_hash_alone() -> None:
    assert tokens.matches(derived(), tokens.token_hash(derived()))
    assert not tokens.matches(derived(), tokens.token_hash(derived(version=2)))


def test_a_ring_holds_every_key_but_current_as_its_text() -> None:
    ring = tokens.KeyRing.from_secret({"current": "k2", "k1": OLD, "k2": NEW})
    assert ring.current == "k2"
    assert ring.key("k1") == OLD.encode()
    assert ring.key("k2") == NEW.encode()


def test_a_ring_does_not_print_its_keys() -> None:
    ring = tokens.KeyRing.from_secret({"current": "k1", "k1": OLD})
    assert OLD not in repr(ring)
    assert OLD not in str(ring)


@pytest.mark.parametrize(
    ("secret", "problem"),
    [
        ({}, "lacks `current`"),
        ({"k1": OLD}, "lacks `current`"),
        ({"current": 1, "k1": OLD}, "lacks `current`"),
        ({"current": "k2", "k1": OLD}, "lacks the key that `current` names"),
        ({"current": "current"}, "lacks the key that `current` names"),
        ({"current": "k1", "k1": OLD[:42]}, "token key k1 is not 43 characters"),
        ({"current": "k1", "k1": OLD, "k2": OLD[:42]}, "token key k2 is not 43 characters"),
        ({"current": "k1", "k1": [OLD]}, "token key k1 is not 43 characters"),
        ({"current": "k1", "k1": OLD, "k 2": OLD}, "malformed key id"),
        ({"current": "k1", "k1": OLD, "": OLD}, "malformed key id"),
        ({"current": "k1", "k1": OLD, "k" * 65: OLD}, "malformed key id"),
        ({"current": "k1", "k1": OLD, "keys": {"k1": OLD}}, "token key keys is not"),
    ],
)
def test_a_malformed_secret_is_refused_by_its_problem(secret: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as refused:
        tokens.KeyRing.from_secret(secret)
    assert OLD[:42] not in str(refused.value)


def test_a_key_of_43_characters_is_enough() -> None:
    assert tokens.KeyRing.from_secret({"current": "k1", "k1": OLD[:43]}).key("k1")


def test_a_key_outside_ascii_is_taken_as_its_utf8_bytes() -> None:
    ring = tokens.KeyRing.from_secret({"current": "k1", "k1": "é" * 43})
    assert ring.key("k1") == ("é" * 43).encode()


def test_an_older_token_is_derived_again_after_rotation() -> None:
    ring = tokens.KeyRing.from_secret({"current": "k2", "k1": OLD, "k2": NEW})
    assert tokens.derive_again(ring, facts()) == derived()


def test_a_token_whose_key_left_the_ring_is_reported_as_key_unknown() -> None:
    ring = tokens.KeyRing.from_secret({"current": "k2", "k2": NEW})
    with pytest.raises(TokenKeyUnknownError) as unknown:
        tokens.derive_again(ring, facts())
    assert unknown.value.key_id == "k1"


def test_a_token_whose_key_was_replaced_is_never_given_out() -> None:
    ring = tokens.KeyRing.from_secret({"current": "k1", "k1": NEW})
    with pytest.raises(TokenMismatchError) as mismatch:
        tokens.derive_again(ring, facts())
    assert mismatch.value.key_id == "k1"
    assert NEW not in str(mismatch.value)


@pytest.mark.parametrize(
    "change",
    [{"version": 2}, {"user_id": uuid4()}, {"purpose": "reset_password"}, {"id": uuid4()}],
    ids=lambda change: next(iter(change)),
)
def test_a_row_with_a_changed_field_yields_no_token(change: dict[str, Any]) -> None:
    ring = tokens.KeyRing.from_secret({"current": "k1", "k1": OLD})
    with pytest.raises(TokenMismatchError):
        tokens.derive_again(ring, facts(**change))


def test_the_link_carries_the_token_in_its_fragment_alone() -> None:
    assert tokens.link("https://a.example/x", "verify_email", "T") == (
        "https://a.example/x/verify#token=T"
    )
    assert tokens.link("https://a.example", "reset_password", "T") == (
        "https://a.example/reset#token=T"
    )


def test_a_short_pepper_is_refused_without_its_value() -> None:
    assert tokens.pepper(OLD) == OLD.encode()
    with pytest.raises(ConfigurationError, match="pepper is not 43") as refused:
        tokens.pepper(OLD[:42])
    assert OLD[:42] not in str(refused.value)


def test_a_digest_tells_where_one_field_ends() -> None:
    assert len(tokens.keyed_digest(KEY, b"use", b"a")) == 32
    assert tokens.keyed_digest(KEY, b"ab", b"c") != tokens.keyed_digest(KEY, b"a", b"bc")
    assert tokens.keyed_digest(KEY, b"abc") != tokens.keyed_digest(KEY, b"abc", b"")


def test_a_digest_depends_on_the_pepper() -> None:
    assert tokens.keyed_digest(KEY, b"a") != tokens.keyed_digest(NEW.encode(), b"a")


def test_a_code_is_six_digits_of_its_own_hmac() -> None:
    fields = (
        b"code",
        b"verify_email".ljust(16, b"\0"),
        TOKEN_ID.bytes,
        (1).to_bytes(4, "big"),
        USER_ID.bytes,
    )
    mac = hmac.digest(KEY, b"".join(fields), "sha256")
    assert code() == f"{int.from_bytes(mac[:8], 'big') % 1_000_000:06d}"


def test_every_field_makes_another_code() -> None:
    made = {
        code(),
        code(key=b"another-key-" * 5),
        code(purpose="reset_password"),
        code(token_id=USER_ID),
        code(version=2),
        code(user_id=TOKEN_ID),
    }
    assert len(made) == 6


def test_a_small_code_keeps_its_zeros() -> None:
    made = {code(version=version) for version in range(1, 200)}
    assert {len(text) for text in made} == {6}
    assert any(text.startswith("0") for text in made)
    assert all(text.isascii() and text.isdigit() for text in made)
