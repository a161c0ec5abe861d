"""`docs/aurora.yaml`: what it makes fits `template.yaml`, is private, and is what its page says."""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from samtranslator.yaml_helper import yaml_parse

from postlease import database, secret_store
from tests.template.deployment import ROOT, Deployment, deployment, is_kept, source
from tests.template.guards_connections import AURORA, summed

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = (ROOT / "docs" / "aurora.md").read_text("utf-8")

# AWS's documentation, by the most capacity: what an instance has with MinCapacity 0 or 0.5.
MAX_CONNECTIONS = {1: 189, 4: 823, 8: 1669, 16: 2000}

# What the functions call and cannot reach from a VPC by themselves.
CALLED = {"secretsmanager", "email", "sqs"}


@pytest.fixture(scope="module")
def aurora() -> dict[str, Any]:
    parsed: dict[str, Any] = yaml_parse((ROOT / "docs" / "aurora.yaml").read_text("utf-8"))
    return parsed


@pytest.fixture(scope="module")
def deployed() -> Deployment:
    return deployment(source())


def _of_type(aurora: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    return {
        name: one["Properties"] for name, one in aurora["Resources"].items() if one["Type"] == kind
    }


def _private(aurora: dict[str, Any]) -> list[str]:
    complaints = [
        f"{name} has a public address"
        for name, one in _of_type(aurora, "AWS::RDS::DBInstance").items()
        if one.get("PubliclyAccessible") is not False
    ]
    complaints.extend(
        f"{name} gives out public addresses"
        for name, one in _of_type(aurora, "AWS::EC2::Subnet").items()
        if one.get("MapPublicIpOnLaunch") is not False
    )
    for name, one in _of_type(aurora, "AWS::EC2::SecurityGroup").items():
        complaints.extend(
            f"{name} lets {rule} in"
            for rule in one.get("SecurityGroupIngress", [])
            if rule.get("SourceSecurityGroupId") != {"Fn::GetAtt": ["FunctionsGroup", "GroupId"]}
        )
        if not one.get("SecurityGroupEgress"):
            complaints.append(f"{name} may send anything")
    complaints.extend(
        f"{name} lets somebody in" for name in _of_type(aurora, "AWS::EC2::SecurityGroupIngress")
    )
    database_subnets = json.dumps(_of_type(aurora, "AWS::RDS::DBSubnetGroup"))
    if "PublicSubnet" in database_subnets:
        complaints.append("the database is in a public subnet")
    return complaints


def _kept(aurora: dict[str, Any]) -> list[str]:
    resources = aurora["Resources"]
    cluster = resources["Cluster"]["Properties"]
    conditions = {
        "the data go with the stack": resources["Cluster"].get("DeletionPolicy") == "Snapshot",
        "the data go with a replacement": resources["Cluster"].get("UpdateReplacePolicy")
        == "Snapshot",
        "the owner's login goes with the stack": is_kept(resources["OwnerSecret"]),
        "anybody may delete it": cluster.get("DeletionProtection") == {"Ref": "DeletionProtection"}
        and aurora["Parameters"]["DeletionProtection"]["Default"] == "true",
        "it is not backed up": cluster.get("BackupRetentionPeriod") == {"Ref": "BackupDays"},
        "it lies in plain text": cluster.get("StorageEncrypted") is True,
        "its log stays in it": cluster.get("EnableCloudwatchLogsExports") == ["postgresql"],
        "its log is kept for ever": resources["DatabaseLogs"]["Properties"].get("RetentionInDays")
        == {"Ref": "LogRetentionDays"}
        and resources["Cluster"].get("DependsOn") == "DatabaseLogs",
    }
    return [complaint for complaint, holds in conditions.items() if not holds]


def _server(aurora: dict[str, Any]) -> list[str]:
    group = aurora["Resources"]["ClusterParameters"]["Properties"]
    wanted = {
        "rds.force_ssl": "1",
        "ssl_min_protocol_version": "TLSv1.2",
        "password_encryption": "scram-sha-256",
        "log_error_verbosity": "terse",
        "log_min_error_statement": "panic",
        "log_statement": "none",
    }
    complaints = [
        f"{name} is {group['Parameters'].get(name)}"
        for name, value in wanted.items()
        if group["Parameters"].get(name) != value
    ]
    used = aurora["Resources"]["Cluster"]["Properties"].get("DBClusterParameterGroupName")
    if used != {"Ref": "ClusterParameters"}:
        complaints.append("the parameters are nobody's")
    major = group["Family"].removeprefix("aurora-postgresql")
    if aurora["Parameters"]["EngineVersion"]["Default"].partition(".")[0] != major:
        complaints.append("the parameters are another version's")
    return complaints


def _reaches(aurora: dict[str, Any]) -> list[str]:
    found: dict[str, tuple[str, str]] = {}
    for name, one in _of_type(aurora, "AWS::EC2::VPCEndpoint").items():
        service = one["ServiceName"]["Fn::Sub"].rpartition(".")[2]
        found[service] = (one["VpcEndpointType"], aurora["Resources"][name]["Condition"])
        if one["VpcEndpointType"] == "Interface" and one.get("PrivateDnsEnabled") is not True:
            return [f"{service} has another name inside"]
    wanted = dict.fromkeys(CALLED, ("Interface", "MakesEndpoints"))
    complaints = (
        [f"endpoints are {found}"] if found != wanted | {"s3": ("Gateway", "MakesVpc")} else []
    )
    nat = aurora["Resources"]["NatRoute"]
    if (nat["Condition"], nat["Properties"]["RouteTableId"]) != (
        "MakesNat",
        {"Ref": "PrivateRoutes"},
    ):
        complaints.append("the NAT gateway is not on the functions' way")
    return complaints


def test_every_output_is_a_parameter_of_the_stack_and_all_of_the_database_are_there(
    aurora: dict[str, Any], deployed: Deployment
) -> None:
    declared = deployed.source["Parameters"]
    wanted = {name for name in declared if name.startswith(("Database", "Vpc"))}
    assert set(aurora["Outputs"]) == wanted
    assert all(one.get("Description") for one in aurora["Outputs"].values())


def test_every_fixed_output_is_one_that_the_parameter_takes(
    aurora: dict[str, Any], deployed: Deployment
) -> None:
    declared = deployed.source["Parameters"]
    modes = aurora["Parameters"]["DatabaseSslMode"]["AllowedValues"]
    assert set(modes) <= set(declared["DatabaseSslMode"]["AllowedValues"])
    name = aurora["Parameters"]["DatabaseName"]["Default"]
    assert re.search(declared["DatabaseName"]["AllowedPattern"], name)
    bundle = aurora["Outputs"]["DatabaseSslRootCert"]["Value"]
    assert re.search(declared["DatabaseSslRootCert"]["AllowedPattern"], bundle)
    layer = ROOT / deployed.source["Resources"]["PostleaseLayer"]["Properties"]["ContentUri"]
    assert (layer / bundle.removeprefix("/opt/python/")).is_file()
    assert aurora["Parameters"]["MasterUsername"]["Default"] not in {
        "postlease_application",
        "postlease_producer",
    }


def test_the_owners_password_changes_with_nothing_that_a_running_cluster_can_follow(
    aurora: dict[str, Any],
) -> None:
    """A change of the text makes another password, which the cluster is not told."""
    generated = aurora["Resources"]["OwnerSecret"]["Properties"]["GenerateSecretString"]
    written = json.dumps(generated)
    assert set(re.findall(r"\$\{(\w+)\}", written)) == {"MasterUsername", "DatabaseName"}
    assert not re.search(r'"(Ref|Fn::(?!Sub)\w+)"', written)
    for name in ("MasterUsername", "DatabaseName"):
        assert "once and for all" in aurora["Parameters"][name]["Description"]


def test_migrate_reads_the_owners_secret_once_it_is_attached(
    aurora: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    generated = aurora["Resources"]["OwnerSecret"]["Properties"]["GenerateSecretString"]
    text = generated["SecretStringTemplate"]["Fn::Sub"]
    for name in ("MasterUsername", "DatabaseName"):
        text = text.replace(f"${{{name}}}", aurora["Parameters"][name]["Default"])
    attached = {"engine": "postgres", "host": "cluster.example.com", "port": 5432}
    attached |= {"dbClusterIdentifier": "postlease", generated["GenerateStringKey"]: "x" * 48}
    secret = json.loads(text) | attached
    monkeypatch.setattr(secret_store, "read_json", lambda *_, **__: secret)
    conninfo = database.secret_conninfo("arn", refresh=False)
    assert "host=cluster.example.com" in conninfo
    assert "sslmode=verify-full" in conninfo
    assert "sslrootcert=/opt/python/postlease/rds.pem" in conninfo


def test_nobody_reaches_the_database_but_the_functions(aurora: dict[str, Any]) -> None:
    assert _private(aurora) == []


def test_the_data_outlive_the_stack(aurora: dict[str, Any]) -> None:
    assert _kept(aurora) == []


def test_tls_is_forced_and_the_log_holds_no_rows(aurora: dict[str, Any]) -> None:
    assert _server(aurora) == []


def test_the_functions_reach_all_that_they_call(aurora: dict[str, Any]) -> None:
    assert _reaches(aurora) == []


@pytest.mark.parametrize(
    ("guard", "says", "path", "value"),
    [
        (_private, "Writer has a public", ("Writer", "Properties", "PubliclyAccessible"), True),
        (
            _private,
            "DatabaseGroup lets",
            ("DatabaseGroup", "Properties", "SecurityGroupIngress"),
            [{"IpProtocol": "tcp", "CidrIp": "0.0.0.0/0"}],
        ),
        (_private, "DatabaseGroup may", ("DatabaseGroup", "Properties", "SecurityGroupEgress"), []),
        (_kept, "the data go with the stack", ("Cluster", "DeletionPolicy"), "Delete"),
        (_kept, "anybody may", ("Cluster", "Properties", "DeletionProtection"), False),
        (_kept, "plain text", ("Cluster", "Properties", "StorageEncrypted"), False),
        (_kept, "for ever", ("DatabaseLogs", "Properties", "RetentionInDays"), None),
        (
            _server,
            "rds.force_ssl is 0",
            ("ClusterParameters", "Properties", "Parameters", "rds.force_ssl"),
            "0",
        ),
        (
            _server,
            "nobody's",
            ("Cluster", "Properties", "DBClusterParameterGroupName"),
            "default.aurora-postgresql17",
        ),
        (
            _reaches,
            "endpoints are",
            ("MailEndpoint", "Properties", "ServiceName", "Fn::Sub"),
            "com.amazonaws.${AWS::Region}.email-smtp",
        ),
        (
            _reaches,
            "another name",
            ("QueuesEndpoint", "Properties", "PrivateDnsEnabled"),
            False,
        ),
    ],
)
def test_a_broken_database_is_seen(
    guard: Callable[[dict[str, Any]], list[str]],
    says: str,
    path: tuple[str, ...],
    value: object,
    aurora: dict[str, Any],
) -> None:
    broken = copy.deepcopy(aurora)
    *parents, last = path
    place = broken["Resources"]
    for key in parents:
        place = place[key]
    place[last] = value
    assert any(says in complaint for complaint in guard(broken))


def test_the_least_aurora_has_the_connections_for_a_deployment(
    aurora: dict[str, Any], deployed: Deployment
) -> None:
    least = MAX_CONNECTIONS[aurora["Parameters"]["MaxCapacity"]["MinValue"]]
    assert least - 3 == AURORA
    assert 2 * summed(deployed) < AURORA


def test_the_page_says_the_connections_that_the_table_has(deployed: Deployment) -> None:
    told = dict(re.findall(r"^\| (\d+) \| (\d+)", PAGE, re.MULTILINE))
    assert {int(capacity): int(most) for capacity, most in told.items()} == MAX_CONNECTIONS
    assert f"opens at most {summed(deployed)}:" in PAGE


def test_the_page_lists_the_outputs(aurora: dict[str, Any]) -> None:
    table = PAGE.partition("| output |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(aurora["Outputs"])


def test_what_a_month_costs_is_added_up_from_dated_prices() -> None:
    rows = re.findall(
        r"^\| (.+?) \| ([\d.]+) \| [\w-]+ \| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.MULTILINE
    )
    assert len(rows) == 7
    cost = {part: round(float(quantity) * float(price), 2) for part, quantity, price, _ in rows}
    assert cost == {part: float(month) for part, _, _, month in rows}
    nat = sum(month for part, month in cost.items() if part.startswith("`nat`"))
    endpoints = sum(month for part, month in cost.items() if part.startswith("`endpoints`"))
    shared = sum(cost.values()) - nat - endpoints
    sums = f"{shared + endpoints:.2f} with `endpoints`, {shared + nat:.2f} with `nat`"
    assert f"Together {sums}" in PAGE
    assert re.search(r"of us-east-1 in US dollars as of [A-Z][a-z]+ 20\d\d", PAGE)
