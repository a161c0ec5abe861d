"""Every sample in `events/` is what its trigger really sends, and every trigger has a sample."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from aws_lambda_powertools.utilities.data_classes import (
    APIGatewayProxyEventV2,
    CloudFormationCustomResourceEvent,
    EventBridgeEvent,
    SQSEvent,
)

from postlease import doorbell
from postlease.model import parse_event_id
from postlease.providers import ses_events
from tests.template.deployment import FUNCTIONS, LOGICAL_IDS, ROOT, Deployment, deployment, source
from tests.template.guards_exposure import PUBLIC_ROUTES

HTTP = {
    "auth-signup": ("POST", "/v1/signups"),
    "auth-signup-base64": ("POST", "/v1/signups"),
    "auth-verification": ("POST", "/v1/verifications"),
    "auth-verification-resend": ("POST", "/v1/verifications/resend"),
    "auth-password-reset": ("POST", "/v1/password-resets"),
    "auth-event": ("GET", "/v1/events/{event_id}"),
    "auth-verify-page": ("GET", "/verify"),
    "auth-verify-form": ("POST", "/verify"),
    "auth-reset-page": ("GET", "/reset"),
    "auth-openapi": ("GET", "/openapi.json"),
    "auth-docs": ("GET", "/docs"),
    "auth-healthz": ("GET", "/healthz"),
}
SIGNED = {
    "messages-search": ("GET", "/v1/messages"),
    "messages-send": ("POST", "/v1/messages"),
    "messages-send-batch": ("POST", "/v1/messages/batch"),
    "messages-retry-many": ("POST", "/v1/messages/retry"),
    "messages-recipients": ("GET", "/v1/messages/{id}/recipients"),
    "messages-cancel": ("POST", "/v1/messages/{id}/cancel"),
    "messages-stats": ("GET", "/v1/stats"),
    "messages-upload": ("POST", "/v1/attachments"),
    "messages-suppressions": ("GET", "/v1/suppressions"),
    "messages-suppress": ("PUT", "/v1/suppressions"),
    "messages-suppressions-lookup": ("POST", "/v1/suppressions/lookup"),
    "messages-suppression-delete": ("DELETE", "/v1/suppressions/{id}"),
    "messages-gates": ("GET", "/v1/gates"),
    "messages-gate": ("GET", "/v1/gates/{provider}"),
    "messages-gate-rule": ("PUT", "/v1/gates/{provider}"),
    "messages-find": ("GET", "/v1/messages/{id}"),
    "messages-retry": ("POST", "/v1/messages/{id}/retry"),
    "messages-resolve": ("POST", "/v1/messages/{id}/resolve"),
    "messages-reset-redeem": ("POST", "/v1/password-resets/redeem"),
    "messages-user-change": ("PATCH", "/v1/users/{id}"),
    "messages-user-close": ("DELETE", "/v1/users/{id}"),
    "messages-user-revoke": ("POST", "/v1/users/{id}/revoke-tokens"),
}
WITH_BODY = {
    "messages-resolve",
    "messages-reset-redeem",
    "messages-user-change",
    "messages-send",
    "messages-send-batch",
    "messages-retry-many",
    "messages-upload",
    "messages-suppress",
    "messages-suppressions-lookup",
    "messages-gate-rule",
}
SCHEDULES = {f"{name}-schedule": name for name in ("sweep", "reaper", "retention")}
FEEDBACK = (
    "send",
    "delivery",
    "delivery-delay",
    "bounce-permanent",
    "bounce-transient",
    "complaint",
    "reject",
    "rendering-failure",
    "sending-disabled",
    "sending-enabled",
)
QUEUES = {"doorbell-sqs": "DoorbellQueue"} | {
    f"feedback-{name}": "FeedbackQueue" for name in FEEDBACK
}
CUSTOM_RESOURCES = {
    "migrate-create": "Create",
    "migrate-update": "Update",
    "migrate-delete": "Delete",
}


def sample(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((ROOT / "events" / f"{name}.json").read_text("utf-8"))
    return loaded


def fields(name: str) -> dict[str, str]:
    request = APIGatewayProxyEventV2(sample(name))
    loaded: dict[str, str] = json.loads(request.decoded_body or "")
    return loaded


@pytest.fixture(scope="module")
def deployed() -> Deployment:
    return deployment(source())


def test_every_file_is_claimed_by_a_test_and_every_claim_has_its_file() -> None:
    files = {path.relative_to(ROOT / "events").as_posix() for path in (ROOT / "events").rglob("*")}
    claimed = {f"{name}.json" for name in (*HTTP, *SIGNED, *SCHEDULES, *QUEUES, *CUSTOM_RESOURCES)}
    assert files == claimed


def test_every_function_has_a_sample() -> None:
    named = {
        name.partition("-")[0] for name in (*HTTP, *SIGNED, *SCHEDULES, *QUEUES, *CUSTOM_RESOURCES)
    }
    assert named == set(FUNCTIONS)


def routes_of(function: str) -> set[tuple[str, str]]:
    """Method and path template of each route in the function's source."""
    tree = ast.parse((ROOT / "functions" / function / "app.py").read_text("utf-8"))
    return {
        (decorator.func.attr.upper(), decorator.args[0].value)
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call)
        and isinstance(decorator.func, ast.Attribute)
        and isinstance(decorator.args[0], ast.Constant)
        and isinstance(decorator.args[0].value, str)
    }


