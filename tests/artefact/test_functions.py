"""Every built function answers the samples of `events/`, in a Python like Lambda's own."""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from local.stack import ROOT
from local.web import Front, Request, Response
from postlease.model import event_id
from tests import arrange
from tests.artefact.conftest import answer, function_of, sample, token
from tests.template.deployment import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from local.built import Built
    from local.stack import Stack
    from postlease.database import Connection

EMPTY = {
    "auth-docs": 200,
    "auth-event": 410,
    "auth-healthz": 200,
    "auth-openapi": 200,
    "auth-password-reset": 202,
    "auth-reset-page": 200,
    "auth-signup": 202,
    "auth-signup-base64": 202,
    "auth-verification": 400,
    "auth-verification-resend": 202,
    "auth-verify-form": 400,
    "auth-verify-page": 200,
    "messages-cancel": 404,
    "messages-find": 404,
    "messages-gate": 200,
    "messages-gate-rule": 200,
    "messages-gates": 200,
    "messages-recipients": 404,
    "messages-reset-redeem": 400,
    "messages-resolve": 404,
    "messages-retry": 404,
    "messages-retry-many": 200,
    "messages-search": 200,
    "messages-send": 202,
    "messages-send-batch": 202,
    "messages-stats": 200,
    "messages-suppress": 200,
    "messages-suppression-delete": 404,
    "messages-suppressions": 200,
    "messages-suppressions-lookup": 200,
    "messages-upload": 201,
    "messages-user-change": 404,
    "messages-user-close": 404,
    "messages-user-revoke": 404,
}
"""What each HTTP sample is answered where nothing that it names is there."""

SCHEDULES = ("reaper-schedule", "retention-schedule", "sweep-schedule")
BATCHES = ("doorbell-sqs", *(path.stem for path in (ROOT / "events").glob("feedback-*.json")))
CUSTOM_RESOURCES = ("migrate-create", "migrate-delete", "migrate-update")
WHERE = """
import app, json, sys
import aws_lambda_powertools, postlease, psycopg, psycopg_binary
print(json.dumps([module.__file__ for module in
    (app, aws_lambda_powertools, postlease, psycopg, psycopg_binary)]))
"""


def test_the_runtime_s_python_has_the_runtime_client_and_boto3_alone(built: Built) -> None:
    told = subprocess.run(
        [built.python, "-m", "pip", "list", "--format=json"], capture_output=True, check=True
    )
    locked = (ROOT / "requirements" / "lambda.txt").read_text("utf-8")
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)", locked, re.MULTILINE))
    assert {"awslambdaric", "boto3"} <= pinned.keys()
    installed = {package["name"].lower(): package["version"] for package in json.loads(told.stdout)}
    del installed["pip"]
    assert {name.replace("_", "-"): version for name, version in installed.items()} == pinned


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_handler_and_all_it_imports_come_from_what_was_built(
    built: Built, stack: Stack, name: str
) -> None:
    definition = stack.functions[name].definition
    path = os.pathsep.join(str(folder) for folder in (definition.root, *definition.search_path))
    told = subprocess.run(
        [built.python, "-c", WHERE],
        env={**definition.environment, "PYTHONPATH": path},
        cwd=definition.root,
        capture_output=True,
        check=False,
        text=True,
    )
    assert told.returncode == 0, told.stderr
    for found in json.loads(told.stdout):
        assert found.startswith(f"{built.folder}/"), found


def test_every_sample_is_sent_to_a_built_function() -> None:
    files = {path.stem for path in (ROOT / "events").glob("*.json")}
    assert files == {*EMPTY, *SCHEDULES, *BATCHES, *CUSTOM_RESOURCES}
    assert {function_of(name) for name in files} == set(FUNCTIONS)


@pytest.mark.parametrize(("name", "status"), EMPTY.items())
def test_a_request_is_answered(stack: Stack, rows: Connection, name: str, status: int) -> None:
    assert answer(stack, name)[0] == status


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_is_done_whole(stack: Stack, rows: Connection, name: str) -> None:
    assert stack.invoke(function_of(name), sample(name)) == {"batchItemFailures": []}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_finds_nothing_due(stack: Stack, rows: Connection, name: str) -> None:
    done = stack.invoke(function_of(name), sample(name))
    assert done.pop("complete", True)
    assert done
    assert not any(done.values())


