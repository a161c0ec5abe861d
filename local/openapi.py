"""`python -m local.openapi` writes the API's description (OpenAPI 3.1) from the routes themselves.

One copy is for readers (docs/), one is served and goes with the code layer. `--check` writes
nothing and fails when a copy is not what the routes say.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import tomllib
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from postlease.operations import schema_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from postlease.http import Router, View
    from postlease.operations import Body, Operation, Parameter, Reply, Value
    from postlease.problems import Problem

ROOT = Path(__file__).parents[1]
COPIES = (
    ROOT / "docs" / "openapi.json",
    ROOT / "layers" / "postlease" / "python" / "postlease" / "pages" / "openapi.json",
)
PUBLIC, SIGNED = "public", "signed"

_PROBLEM = "application/problem+json"
# The handlers want their settings when they are imported, and nothing of these is used.
PLACEHOLDERS = {
    "DATABASE_SECRET_ARN": "none",
    "TOKEN_KEYS_SECRET_ARN": "none",
    "PEPPER_SECRET_ARN": "none",
    "PUBLIC_URL": "https://example.com",
    "FROM_ADDRESS": "no-reply@example.com",
    "ATTACHMENTS_BUCKET": "none",
}
_DESCRIPTION = (
    "Sign up, prove an address, ask what became of a mail; and, for signed callers, ask for mail of"
    " any template, look at the messages and mend them, keep the suppression list. Errors are"
    " problem documents (RFC 9457) whose `type` never changes. Answers that API Gateway makes"
    ' itself have their own shape: `{"message": ...}`.'
)
_SCHEMAS = {
    "Problem": {
        "type": "object",
        "description": "RFC 9457",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": {"type": "string", "description": "what a program tells it by"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string", "description": "for people"},
            "errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["detail"],
                    "properties": {
                        "pointer": {
                            "type": "string",
                            "description": "JSON Pointer into the body, as a URI fragment",
                        },
                        "parameter": {"type": "string"},
                        "detail": {"type": "string"},
                    },
                    "additionalProperties": False,
                },
            },
        },
        "additionalProperties": False,
    },
    "GatewayMessage": {
        "type": "object",
        "description": "an answer of API Gateway's own",
        "required": ["message"],
        "properties": {"message": {"type": "string"}},
    },
}
_SECURITY = {
    "sigv4": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "AWS Signature Version 4 of somebody who may `execute-api:Invoke` the route",
        "x-amazon-apigateway-authtype": "awsSigv4",
    }
}


def routers() -> dict[str, Router]:
    """The routers of both functions, by tag."""
    for name, value in PLACEHOLDERS.items():
        os.environ.setdefault(name, value)
    from functions.auth import app as auth  # noqa: PLC0415  after the environment
    from functions.messages import app as messages  # noqa: PLC0415

    return {PUBLIC: auth.routes, SIGNED: messages.routes}


def document(by_tag: dict[str, Router]) -> dict[str, Any]:
    """The whole description."""
    paths: dict[str, dict[str, Any]] = {}
    for tag, router in by_tag.items():
        for template, method, operation, view in router.operations():
            described = _operation(tag, method, operation, view)
            paths.setdefault(template, {})[method.lower()] = described
    project = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text("utf-8"))["project"]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Postlease",
            "summary": project["description"],
            "description": _DESCRIPTION,
            "version": project["version"],
            "license": {"name": project["license"], "identifier": project["license"]},
        },
        "servers": [{"url": "/"}],
        "tags": [
            {"name": PUBLIC, "description": "Anybody may call these."},
            {"name": SIGNED, "description": "These want a signature (AWS SigV4)."},
        ],
        "paths": paths,
        "components": {"schemas": _SCHEMAS, "securitySchemes": _SECURITY},
    }


def _operation(tag: str, method: str, operation: Operation, view: View) -> dict[str, Any]:
    summary, _, rest = (inspect.getdoc(view) or "").partition("\n\n")
    name = view.__name__.removesuffix("_")
    described: dict[str, Any] = {
        "operationId": name if method != "HEAD" else f"{name}_head",
        "tags": [tag],
        "summary": summary,
    }
    if rest:
        described["description"] = " ".join(rest.split())
    if tag == SIGNED:
        described["security"] = [{"sigv4": []}]
    if operation.parameters:
        described["parameters"] = [_parameter(one) for one in operation.parameters]
    if operation.bodies:
        described["requestBody"] = {"required": True, "content": _content(operation.bodies)}
    described["responses"] = _responses(
        operation, is_head=method == "HEAD", is_signed=tag == SIGNED
    )
    return described


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema = dict(parameter.value.schema)
    note = schema.pop("description", None)
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.place == "path",
        **({"description": note} if note else {}),
        "schema": schema,
    }


def _content(bodies: tuple[Body, ...]) -> dict[str, Any]:
    by_type: dict[str, list[dict[str, Any]]] = {}
    for body in bodies:
        by_type.setdefault(body.media_type, []).append(_body(body))
    return {
        media_type: {"schema": schemas[0] if len(schemas) == 1 else {"oneOf": schemas}}
        for media_type, schemas in by_type.items()
    }


def _body(body: Body) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(body.required),
        "properties": {member.name: _told(member.value.schema) for member in body.members},
        "additionalProperties": False,
    }


def _told(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What a body may hold: no text holds NUL, and whoever may write anything is told so."""
    told = dict(schema)
    for name in ("items", "additionalProperties"):
        if isinstance(told.get(name), dict):
            told[name] = _told(told[name])
    if "properties" in told:
        told["properties"] = {name: _told(one) for name, one in told["properties"].items()}
    if "oneOf" in told:
        told["oneOf"] = [_told(one) for one in told["oneOf"]]
    is_text = "string" in told.get("type", ())  # a type, or several
    is_free = is_text and not {"pattern", "format", "enum"} & set(told)
    return told | ({"pattern": r"^[^\u0000]*$"} if is_free else {})


