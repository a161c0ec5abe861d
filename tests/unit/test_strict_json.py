"""Strict JSON: one text, one meaning, and every refusal has a place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postlease import strict_json
from postlease.errors import MalformedInputError

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=9),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(VALUES)
def test_what_json_can_say_is_read_as_it_is(value: Any) -> None:
    assert strict_json.parse(json.dumps(value).encode()) == value
    assert strict_json.parse(json.dumps(value, ensure_ascii=False).encode()) == value


@pytest.mark.parametrize(
    ("content", "pointer", "detail"),
    [
        (b"", "", "is not JSON"),
        (b"{", "", "is not JSON"),
        (b"{'a': 1}", "", "is not JSON"),
        (b'{"a": 1,}', "", "is not JSON"),
        (b"[1] 2", "", "is not JSON"),
        (b"[01]", "", "is not JSON"),
        (b'["\t"]', "", "is not JSON"),
        (b'["\\x"]', "", "is not JSON"),
        (b"\xef\xbb\xbf{}", "", "byte order mark"),
        ('"é"'.encode("latin-1"), "", "is not UTF-8"),
        (b'"\xed\xa0\x80"', "", "is not UTF-8"),
        ("{}".encode("utf-16"), "", "is not UTF-8"),
        (b"NaN", "", "not finite"),
        (b'{"a": [0, NaN]}', "/a/1", "not finite"),
        (b'{"a": Infinity}', "/a", "not finite"),
        (b'{"a": -Infinity}', "/a", "not finite"),
        (b'{"a": 1e999}', "/a", "not finite"),
        (b'{"a": -1e999}', "/a", "not finite"),
        (b'{"a": 9223372036854775808}', "/a", "64 bits"),
        (b'{"a": -9223372036854775809}', "/a", "64 bits"),
        (b'{"a": ' + b"9" * 6000 + b"}", "/a", "64 bits"),
        (b'{"a": 1, "a": 1}', "/a", '"a" stands twice'),
        (b'{"a": 1, "\\u0061": 2}', "/a", '"a" stands twice'),
        (b'{"x": [{}, {"a": 1, "b": 2, "a": 3}]}', "/x/1/a", '"a" stands twice'),
        (b'{"a": {"b": 1, "b": 2}, "a": 3}', "/a", '"a" stands twice'),
        (b'{"a/b~c": 1, "a/b~c": 2}', "/a~1b~0c", "stands twice"),
        (b'{"a": "x\\u0000"}', "/a", "NUL"),
        (b'{"a\\u0000": 1}', "/a\0", "NUL"),
        (b'{"a": "\\ud800"}', "/a", "surrogate"),
        (b'{"a": "\\udc00\\ud800"}', "/a", "surrogate"),
        (b'{"\\ud800": 1}', "/\ud800", "surrogate"),
        (b'["a", ["\\udfff"]]', "/1/0", "surrogate"),
        (b"[" * 65 + b"]" * 65, "", "deeper than 64"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "", "deeper than 64"),
        (b"[" * 100_000, "", "deeper than 64"),
        (b"[" * 100_000 + b"]" * 100_000, "", "deeper than 64"),
        (b'{"a":' * 100_000, "", "deeper than 64"),
    ],
    ids=lambda value: repr(value)[:40] if isinstance(value, bytes) else None,
)
def test_what_two_readers_could_read_differently_is_refused_at_its_place(
    content: bytes, pointer: str, detail: str
) -> None:
    with pytest.raises(MalformedInputError) as refused:
        strict_json.parse(content)
    assert refused.value.pointer == pointer
    assert detail in refused.value.detail


@pytest.mark.parametrize(
    "name",
    [
        "canary@x.org",
        "CANARY%40x.org",
        "canary\uff20x.org",
        "canary\ufe6bx.org",
        "canary" * 10 + "Az_-",
        "canary" + "7" * 27,
    ],
)
def test_a_name_that_could_be_an_address_or_a_token_is_not_repeated(name: str) -> None:
    member = json.dumps(name)
    for content in (f'{{"a": {{{member}: 1e999}}}}', f'{{"a": {{{member}: 1, {member}: 2}}}}'):
        with pytest.raises(MalformedInputError) as refused:
            strict_json.parse(content.encode())
        assert refused.value.pointer == "/a/..."
        assert "canary" not in str(refused.value).lower()


def test_a_name_of_32_characters_is_told() -> None:
    assert strict_json.child("", "e" * 32) == "/" + "e" * 32


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b" \t\r\n1 ", 1),
        (b"-0", 0),
        (b"1E+2", 100.0),
        (b"9223372036854775807", 2**63 - 1),
        (b"-9223372036854775808", -(2**63)),
        (b'"\\ud83d\\ude00"', "\N{GRINNING FACE}"),
        (b'"\\\\u0000"', "\\u0000"),
        (b'{"a": {"a": 1}, "b": {"a": 2}}', {"a": {"a": 1}, "b": {"a": 2}}),
    ],
)
def test_what_is_unusual_but_clear_is_read(content: bytes, value: Any) -> None:
    assert strict_json.parse(content) == value


def test_64_levels_are_read() -> None:
    assert strict_json.parse(b"[" * 64 + b"]" * 64)


def test_a_refusal_repeats_no_value_and_no_more_than_the_start_of_a_name() -> None:
    name = "n" * 1000
    with pytest.raises(MalformedInputError) as refused:
        strict_json.parse(json.dumps({name: "secret\0"}).encode())
    assert "secret" not in str(refused.value)
    assert len(str(refused.value)) < 200
    with pytest.raises(MalformedInputError) as refused:
        strict_json.parse(f'{{"{name}": 1, "{name}": 2}}'.encode())
    assert len(str(refused.value)) < 250


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    try:
        strict_json.parse(content)
    except MalformedInputError:
        return


@pytest.mark.parametrize(
    ("beginning", "is_too_deep"),
    [
        (b"[" * 65, True),
        (b'[{"a":' * 40, True),
        (b"[" * 64 + b"]" * 64, False),
        (b"[[]" * 63, False),
        (b"[[]" * 64, True),
        (b'"' + b"[" * 100, False),
        (b'["' + b'\\"[' * 100 + b'"', False),
        (b'"\\\\"' + b"[" * 65, True),
        (b"]" * 65, False),
    ],
    ids=str,
)
def test_a_text_too_deep_is_known_by_its_beginning(beginning: bytes, is_too_deep: bool) -> None:
    if is_too_deep:
        with pytest.raises(MalformedInputError, match="deeper than 64"):
            strict_json.check_depth(beginning)
    else:
        strict_json.check_depth(beginning)