def matches(path: str, template: str) -> bool:
    return re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path) is not None


def test_every_route_of_the_api_has_a_sample_and_every_sample_a_route() -> None:
    assert set(HTTP.values()) == routes_of("auth")
    assert set(SIGNED.values()) == routes_of("messages")


def test_every_route_for_signed_callers_is_one_of_the_template(deployed: Deployment) -> None:
    """One that is missing there would fall to the public function."""
    paths = deployed.resources["HttpApi"]["Properties"]["Body"]["paths"]
    declared = {(method.upper(), path) for path, found in paths.items() for method in found}
    assert routes_of("messages") <= declared


@pytest.mark.parametrize("name", SIGNED)
def test_no_path_for_signed_callers_is_served_by_the_public_function(name: str) -> None:
    path = sample(name)["rawPath"]
    assert not [template for _, template in routes_of("auth") if matches(path, template)]


@pytest.mark.parametrize(("name", "route"), SIGNED.items())
def test_a_signed_sample_says_who_signed_it(name: str, route: tuple[str, str]) -> None:
    event = sample(name)
    request = APIGatewayProxyEventV2(event)
    method, template = route
    assert event["routeKey"] == event["requestContext"]["routeKey"] == f"{method} {template}"
    assert request.http_method == method
    assert matches(request.raw_path, template)
    assert request.raw_path == request.request_context.http.path
    identity = request.request_context.authorizer.iam
    assert identity.user_arn.startswith("arn:aws:sts::123456789012:assumed-role/support/")
    assert event["headers"]["authorization"].startswith("AWS4-HMAC-SHA256 Credential=")
    assert ("pathParameters" in event) == ("{" in template)
    if "{provider}" in template:
        assert event["pathParameters"] == {"provider": "ses"}
    elif "pathParameters" in event:
        named = event["pathParameters"]["id"]
        if "suppressions" in template:
            assert re.fullmatch("[0-9a-f]{64}", named)
        else:
            assert str(UUID(named)) == named if "users" in template else parse_event_id(named)
    assert ("body" in event) == (name in WITH_BODY)


@pytest.mark.parametrize(("name", "route"), HTTP.items())
def test_an_http_sample_is_a_payload_of_format_2(name: str, route: tuple[str, str]) -> None:
    event = sample(name)
    request = APIGatewayProxyEventV2(event)
    method, path = route
    own = (path, method.lower(), "AuthFunction") in PUBLIC_ROUTES
    assert event["routeKey"] == event["requestContext"]["routeKey"]
    assert (event["version"], event["routeKey"]) == (
        "2.0",
        f"{method} {path}" if own else "$default",
    )
    assert ("pathParameters" in event) == (own and "{" in path)
    assert request.http_method == method
    assert re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), request.raw_path)
    assert request.raw_path == request.request_context.http.path
    assert all(header == header.lower() for header in event["headers"])
    body = request.decoded_body if "body" in event else None
    assert (body is None) == (method == "GET")
    assert event["headers"].get("content-length") == (None if body is None else str(len(body)))


def test_the_sign_up_samples_name_an_address_and_one_an_idempotency_key() -> None:
    assert fields("auth-signup") == {"email": "ada@example.com", "locale": "en"}
    assert sample("auth-signup")["headers"]["idempotency-key"] == "signup-2026-03-12-ada"
    assert fields("auth-verification-resend") == {"email": "ada@example.com"}


