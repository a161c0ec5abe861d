"""`docs/deploy.md` lists the template's parameters and names only what the stack has."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from postlease.rendering import SHIPPED
from tests.metrics import EMITTED, NAMES, SILENT
from tests.template.deployment import (
    LOGICAL_IDS,
    ROOT,
    Deployment,
    deployment,
    is_kept,
    many,
    source,
)

if TYPE_CHECKING:
    from pathlib import Path

PAGE = (ROOT / "docs" / "deploy.md").read_text("utf-8")


@pytest.fixture(scope="module")
def deployed() -> Deployment:
    return deployment(source())


def test_the_table_lists_every_parameter_with_its_default(deployed: Deployment) -> None:
    rows = re.findall(r"^\| `([A-Z][A-Za-z]+)` \| (`.*?`|required|) ?\| .+ \|$", PAGE, re.MULTILINE)
    declared = {
        name: (f"`{default}`" if default != "" else "") if default is not None else "required"
        for name, parameter in deployed.source["Parameters"].items()
        for default in [parameter.get("Default")]
    }
    assert dict(rows) == declared
    assert len(rows) == len(declared)


def test_every_output_that_the_page_names_is_there(deployed: Deployment) -> None:
    named = {"ApiUrl", "DkimRecord1", "DkimRecord3", "DeadLettersUrl"}
    assert all(f"`{name}`" in PAGE for name in named)
    assert named <= deployed.source["Outputs"].keys()


def test_every_secret_that_the_page_names_is_the_stacks(deployed: Deployment) -> None:
    named = set(re.findall(r"^\| `(\w+Secret)` \|", PAGE, re.MULTILINE))
    assert named == set(deployed.of_type("AWS::SecretsManager::Secret"))


def test_what_the_page_says_is_kept_is_kept(deployed: Deployment) -> None:
    kept = {name for name, one in deployed.resources.items() if is_kept(one)}
    assert kept == {"AttachmentsBucket", "TokenKeysSecret", "PepperSecret", "SenderDomain"}
    paragraph = PAGE.partition("## Removing it")[2].partition("\n## ")[0]
    assert all(word in paragraph for word in ("bucket", "token keys", "pepper", "identity"))


def test_the_places_for_one_s_own_templates_are_where_the_layer_is_made_from(
    deployed: Deployment,
) -> None:
    """What lies in the layer's folder is found below /opt/python: SAM puts it there."""
    layer = deployed.source["Resources"]["PostleaseLayer"]["Properties"]
    assert layer["ContentUri"] == "layers/postlease/python/"
    own, among = f"{layer['ContentUri']}mails/", f"{layer['ContentUri']}postlease/templates/"
    assert (ROOT / among).samefile(SHIPPED)
    for page in (PAGE, (ROOT / "docs" / "templates.md").read_text("utf-8")):
        assert f"`{own}`" in page
        assert f"`{among}`" in page
        assert "`TEMPLATES_DIRECTORY: /opt/python/mails`" in page


@pytest.mark.parametrize("place", ["mails", "postlease/templates"])
def test_templates_in_either_place_travel_in_the_layer(tmp_path: Path, place: str) -> None:
    """By the layer's own Makefile, run as `sam build` runs it."""
    folder, artefacts = tmp_path / "python", tmp_path / "artefacts"
    folder.mkdir()
    shutil.copy(ROOT / "layers/postlease/python/Makefile", folder)
    template = folder / place / "parcel/en/subject.txt.j2"
    template.parent.mkdir(parents=True)
    (folder / "postlease").mkdir(exist_ok=True)
    template.write_text("Your parcel")
    subprocess.run(
        ["make", "-C", folder, "build-PostleaseLayer", f"PYTHON={sys.executable}"],
        check=True,
        capture_output=True,
        env={**os.environ, "ARTIFACTS_DIR": str(artefacts)},
    )
    assert (artefacts / "python" / place / "parcel/en/subject.txt.j2").is_file()


def rows(heading: str) -> dict[str, list[str]]:
    """The cells of the tables below a heading, by the first cell."""
    section = PAGE.split(f"{heading}\n")[1].split("\n#")[0]
    cells = [line[1:].rstrip()[:-1].split("|") for line in section.splitlines() if line[:1] == "|"]
    return {first.strip("` "): [cell.strip() for cell in rest] for first, *rest in cells}


