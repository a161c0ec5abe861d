"""`docs/deploy.md` lists the template's parameters and names only what the stack has."""

from __future__ import annotations

import re

import pytest

from postlease.rendering import SHIPPED
from tests.template.deployment import ROOT, Deployment, deployment, is_kept, source

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
