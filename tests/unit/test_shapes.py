"""A structured body is read by its description: each fault has its place, and none its value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from postlease import faults as faults_module
from postlease.errors import InvalidInputError, MalformedInputError, RefusedInputError
from postlease.faults import Faults
from postlease.http import Answer, Request, Router, shapes
from postlease.operations import (
    Member,
    Operation,
    Reply,
    Value,
    body,
    choice,
    either,
    flag,
    listed,
    mapped,
    number,
    number_of,
    object_of,
    optional,
    text,
)

INNER = object_of(Member("name", text(maxLength=3)), optional("note", text()))


def found(value: Value, given: Any) -> list[tuple[str, str]]:
    """The faults of one value."""
    noted = Faults()
    shapes.check(value.schema, given, noted)
    try:
        noted.end()
    except InvalidInputError as error:
        return [(error.pointer, error.detail), *error.others]
    return []


@pytest.mark.parametrize(
    ("value", "given"),
    [
        (text(), ""),
        (text(minLength=1, maxLength=2), "ab"),
        (text(pattern="^[a-z]$"), "a"),
        (text(format="email"), "whatever"),
        (choice("a", "b"), "b"),
        (choice("a").or_null(), None),
        (number(minimum=0, maximum=2), 2),
        (number(), -5),
        (number_of(50, 100), 50.0),
        (flag(), False),
        (listed(text(), minItems=1, maxItems=2), ["a"]),
        (listed(text()).or_null(), None),
        (mapped(text()), {"a": "b"}),
        (mapped(None), {"a": [{"b": None}]}),
        (mapped(text(), maxProperties=1), {"a": ""}),
        (INNER, {"name": "a"}),
        (INNER, {"name": "a", "note": None}),
        (either(text(), INNER), "a"),
        (either(text(), INNER), {"name": "a"}),
        (either(text(), INNER).or_null(), None),
    ],
)
def test_what_is_as_described_has_no_fault(value: Value, given: Any) -> None:
    assert found(value, given) == []


@pytest.mark.parametrize(
    ("value", "given", "pointer", "detail"),
    [
        (text(), 7, "", "must be text"),
        (text(), None, "", "must be text"),
        (text(minLength=2), "a", "", "must have at least 2 characters"),
        (text(maxLength=2), "abc", "", "must have at most 2 characters"),
        (text(pattern="^[a-z]$"), "a\n", "", "has a form or a character that is not allowed"),
        (text(pattern="^[a-z]$"), "A", "", "has a form or a character that is not allowed"),
        (choice("a", "b").or_null(), "c", "", "must be one of `a`, `b`"),
        (number(), "7", "", "must be a whole number"),
        (number(), True, "", "must be a whole number"),
        (number(), 7.5, "", "must be a whole number"),
        (number(minimum=1), 0, "", "must be at least 1"),
        (number(maximum=1), 2, "", "must be at most 1"),
        (number_of(50, 100), 51, "", "must be one of 50, 100"),
        (flag(), 1, "", "must be true or false"),
        (listed(text()), {"0": "a"}, "", "must be a list"),
        (listed(text(), minItems=1), [], "", "must have at least 1 elements"),
        (listed(text(), minItems=1, maxItems=2), ["a"] * 3, "", "must have 1 to 2 elements"),
        (listed(text()), ["a", 1], "/1", "must be text"),
        (mapped(text()), [], "", "must be an object"),
        (mapped(text()), {"a/b": 1}, "/a~1b", "must be text"),
        (mapped(text(), maxProperties=1), {"a": "", "b": ""}, "", "must have at most 1 members"),
        (
            mapped(text(), propertyNames={"type": "string", "maxLength": 1}),
            {"ab": ""},
            "/ab",
            "must have at most 1 characters",
        ),
        (INNER, {}, "/name", "is required"),
        (INNER, {"name": None}, "/name", "must be text"),
        (INNER, {"name": "a", "other": 1}, "/other", "this member is not known"),
        (either(text(), INNER), 7, "", "must be text or an object"),
        (either(text(), INNER), {"name": "long"}, "/name", "must have at most 3 characters"),
    ],
)
def test_what_is_not_as_described_is_named(
    value: Value, given: Any, pointer: str, detail: str
) -> None:
    assert found(value, given) == [(pointer, detail)]


def test_all_faults_are_told_in_their_order_and_no_value_with_them() -> None:
    value = listed(either(text(maxLength=3), INNER))
    given = ["SECRET", {"name": "SECRET"}, {"note": 7}, 7, "a"]
    told = found(value, given)
    assert [pointer for pointer, _ in told] == ["/0", "/1/name", "/2/name", "/2/note", "/3"]
    assert "SECRET" not in repr(told)


def test_a_name_that_could_be_an_address_is_not_repeated() -> None:
    assert found(mapped(text()), {"ada@example.com": 7}) == [("/...", "must be text")]


def test_the_first_twenty_faults_are_told_and_no_more_are_looked_for() -> None:
    assert len(found(listed(text()), [7] * 10_000)) == faults_module.MOST == 20


def test_the_worst_kind_of_fault_gives_the_error_its_kind_and_goes_first() -> None:
    noted = Faults()
    noted.add(RefusedInputError("/a", "refused"))
    noted.add(InvalidInputError("/b", "invalid"))
    noted.add(MalformedInputError("/c", "malformed"))
    noted.add(InvalidInputError("/d", "invalid"))
    with pytest.raises(MalformedInputError) as raised:
        noted.end()
    places = [raised.value.pointer, *(pointer for pointer, _ in raised.value.others)]
    assert places == ["/c", "/a", "/b", "/d"]


def test_no_fault_raises_nothing_and_a_block_ends_at_its_own() -> None:
    noted = Faults()
    noted.end()
    with noted.noted():
        raise InvalidInputError("/a", "wrong")
    with pytest.raises(InvalidInputError, match="/a: wrong"):
        noted.end()


router = Router()


@router.put(
    "/things",
    Operation(
        bodies=(body(Member("things", listed(INNER)), most_bytes=128 * 1024),),
        replies=(Reply(200, "them", {"things": listed(INNER)}),),
    ),
)
def keep(request: Request) -> Answer:
    """What came."""
    return Answer(200, request.document())


def put(content: str) -> tuple[int, Any]:
    """Status and document of an answer."""
    answer = router(
        {
            "rawPath": "/things",
            "requestContext": {"http": {"method": "PUT"}},
            "headers": {"content-type": "application/json"},
            "body": content,
        }
    )
    return answer["statusCode"], json.loads(answer["body"])


def test_a_structured_body_is_handed_over_whole() -> None:
    sent = {"things": [{"name": "a", "note": None}]}
    assert put(json.dumps(sent)) == (200, sent)


def test_a_problem_document_lists_each_fault_with_its_pointer() -> None:
    status, told = put('{"things": [{"name": 1}, {}], "more": 1}')
    assert (status, told["type"]) == (400, "urn:postlease:problem:invalid-request")
    assert told["errors"] == [
        {"pointer": "#/more", "detail": "this member is not known"},
        {"pointer": "#/things/0/name", "detail": "must be text"},
        {"pointer": "#/things/1/name", "detail": "is required"},
    ]
    assert told["detail"] == "more: this member is not known"


def test_a_route_that_allows_a_larger_body_reads_it_and_names_its_own_limit() -> None:
    padding = json.dumps({"things": []}).rstrip("}")
    assert put(padding + " " * (128 * 1024 - len(padding) - 1) + "}") == (200, {"things": []})
    status, told = put(padding + " " * (128 * 1024) + "}")
    assert (status, told["detail"]) == (413, "A body may have at most 128 kB.")
