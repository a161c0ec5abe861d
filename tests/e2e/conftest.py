"""A local stack around small functions of the tests' own."""

from __future__ import annotations

import json
import textwrap
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from local.runtime import REGION
from local.signatures import ACCESS_KEY, SECRET_KEY, SIGNING_NAME
from local.stack import Stack
from ops import cli
from tests import emptying

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from postlease.database import Connection

TEMPLATE = """
Transform: AWS::Serverless-2016-10-31
Parameters:
  Stage: {Type: String}
  FromAddress: {Type: String}
  DatabaseHost: {Type: String}
  DatabasePort: {Type: Number}
  DatabaseName: {Type: String}
  DatabaseOwnerSecretArn: {Type: String}
Globals:
  Function:
    Handler: app.handler
    Timeout: 20
    Environment: {Variables: {STAGE: !Ref Stage, FROM: !Ref FromAddress, BUCKET: !Ref Bucket}}
Resources:
  HttpApi: {Type: AWS::Serverless::HttpApi}
  Bucket: {Type: AWS::S3::Bucket}
  SqlLayer: {Type: AWS::Serverless::LayerVersion, Properties: {ContentUri: sql/}}
  Web:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: functions/web/
      Events: {Any: {Type: HttpApi, Properties: {ApiId: !Ref HttpApi}}}
  Mailer:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: functions/mailer/
      Events: {Tick: {Type: ScheduleV2, Properties: {ScheduleExpression: rate(1 minute)}}}
  Migrate:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: functions/migrate/
      Layers: [!Ref SqlLayer]
      Environment: {Variables: {OWNER: !Ref DatabaseOwnerSecretArn}}
"""
WEB = """
    def handler(event, context):
        if event.get("fail"):
            raise ValueError("as asked")
        return event
"""
MAILER = """
    import os
    from email.message import EmailMessage

    import boto3
    from botocore.config import Config

    once = Config(retries={"total_max_attempts": 1})
    ses, s3 = boto3.client("sesv2", config=once), boto3.client("s3")

    def handler(event, context):
        version = s3.put_object(Bucket=os.environ["BUCKET"], Key="a", Body=b"x")["VersionId"]
        mail = EmailMessage()
        mail["Subject"] = event.get("subject", "tick")
        mail.set_content("text & more")
        mail.add_alternative("<script>1</script><p>html</p>", subtype="html")
        sent = ses.send_email(
            FromEmailAddress=os.environ["FROM"],
            Destination={"ToAddresses": ["ada@example.com"]},
            Content={"Raw": {"Data": mail.as_bytes()}},
        )
        return {"id": sent["MessageId"], "version": version, "source": event.get("source")}
"""
MIGRATE = """
    import importlib.resources, json, os

    import boto3, psycopg

    def handler(event, context):
        secret = boto3.client("secretsmanager").get_secret_value(SecretId=os.environ["OWNER"])
        login = json.loads(secret["SecretString"])
        login["user"] = login.pop("username")
        with psycopg.connect(**login) as connection:
            connection.execute("CREATE SCHEMA postlease")
            connection.execute("CREATE TABLE postlease.email_messages (status text)")
            connection.execute("INSERT INTO postlease.email_messages VALUES ('pending'), ('<b>')")
        return [path.name for path in importlib.resources.files("postlease_sql").iterdir()]
"""


@dataclass(frozen=True)
class Answer:
    """What came back over HTTP."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


def ask(url: str, method: str = "GET", content: Any = None, **headers: str) -> Answer:
    """One request; bytes are sent as they are, anything else as JSON."""
    body = (
        content if content is None or isinstance(content, bytes) else json.dumps(content).encode()
    )
    names = {"content-type": "application/json"} if body is not None else {}
    names |= {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, body, names, method=method)  # noqa: S310  loopback
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310  loopback
            found = {name.lower(): value for name, value in answer.headers.items()}
            return Answer(answer.status, found, answer.read())
    except urllib.error.HTTPError as error:
        with error:
            found = {name.lower(): value for name, value in error.headers.items()}
            return Answer(error.code, found, error.read())


def signed(
    product: Stack,
    method: str,
    target: str,
    body: Any = None,
    *,
    key: str = SECRET_KEY,
    **headers: str,
) -> Answer:
    """One request with a signature made by key; other headers go unsigned."""
    content = None if body is None else json.dumps(body).encode()
    typed = {} if content is None else {"content-type": "application/json"}
    request = AWSRequest(method, f"{product.url}{target}", headers=typed, data=content)
    SigV4Auth(Credentials(ACCESS_KEY, key), SIGNING_NAME, REGION).add_auth(request)
    sent = headers | dict(request.headers.items())
    return ask(f"{product.url}{target}", method, content, **sent)


@pytest.fixture(scope="session")
def sample_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A template with three small functions beside it."""
    folder = tmp_path_factory.mktemp("sample")
    for name, source in (("web", WEB), ("mailer", MAILER), ("migrate", MIGRATE)):
        (folder / "functions" / name).mkdir(parents=True)
        (folder / "functions" / name / "app.py").write_text(textwrap.dedent(source))
    (folder / "sql").mkdir()
    (folder / "sql" / "0001.sql").touch()
    (folder / "template.yaml").write_text(TEMPLATE)
    return folder / "template.yaml"


@pytest.fixture(scope="session")
def running_stack(sample_template: Path, server_url: str) -> Iterator[Stack]:
    """One stack for the run, in a database of its own on the run's server."""
    with Stack(template=sample_template, database_url=server_url) as stack:
        yield stack


@pytest.fixture
def stack(running_stack: Stack) -> Stack:
    """The stack with an empty inbox and a well-behaved provider."""
    running_stack.provider.inbox.clear()
    running_stack.set_faults("accept")
    running_stack.set_events()
    return running_stack


@pytest.fixture(scope="session")
def swept_by_hand(server_url: str) -> Iterator[Stack]:
    """The product for the run, whose sweeps drain and end; nothing in it happens by itself."""
    with Stack(database_url=server_url, settings={"SWEEP_LINGER_SECONDS": "0"}) as product:
        yield product


@pytest.fixture
def emptied(swept_by_hand: Stack) -> Iterator[Connection]:
    """The owner's connection to that product's database, with nothing left of an earlier test."""
    with emptying.emptied(swept_by_hand) as owner:
        yield owner


@pytest.fixture
def console(stack: Stack) -> Callable[..., Answer]:
    """Asks the console: path under /_local, then as `ask`."""

    def ask_console(path: str, method: str = "GET", content: Any = None, **headers: str) -> Answer:
        return ask(f"{stack.url}/_local{path}", method, content, **headers)

    return ask_console


@pytest.fixture
def ops(swept_by_hand: Stack, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Runs a command line; what it printed as JSON, or the lines, of one that ends with status."""

    def run(*arguments: str, status: int = 0) -> Any:
        found = cli.run(("--local", "--endpoint", swept_by_hand.url, *arguments))
        said = capsys.readouterr()
        assert found == status, said.err
        return json.loads(said.out) if "--json" in arguments else said.out + said.err

    return run