def test_a_sign_up_is_mailed_by_the_sweep_verified_and_found(
    stack: Stack, rows: Connection
) -> None:
    status, made = answer(stack, "auth-signup")
    assert status == 202
    assert stack.invoke("sweep", sample("sweep-schedule"))["sent"] == 1
    [mail] = stack.inbox()
    assert mail["to"] == ["ada@example.com"]
    status, verified = answer(stack, "auth-verification", body={"token": token(stack)})
    assert (status, verified["user_id"]) == (200, made["user_id"])
    event = made["verification"]["event_id"]
    assert answer(stack, "auth-event", id=event)[1]["status"] == "sent"
    assert answer(stack, "messages-find", id=event)[1]["status"] == "sent"
    assert answer(stack, "messages-user-change", id=made["user_id"])[0] == 200
    assert answer(stack, "messages-user-close", id=made["user_id"])[0] == 204


def test_a_ring_is_sent_by_the_doorbell(stack: Stack, rows: Connection) -> None:
    _, made = answer(stack, "auth-signup-base64")
    event = sample("doorbell-sqs")
    event["Records"][0]["body"] = made["verification"]["event_id"]
    assert stack.invoke("doorbell", event) == {"batchItemFailures": []}
    assert [mail["to"] for mail in stack.inbox()] == [["grace@example.com"]]
    assert answer(stack, "auth-event", id=made["verification"]["event_id"])[1]["status"] == "sent"


def test_a_mail_asked_for_by_a_signed_caller_is_rendered_and_sent(
    stack: Stack, rows: Connection
) -> None:
    _, made = answer(stack, "messages-send")
    _, many = answer(stack, "messages-send-batch")
    assert answer(stack, "messages-cancel", id=many["messages"][0]["event_id"])[0] == 200
    done = stack.invoke("sweep", sample("sweep-schedule"))
    assert done["sent"] == len(many["messages"])
    mails = {mail["message_id"] for mail in stack.inbox()}
    assert len(mails) == len(many["messages"])
    status, found = answer(stack, "messages-recipients", id=made["event_id"])
    assert status == 200
    assert found["to"]


def test_a_lost_answer_is_settled_by_the_events_of_ses(stack: Stack, rows: Connection) -> None:
    [message] = arrange.enqueue(rows, delivery="at_most_once")
    stack.set_faults("lose_response", times=1)
    stack.set_events("Send", "Delivery", times=1)
    assert stack.invoke("sweep", sample("sweep-schedule"))["unknown"] == 1
    assert stack.invoke("feedback") == {"batchItemFailures": []}
    assert answer(stack, "messages-find", id=event_id(message))[1]["status"] == "sent"


def test_what_finished_long_ago_leaves(stack: Stack, rows: Connection) -> None:
    arrange.enqueue(rows, 3)
    stack.invoke("sweep", sample("sweep-schedule"))
    rows.execute(
        "UPDATE postlease.email_messages SET created_at = created_at - interval '91 days',"
        " sent_at = sent_at - interval '91 days', finished_at = finished_at - interval '91 days'"
    )
    assert stack.invoke("retention", sample("retention-schedule"))["messages"] == 3
    assert arrange.statuses(rows) == {}


@pytest.fixture
def cloudformation() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A response URL, and what was put there."""
    told: list[dict[str, Any]] = []

    def respond(request: Request) -> Response:
        assert request.method == "PUT"
        told.append(json.loads(request.body))
        return Response(200)

    front = Front(respond)
    yield f"http://{front.address}/custom-resource-response", told
    front.close()


@pytest.mark.parametrize("name", CUSTOM_RESOURCES)
def test_cloudformation_is_told_that_the_migrations_went_well(
    stack: Stack, cloudformation: tuple[str, list[dict[str, Any]]], name: str
) -> None:
    url, told = cloudformation
    event = sample(name) | {"ResponseURL": url}
    stack.invoke("migrate", event)
    [answered] = told
    assert answered["Status"] == "SUCCESS"
    assert answered["RequestId"] == event["RequestId"]
    assert answered["PhysicalResourceId"] == event.get("PhysicalResourceId", "postlease-migrations")