def test_the_guide_s_table_names_every_parameter_without_a_default(deployed: Deployment) -> None:
    required = {name for name, one in deployed.source["Parameters"].items() if "Default" not in one}
    assert required == set(rows("### 3. Build and deploy")) & deployed.source["Parameters"].keys()


def test_every_output_that_a_step_reads_is_there(deployed: Deployment) -> None:
    told = re.findall(r"outputs? ((?:`\w+`(?:,| and| to)? ?)+)|\(output (\w+)\)", PAGE)
    named = {name for group in told for name in re.findall(r"[A-Z]\w+", "".join(group))}
    assert {"ApiUrl", "DmarcRecord", "PepperSecretArn", "SesUrl"} <= named
    assert named <= deployed.source["Outputs"].keys()


def test_the_network_s_table_says_what_each_function_calls(deployed: Deployment) -> None:
    """By its role's actions. Queues are read by Lambda, from outside the VPC; migrate answers."""
    services = {"Secrets Manager": "secretsmanager", "SQS": "sqs", "S3": "s3", "SES": "ses"}
    table = rows("## The network")
    for name, logical_id in LOGICAL_IDS.items():
        role = deployed.functions()[logical_id]["Role"]["Fn::GetAtt"][0]
        called = {
            action.partition(":")[0]
            for policy in deployed.resources[role]["Properties"]["Policies"]
            for statement in policy["PolicyDocument"]["Statement"]
            for action in many(statement["Action"])
            if not action.startswith("sqs:")
            or (action == "sqs:SendMessage" and "DoorbellQueue" in str(statement["Resource"]))
        } | ({"s3"} if name == "migrate" else set())
        told = {service for service, cell in zip(services, table[name], strict=True) if cell}
        assert {services[service] for service in told} == called & set(services.values()), name


def test_the_connections_of_the_table_add_up_to_what_the_page_says(deployed: Deployment) -> None:
    table = rows("### Connections")
    assert set(table) - {"function", "---"} == set(LOGICAL_IDS)
    for environments, each, together in (table[name] for name in LOGICAL_IDS):
        assert int(environments.split()[0]) * int(each) == int(together)
    total = sum(int(table[name][2]) for name in LOGICAL_IDS)
    assert f"That is {total}, with `Stage` = `prod`" in PAGE


def test_the_environments_of_the_table_are_the_template_s_bounds(deployed: Deployment) -> None:
    parameters = deployed.source["Parameters"]
    sources = {
        found["Properties"]["FunctionName"]["Ref"]: found["Properties"]["ScalingConfig"]
        for found in deployed.of_type("AWS::Lambda::EventSourceMapping").values()
    }
    reserved = 0
    for name, logical_id in LOGICAL_IDS.items():
        own = deployed.functions()[logical_id].get("ReservedConcurrentExecutions")
        if own is not None:
            bound = own["Fn::If"][1]
        elif logical_id in sources:
            bound = sources[logical_id]["MaximumConcurrency"]
        else:
            bound = 1  # CloudFormation asks it once at a time
        number = parameters[bound["Ref"]]["Default"] if isinstance(bound, dict) else bound
        assert rows("### Connections")[name][0].split()[0] == str(number), name
        reserved += number if own is not None else 0
    assert f"It reserves\n{reserved} with the defaults" in PAGE
    assert f"must be {reserved + 100} or more" in PAGE


def test_the_cost_of_watching_is_counted(deployed: Deployment) -> None:
    """An idle stack tells of no mail's times."""
    alarms = deployed.of_type("AWS::CloudWatch::Alarm")
    idle = (EMITTED["sweep"].keys() | EMITTED["reaper"].keys()) - SILENT
    more = len(NAMES - idle)
    assert f"${len(alarms) / 10:.2f} for {len(alarms)} alarms" in PAGE
    assert f"${len(idle) * 0.3:.2f} for {len(idle)} metrics" in PAGE
    assert f"up to ${more * 0.3:.2f} for {more} more metrics" in PAGE
    assert f"The {len(alarms)} alarms speak" in PAGE