def test_json_without_a_content_type_comes_base64_encoded() -> None:
    event = sample("auth-signup-base64")
    assert event["isBase64Encoded"] is True
    assert "content-type" not in event["headers"]
    assert fields("auth-signup-base64") == {"email": "grace@example.com"}


def test_the_token_and_the_event_id_are_well_formed() -> None:
    token = fields("auth-verification")["token"]
    assert re.fullmatch(r"[A-Za-z0-9_-]{64}", token)
    assert parse_event_id(sample("auth-event")["rawPath"].rpartition("/")[2]) is not None


@pytest.mark.parametrize(("name", "function"), SCHEDULES.items())
def test_a_schedule_sample_is_what_eventbridge_scheduler_sends(
    name: str, function: str, deployed: Deployment
) -> None:
    raw = sample(name)
    event = EventBridgeEvent(raw)
    assert (event.source, event.detail_type) == ("aws.scheduler", "Scheduled Event")
    assert raw["detail"] == "{}"
    assert datetime.fromisoformat(event.time).utcoffset() == timedelta(0)
    assert event.resources[0].endswith(f":schedule/default/postlease-{function}")
    schedule = deployed.resources[f"{LOGICAL_IDS[function]}Schedule"]["Properties"]
    assert schedule["Name"] == {"Fn::Sub": f"${{AWS::StackName}}-{function}"}
    assert "Input" not in schedule["Target"]


@pytest.mark.parametrize(("name", "queue"), QUEUES.items())
def test_a_queue_sample_is_a_batch_of_sqs(name: str, queue: str, deployed: Deployment) -> None:
    records = list(SQSEvent(sample(name)).records)
    assert (
        0
        < len(records)
        <= deployed.resources[queue.replace("Queue", "Source")]["Properties"]["BatchSize"]
    )
    for record in records:
        assert record.event_source == "aws:sqs"
        assert record.queue_url.endswith(f"/postlease-{queue}")
        digest = hashlib.md5(record.body.encode(), usedforsecurity=False).hexdigest()
        assert record.md5_of_body == digest
        assert record.attributes.sent_timestamp.isdigit()


def test_the_doorbell_s_sample_names_a_message() -> None:
    [record] = sample("doorbell-sqs")["Records"]
    assert doorbell.heard(record["body"]) is not None


@pytest.mark.parametrize("name", FEEDBACK)
def test_a_feedback_sample_holds_what_our_rules_let_through(
    name: str, deployed: Deployment
) -> None:
    [record] = sample(f"feedback-{name}")["Records"]
    event = EventBridgeEvent(json.loads(record["body"]))
    assert event.source == "aws.ses"
    assert event.account == record["eventSourceARN"].split(":")[4]
    status = deployed.resources["SendingStatusRule"]["Properties"]["EventPattern"]["detail-type"]
    if name.startswith("sending-"):
        assert event.detail_type in status
    else:
        assert event.detail_type.startswith("Email ")
        assert event.detail["mail"]["tags"]["ses:configuration-set"] == ["postlease"]
        read = ses_events.read(record["body"], account=event.account, configuration_set="postlease")
        assert isinstance(read, ses_events.Ignored) == (name == "rendering-failure")


@pytest.mark.parametrize(("name", "request_type"), CUSTOM_RESOURCES.items())
def test_a_migrate_sample_carries_the_properties_of_the_template(
    name: str, request_type: str, deployed: Deployment
) -> None:
    raw = sample(name)
    event = CloudFormationCustomResourceEvent(raw)
    properties = deployed.resources["Migrations"]["Properties"]
    assert event.request_type == request_type
    assert (event.logical_resource_id, event.resource_type) == ("Migrations", "Custom::Migrations")
    assert event.resource_properties.keys() == properties.keys()
    assert event.resource_properties["ServiceTimeout"] == str(properties["ServiceTimeout"])
    assert ("PhysicalResourceId" in raw) == (request_type != "Create")
    assert ("OldResourceProperties" in raw) == (request_type == "Update")
    # Whoever invokes it by hand tells nobody but itself.
    assert event.response_url.startswith("http://127.0.0.1:")


def test_an_update_sample_is_a_changed_sql_layer() -> None:
    event = sample("migrate-update")
    new, old = event["ResourceProperties"], event["OldResourceProperties"]
    assert {key for key in new if new[key] != old[key]} == {"SqlLayer"}