def _responses(operation: Operation, *, is_head: bool, is_signed: bool) -> dict[str, Any]:
    responses = {str(reply.status): _reply(reply, is_head=is_head) for reply in operation.replies}
    for status, found in groupby(operation.all_problems, key=lambda problem: problem.status):
        described = _problems(status, list(found), is_head=is_head)
        responses[str(status)] = _either(responses.get(str(status)), described)
    if is_signed:
        message = {"schema": {"$ref": "#/components/schemas/GatewayMessage"}}
        unsigned = {
            "description": "not signed, or by somebody who may not",
            "content": {"application/json": message},
        }
        ours = responses.get("403")
        responses["403"] = _either(unsigned, ours) if ours else unsigned
    return dict(sorted(responses.items()))


def _either(other: dict[str, Any] | None, problem: dict[str, Any]) -> dict[str, Any]:
    """The description of a status that a problem document has, and something else may have."""
    if other is None:
        return problem
    return {
        **problem,
        "description": f"{other['description']}; {problem['description']}",
        "content": other["content"] | problem["content"],
    }


def _reply(reply: Reply, *, is_head: bool) -> dict[str, Any]:
    described: dict[str, Any] = {"description": reply.note}
    if reply.headers:
        described["headers"] = {name: _header(value) for name, value in reply.headers.items()}
    if reply.shape is not None and not is_head:
        described["content"] = {reply.media_type: {"schema": schema_of(reply.shape)}}
    return described


def _header(value: Value) -> dict[str, Any]:
    schema = dict(value.schema)
    return {"description": schema.pop("description", ""), "schema": schema}


def _problems(status: int, found: list[Problem], *, is_head: bool) -> dict[str, Any]:
    described: dict[str, Any] = {"description": "; ".join(f"`{problem.slug}`" for problem in found)}
    if all("retry-after" in problem.headers for problem in found):
        described["headers"] = {
            "retry-after": {
                "description": "seconds",
                "required": True,
                "schema": {"type": "integer", "minimum": 1},
            }
        }
    if not is_head:
        kind = {"enum": [problem.type for problem in found]}
        schema = {
            "allOf": [{"$ref": "#/components/schemas/Problem"}],
            "properties": {"type": kind, "status": {"const": status}},
        }
        described["content"] = {_PROBLEM: {"schema": schema}}
    return described


def written(by_tag: dict[str, Router]) -> str:
    """The description as it stands in the files."""
    return json.dumps(document(by_tag), indent=2) + "\n"


def main() -> int:
    """Write the copies, or look whether they are current."""
    text = written(routers())
    if "--check" not in sys.argv[1:]:
        for path in COPIES:
            path.write_text(text, "utf-8")
        return 0
    stale = [path for path in COPIES if not path.exists() or path.read_text("utf-8") != text]
    for path in stale:
        print(f"error: {path.relative_to(ROOT)} is not what the routes say: run make openapi")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
