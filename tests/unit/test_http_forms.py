"""What the router does for a person's browser: forms, pages' parameters, refusals as pages."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from postlease import http, problems
from postlease.errors import TokenError, UnavailableError
from postlease.operations import FORM, HTML, Member, Operation, Parameter, Reply, body, text

if TYPE_CHECKING:
    import io

routes = http.Router()
raised: list[Exception] = []
NAMES = (Member("name", text()), Member("note", text(), is_required=False))
PAGE = tuple(Reply(status, "a page", text(), HTML) for status in (200, 410, 503))


def show(problem: problems.Problem, request: http.Request) -> http.Answer | None:
    """Knows two of all problems."""
    if problem.slug not in {"token-expired", "unavailable"}:
        return None
    return http.Answer(problem.status, f"<p>{problem.title}", problem.headers, media_type=HTML)


@routes.post(
    "/form",
    Operation(
        replies=PAGE,
        bodies=(body(*NAMES, media_type=FORM),),
        problems=(problems.TOKEN_INVALID,),
    ),
    show=show,
)
def form(request: http.Request) -> http.Answer:
    """Answers the fields that it read, or raises what the test wants."""
    fields = request.fields()
    if raised:
        raise raised.pop()
    return http.Answer(200, json.dumps(fields), media_type=HTML)


@routes.post("/json", Operation(replies=(Reply(200, "", {}),), bodies=(body(*NAMES),)))
def plain(request: http.Request) -> http.Answer:
    """Takes JSON alone."""
    return http.Answer(200, request.fields())


@routes.get(
    "/page",
    Operation(replies=PAGE, parameters=(Parameter("query", "to", text()),), is_static=True),
)
def page(request: http.Request) -> http.Answer:
    """Answers one parameter."""
    return http.Answer(200, json.dumps(request.parameter("to")), media_type=HTML)


def call(path: str, content: str | bytes = b"", query: str = "", **headers: str) -> dict[str, Any]:
    """The router's answer to a form, which API Gateway brings in base64."""
    given = {"content-type": FORM} | {name.replace("_", "-"): it for name, it in headers.items()}
    text = content.encode() if isinstance(content, str) else content
    return routes(
        {
            "rawPath": path,
            "rawQueryString": query,
            "headers": given,
            "requestContext": {"http": {"method": "GET" if path == "/page" else "POST"}},
            "body": base64.b64encode(text).decode(),
            "isBase64Encoded": True,
        }
    )


@pytest.mark.parametrize("kind", [FORM, "Application/X-WWW-Form-Urlencoded; charset=UTF-8"])
def test_a_form_is_read_where_one_is_wanted(kind: str) -> None:
    """HTP-01, VER-07."""
    answer = call("/form", "name=a%2Bb+c%26&note=%C3%A9", content_type=kind)
    assert json.loads(answer["body"]) == {"name": "a+b c&", "note": "\u00e9"}


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data", "text/plain"])
def test_where_a_form_is_wanted_nothing_else_is_read(kind: str) -> None:
    assert call("/form", '{"name": "n"}', content_type=kind)["statusCode"] == 415
    assert call("/form", "name=n", content_encoding="gzip")["statusCode"] == 415


def test_where_json_is_wanted_no_form_is_read() -> None:
    assert call("/json", "name=n")["statusCode"] == 415


@pytest.mark.parametrize(
    "content",
    [b"", b"name=a&name=b", b"name=a&other=b", b"name=%ff", b"\xff=a", b"name=a%00", b"&" * 99],
)
def test_a_form_that_cannot_be_read_in_one_way_is_a_400(content: bytes) -> None:
    answer = call("/form", content)
    assert answer["statusCode"] in {400, 422}
    assert json.loads(answer["body"])["type"].startswith("urn:postlease:problem:invalid-")


def test_a_form_without_a_field_lacks_what_it_needs_as_any_other() -> None:
    """So a person who pressed the button too early is told by a page."""
    answer = call("/form", b"")
    assert answer["statusCode"] == 422
    assert json.loads(answer["body"])["errors"] == [{"pointer": "#/name", "detail": "is required"}]


@pytest.mark.parametrize(
    ("site", "status"),
    [("cross-site", 403), ("same-origin", 200), ("same-site", 200), ("none", 200), ("", 200)],
)
def test_a_form_that_another_site_sends_is_refused(site: str, status: int) -> None:
    headers = {"sec_fetch_site": site} if site else {}
    answer = call("/form", "name=n", **headers)
    assert answer["statusCode"] == status
    assert (status == 200) == ("form-of-another-site" not in answer["body"])


@pytest.mark.parametrize("kind", ["", " "])
@pytest.mark.parametrize(
    ("site", "status"),
    [("cross-site", 403), ("same-origin", 200), ("same-site", 200), ("none", 200), ("", 200)],
)
def test_json_that_another_site_sends_without_saying_so_is_refused(
    site: str, status: int, kind: str
) -> None:
    """No browser asks before it sends such a body for a page of another site."""
    headers = {"sec_fetch_site": site} if site else {}
    answer = call("/json", '{"name": "n"}', content_type=kind, **headers)
    assert answer["statusCode"] == status
    assert (status == 200) == ("form-of-another-site" not in answer["body"])


@pytest.mark.parametrize("kind", ["application/json", "application/vnd.api+json; charset=utf-8"])
def test_json_that_says_so_is_taken_from_another_site_for_browsers_ask_before(kind: str) -> None:
    answer = call("/json", '{"name": "n"}', content_type=kind, sec_fetch_site="cross-site")
    assert answer["statusCode"] == 200


def test_a_problem_that_a_person_can_mend_is_a_page_with_its_status_and_headers() -> None:
    raised.append(TokenError("token-expired"))
    answer = call("/form", "name=n")
    assert (answer["statusCode"], answer["body"]) == (410, "<p>Token expired")
    assert answer["headers"]["content-type"] == HTML
    assert answer["headers"]["cache-control"] == "no-store"
    raised.append(UnavailableError("d"))
    answer = call("/form", "name=n")
    assert (answer["statusCode"], answer["headers"]["retry-after"]) == (503, "2")


def test_a_problem_that_has_no_page_stays_a_problem_document() -> None:
    raised.append(TokenError("token-invalid"))
    answer = call("/form", "name=n")
    assert answer["statusCode"] == 400
    assert answer["headers"]["content-type"] == "application/problem+json"


def test_a_page_that_tells_of_a_fault_of_ours_does_not_keep_it_out_of_the_log(
    logs: io.StringIO,
) -> None:
    raised.append(UnavailableError("the database does not answer"))
    call("/form", "name=n")
    assert "the database does not answer" in logs.getvalue()


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("", None),
        ("to=a%20b", "a b"),
        ("utm_source=mail&to=a&x=%20", "a"),
        ("to=a&to=b", None),
        ("to=%ff", None),
        ("to=", ""),
    ],
)
def test_what_others_hang_on_to_a_link_breaks_no_page(query: str, value: str | None) -> None:
    answer = call("/page", query=query)
    assert answer["statusCode"] == 200
    assert json.loads(answer["body"]) == value


def test_a_view_reads_only_the_parameters_that_its_operation_names() -> None:
    request = http.Request("GET", "/", {}, {}, None, is_base64=False, correlation_id="")
    with pytest.raises(LookupError):
        request.parameter("to")
