"""An emulated AWS in a child process: Secrets Manager, S3, SQS and SES by moto.

`python -m local.aws` is the child: it prints its port and serves until it is killed.
"""

from __future__ import annotations

import json
import os
import secrets
import string
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Self

import boto3
import botocore.session
from botocore.config import Config

from local.runtime import ACCOUNT, REGION
from local.signatures import ACCESS_KEY, SECRET_KEY
from local.web import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from local.keeper import Keeper

_QUEUE_TIMES = ("VisibilityTimeout", "MessageRetentionPeriod", "DelaySeconds")
_ALPHABET = string.ascii_letters + string.digits


class Aws:
    """The child and what is made in it. The child starts with construction."""

    def __init__(self, keeper: Keeper, log: Path) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "MOTO_"))}
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "local.aws"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
        self._keeper = keeper
        self._session = boto3.Session(
            ACCESS_KEY, SECRET_KEY, region_name=REGION, botocore_session=_bare_session()
        )
        self._url: str | None = None
        keeper.end_child(self._child.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.wait()
        self._keeper.forget_child(self._child.pid)
        if self._child.stdout is not None:
            self._child.stdout.close()

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._child.pid

    @property
    def endpoint_url(self) -> str:
        """Where every service answers; waits until the child listens."""
        if self._url is None:
            line = self._child.stdout.readline() if self._child.stdout else b""
            if not line.strip().isdigit():
                raise RuntimeError("the emulated AWS did not start: see its log")
            self._url = f"http://{LOOPBACK}:{int(line)}"
        return self._url

    def client(self, name: str) -> Any:
        """A boto3 client of that name with the local login, whatever the developer's own is."""
        make: Any = self._session.client
        return make(
            name,
            endpoint_url=self.endpoint_url,
            config=Config(
                retries={"total_max_attempts": 1},
                connect_timeout=2,
                read_timeout=30,
                max_pool_connections=50,
                proxies={},
            ),
        )

    def create_secret(self, name: str, value: str) -> str:
        """Store a secret and return its ARN."""
        created = self.client("secretsmanager").create_secret(Name=name, SecretString=value)
        return str(created["ARN"])

    def create_bucket(self, name: str) -> None:
        """Make a versioned bucket."""
        s3 = self.client("s3")
        s3.create_bucket(Bucket=name)
        s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})

    def create_queue(self, name: str, properties: Mapping[str, Any]) -> str:
        """Make a queue with the times of an `AWS::SQS::Queue`; return its URL."""
        attributes = {key: str(properties[key]) for key in _QUEUE_TIMES if key in properties}
        made = self.client("sqs").create_queue(QueueName=name, Attributes=attributes)
        return str(made["QueueUrl"])

    def redrive(self, url: str, policy: Mapping[str, Any]) -> None:
        """Let a queue give up, as its RedrivePolicy says; the other queue must be there."""
        attributes = {"RedrivePolicy": json.dumps(policy)}
        self.client("sqs").set_queue_attributes(QueueUrl=url, Attributes=attributes)

    def verify_sender(self, address: str) -> None:
        """Let mail from address pass."""
        self.client("sesv2").create_email_identity(EmailIdentity=address)

    def create_configuration_set(self, name: str) -> None:
        """Make an SES configuration set."""
        self.client("sesv2").create_configuration_set(ConfigurationSetName=name)


def queue_arn(name: str) -> str:
    """What a queue of that name is called elsewhere."""
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"


def _bare_session() -> botocore.session.Session:
    """A session that reads no profile and no file of the developer's."""
    nothing = {"profile": (None, None, None, None)}
    files = dict.fromkeys(("config_file", "credentials_file"), (None, None, os.devnull, None))
    return botocore.session.Session(session_vars=nothing | files)


def generated_secret(properties: Mapping[str, Any]) -> str:
    """The value of an `AWS::SecretsManager::Secret`: as given, or as CloudFormation makes one."""
    if "SecretString" in properties:
        return str(properties["SecretString"])
    wish = properties.get("GenerateSecretString", {})
    value = "".join(secrets.choice(_ALPHABET) for _ in range(int(wish.get("PasswordLength", 32))))
    if "GenerateStringKey" not in wish:
        return value
    content = json.loads(wish.get("SecretStringTemplate", "{}"))
    return json.dumps({**content, wish["GenerateStringKey"]: value})


def main() -> None:
    """Serve moto on a free loopback port and print it."""
    from moto.moto_server.werkzeug_app import (  # noqa: PLC0415  only the child needs it
        DomainDispatcherApplication,
        create_backend_app,
    )
    from werkzeug.serving import WSGIRequestHandler, make_server  # noqa: PLC0415

    class _Quiet(WSGIRequestHandler):
        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            pass

    application = DomainDispatcherApplication(create_backend_app)
    server = make_server(LOOPBACK, 0, application, threaded=True, request_handler=_Quiet)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
