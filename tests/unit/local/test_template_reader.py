"""The local stack reads a template's functions, routes and schedules as CloudFormation would."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from local.cloudformation import TemplateError
from local.stack import ROOT
from local.template import QueueSource, Route, Schedule, Template

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """
Transform: AWS::Serverless-2016-10-31
Parameters:
  Stage: {Type: String, Default: dev}
  Hour: {Type: Number, Default: 3}
  Subnets: {Type: CommaDelimitedList, Default: ""}
  Needed: {Type: String}
Conditions:
  IsProd: !Equals [!Ref Stage, prod]
  NotProd: !Not [!Condition IsProd]
  InVpc: !Not [!Equals [!Join ["", !Ref Subnets], ""]]
  Both: !And [!Condition NotProd, !Not [!Condition InVpc]]
Globals:
  Function:
    Handler: app.handler
    MemorySize: 512
    Layers: [!Ref CodeLayer]
    LoggingConfig: {LogFormat: JSON}
    Environment:
      Variables:
        STAGE: !Ref Stage
        BUCKET: !Ref Bucket
        BUCKET_ARN: !GetAtt Bucket.Arn
        LINE: !Sub "${Stage}-${AWS::Region}-${Bucket.Arn}-${!kept}"
        NESTED: !Sub ["${A}/${Stage}", {A: !Select [1, !Split ["@", !Ref Needed]]}]
        PROD_ONLY: !If [IsProd, "yes", !Ref AWS::NoValue]
        BOTH: !If [Both, 1, 2]
Resources:
  CodeLayer: {Type: AWS::Serverless::LayerVersion, Properties: {ContentUri: layers/code/python/}}
  Bucket: {Type: AWS::S3::Bucket}
  Hidden: {Type: AWS::S3::Bucket, Condition: IsProd}
  Api:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: functions/web/
      Timeout: 10
      ReservedConcurrentExecutions: !If [IsProd, 2, !Ref AWS::NoValue]
      Layers: [!Ref Extra]
      Environment: {Variables: {OWN: 5}}
      Events:
        Any: {Type: HttpApi, Properties: {ApiId: !Ref HttpApi}}
        Signed:
          Type: HttpApi
          Properties: {Path: /v1/messages, Method: post, Auth: {Authorizer: AWS_IAM}}
  Worker:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: functions/sweep
      Events:
        Often: {Type: ScheduleV2, Properties: {Name: often, ScheduleExpression: rate(1 minute)}}
        Off: {Type: ScheduleV2, Properties: {ScheduleExpression: rate(1 day), State: DISABLED}}
        Bell: {Type: SQS, Properties: {Queue: !GetAtt Queue.Arn, BatchSize: 5}}
        Mute: {Type: SQS, Properties: {Queue: !GetAtt Other.Arn, Enabled: false}}
  Source:
    Type: AWS::Lambda::EventSourceMapping
    Properties:
      EventSourceArn: !GetAtt Third.Arn
      FunctionName: !Ref Api
      FunctionResponseTypes: [ReportBatchItemFailures]
      ScalingConfig: {MaximumConcurrency: 7}
  Nightly:
    Type: AWS::Scheduler::Schedule
    Properties:
      ScheduleExpression: !Sub "cron(17 ${Hour} * * ? *)"
      ScheduleExpressionTimezone: Europe/Berlin
      Target: {Arn: !GetAtt Worker.Arn, Input: "{}"}
"""


def read(folder: Path, **parameters: str) -> Template:
    """The sample with parameters and two local names."""
    path = folder / "template.yaml"
    path.write_text(TEXT)
    names = {"Bucket": "local-bucket", "Bucket.Arn": "arn:bucket"}
    return Template(path, parameters={"Needed": "a@example.com", **parameters}, names=names)


def test_a_function_has_its_own_and_the_shared_properties(tmp_path: Path) -> None:
    web = read(tmp_path).functions[0]
    assert (web.name, web.logical_id, web.handler) == ("web", "Api", "app.handler")
    assert (web.timeout, web.memory, web.reserved) == (10, 512, None)
    assert web.layers == ("CodeLayer", "Extra")
    assert web.log_format == "JSON"
    assert web.folder == tmp_path / "functions" / "web"
    assert read(tmp_path, Stage="prod").functions[0].reserved == 2


def test_environment_variables_are_resolved(tmp_path: Path) -> None:
    assert read(tmp_path).functions[0].environment == {
        "STAGE": "dev",
        "BUCKET": "local-bucket",
        "BUCKET_ARN": "arn:bucket",
        "LINE": "dev-us-east-1-arn:bucket-${kept}",
        "NESTED": "example.com/dev",
        "BOTH": "1",
        "OWN": "5",
    }
    prod = read(tmp_path, Stage="prod", Subnets="a, b").functions[0].environment
    assert (prod["PROD_ONLY"], prod["BOTH"]) == ("yes", "2")


def test_routes_say_who_may_call_them(tmp_path: Path) -> None:
    assert read(tmp_path).routes == (
        Route("$default", "web", iam=False),
        Route("POST /v1/messages", "web", iam=True),
    )


def test_schedules_come_from_events_and_from_resources(tmp_path: Path) -> None:
    assert read(tmp_path, Hour="4").schedules == (
        Schedule("often", "sweep", "rate(1 minute)", "UTC", None),
        Schedule("Nightly", "sweep", "cron(17 4 * * ? *)", "Europe/Berlin", "{}"),
    )


def test_queues_that_invoke_a_function_are_found(tmp_path: Path) -> None:
    event, resource = read(tmp_path).queue_sources
    assert event == QueueSource(event.queue, "sweep", 5, concurrency=2, reports=False)
    assert resource == QueueSource(resource.queue, "web", 10, concurrency=7, reports=True)
    assert ("Queue" in event.queue, "Third" in resource.queue) == (True, True)


def test_a_condition_decides_over_a_resource(tmp_path: Path) -> None:
    assert list(read(tmp_path).of_type("AWS::S3::Bucket")) == ["Bucket"]
    assert list(read(tmp_path, Stage="prod").of_type("AWS::S3::Bucket")) == ["Bucket", "Hidden"]


def test_a_parameter_without_a_value_is_named(tmp_path: Path) -> None:
    path = tmp_path / "template.yaml"
    path.write_text(TEXT)
    with pytest.raises(TemplateError, match="Needed"):
        _ = Template(path, parameters={}).functions


def test_every_function_and_layer_of_the_real_template_is_in_the_tree() -> None:
    names = [
        "FromAddress",
        "PublicUrl",
        "AllowedOrigin",
        "DatabaseHost",
        "DatabaseOwnerSecretArn",
        "Stage",
    ]
    template = Template(ROOT / "template.yaml", parameters=dict.fromkeys(names, "x"))
    assert {f.name for f in template.functions} >= {
        "auth",
        "sweep",
        "reaper",
        "retention",
        "migrate",
    }
    for function in template.functions:
        for layer in function.layers:
            assert template.layer_folder(layer).is_dir()
    assert {schedule.function for schedule in template.schedules} >= {
        "sweep",
        "reaper",
        "retention",
    }
    assert Route("$default", "auth", iam=False) in template.routes
