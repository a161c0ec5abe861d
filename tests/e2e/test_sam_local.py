"""What `sam local` brings to the functions: events as SAM makes them, and ways out of a container.

No container runs here. What SAM makes of the template and of the file of variables is in tests/sam.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import boto3
import psycopg
import pytest

from local.containers import ENDPOINTS, HOST, PUBLIC_URL, Containers, wanted_address
from local.relay import Relay, RelayError
from local.runtime import REGION
from local.stack import ROOT, Stack
from local.web import LOOPBACK
from tests.template.deployment import LOGICAL_IDS, source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ADDRESS = "127.0.0.2"
"""Stands for Docker's bridge: it is this machine's, and not where the stack itself listens."""


@pytest.fixture(scope="module")
def product(server_url: str) -> Iterator[Stack]:
    settings = {"SWEEP_LINGER_SECONDS": "0"}
    with Stack(database_url=server_url, settings=settings) as stack:
        yield stack


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sam") / "folder" / "sam-env.json"


@pytest.fixture(scope="module")
def containers(product: Stack, file: Path) -> Iterator[Containers]:
    with Containers(product, ADDRESS, file) as containers:
        yield containers
    assert not file.exists()


def sample(name: str) -> dict[str, Any]:
    text = (ROOT / "tests/sam/generated" / f"{name}.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def found_by_containers(url: str) -> str:
    """url as it leads from here: the host's name is known in containers alone."""
    place = urlsplit(url)
    assert place.hostname == HOST
    return place._replace(netloc=f"{ADDRESS}:{place.port}").geturl()


def store(variables: dict[str, str]) -> Any:
    return boto3.client(
        "secretsmanager",
        endpoint_url=found_by_containers(variables["AWS_ENDPOINT_URL"]),
        region_name=REGION,
        aws_access_key_id="any",
        aws_secret_access_key="any",
    )


def test_the_file_has_every_variable_that_the_template_names_and_no_other(
    containers: Containers, file: Path
) -> None:
    template = source()
    shared = template["Globals"]["Function"]["Environment"]["Variables"]
    written = json.loads(file.read_text("utf-8"))
    assert written == containers.variables
    assert written.keys() == set(LOGICAL_IDS.values())
    for name, variables in written.items():
        own = template["Resources"][name]["Properties"].get("Environment", {}).get("Variables", {})
        assert variables.keys() == {*shared, *own}, name
        assert variables["PUBLIC_URL"] == PUBLIC_URL


@pytest.mark.parametrize(
    ("function", "secret", "role"),
    [
        ("SweepFunction", "DATABASE_SECRET_ARN", "postlease_application"),
        ("MigrateFunction", "DATABASE_OWNER_SECRET_ARN", "postgres"),
    ],
)
def test_a_container_reads_its_login_and_reaches_the_database_by_it(
    containers: Containers, function: str, secret: str, role: str
) -> None:
    variables = containers.variables[function]
    login = json.loads(
        store(variables).get_secret_value(SecretId=variables[secret])["SecretString"]
    )
    assert login["host"] == HOST
    with psycopg.connect(
        host=ADDRESS,
        port=login["port"],
        dbname=login["dbname"],
        user=login["username"],
        password=login["password"],
    ) as connection:
        assert connection.execute("SELECT current_user").fetchone() == (role,)


def test_a_container_s_mail_reaches_the_provider_whose_inbox_is_shown(
    containers: Containers, product: Stack
) -> None:
    variables = containers.variables["SweepFunction"]
    aws, ses = (found_by_containers(variables[name]) for name in ENDPOINTS)
    assert aws != ses
    before = len(product.inbox())
    client = boto3.client(
        "sesv2",
        endpoint_url=ses,
        region_name=REGION,
        aws_access_key_id="any",
        aws_secret_access_key="any",
    )
    client.send_email(
        FromEmailAddress=variables["FROM_ADDRESS"],
        Destination={"ToAddresses": ["ada@example.com"]},
        Content={"Raw": {"Data": b"Subject: x\r\n\r\ny"}},
        ConfigurationSetName=variables["SES_CONFIGURATION_SET"],
    )
    assert len(product.inbox()) == before + 1


def test_the_doorbell_s_queue_is_named_by_the_way_that_leads_to_it(
    containers: Containers, product: Stack
) -> None:
    variables = containers.variables["AuthFunction"]
    running = product.functions["auth"].definition.environment
    url = variables["DOORBELL_QUEUE_URL"]
    assert url.startswith(variables["AWS_ENDPOINT_URL"] + "/")
    assert urlsplit(url).path == urlsplit(running["DOORBELL_QUEUE_URL"]).path


def test_an_address_that_is_not_this_machine_s_is_told_in_one_line() -> None:
    with pytest.raises(RelayError, match=r"^cannot listen on 192\.0\.2\.1: .+$"):
        Relay("192.0.2.1", 1).__enter__()


@pytest.mark.parametrize("word", ["", "off", "0", "no"])
def test_without_the_wish_nothing_is_relayed(word: str) -> None:
    assert wanted_address(word) is None


def test_the_wish_is_on_or_an_address() -> None:
    assert wanted_address("on") is not None
    assert wanted_address("192.168.65.1") == "192.168.65.1"
    with pytest.raises(ValueError, match="bridge"):
        wanted_address("bridge")


def test_another_wish_is_told_in_one_line_before_anything_is_started() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "local", "dev"],
        cwd=ROOT,
        env=os.environ | {"SAM_LOCAL": "bridge"},
        capture_output=True,
        check=False,
        text=True,
    )
    said = "error: SAM_LOCAL must be on, off or an address of this machine\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)


def test_a_relay_to_nobody_hangs_up() -> None:
    with Relay(LOOPBACK, 1) as relay, socket.create_connection((LOOPBACK, relay.port), 5) as asked:
        assert asked.recv(1) == b""


@pytest.mark.parametrize(
    ("function", "name", "answered"),
    [
        ("auth", "http-api", 200),
        ("auth", "http-api-signup", 202),
        ("auth", "start-api-healthz", 200),
        ("auth", "start-api-signup", 202),
        # `sam local` checks no signature and so vouches for nobody.
        ("messages", "start-api-search", 403),
        ("messages", "http-api", 403),
    ],
)
def test_a_request_as_sam_makes_it_is_answered(
    product: Stack, function: str, name: str, answered: int
) -> None:
    assert product.invoke(function, sample(name))["statusCode"] == answered


@pytest.mark.parametrize("function", ["doorbell", "feedback"])
def test_a_queue_s_batch_as_sam_makes_it_is_done_with(product: Stack, function: str) -> None:
    """Its body names nothing that we know, so it must not come again."""
    assert product.invoke(function, sample("sqs")) == {"batchItemFailures": []}


@pytest.mark.parametrize("function", ["sweep", "reaper", "retention"])
def test_a_schedule_s_event_as_sam_makes_it_starts_the_function(
    product: Stack, function: str
) -> None:
    result = product.run(function, sample("schedule"))
    assert result.error is None
    assert isinstance(result.value, dict)


def test_a_custom_resource_s_request_as_sam_makes_it_migrates(product: Stack) -> None:
    """Nobody can be answered at the URL that SAM made up; who invokes by hand leaves it out."""
    event = sample("custom-resource")
    assert event.pop("ResponseURL") == "http://pre-signed-S3-url-for-response"
    assert product.invoke("migrate", event) == {"ran": []}
