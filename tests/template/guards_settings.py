"""Guards over what the functions are told: environment, defaults, times, secrets."""

from __future__ import annotations

import itertools
import json
import re
from typing import TYPE_CHECKING, Any

from postlease.config import read_settings
from postlease.errors import ConfigurationError
from postlease.tokens import KeyRing
from tests.template.configuration import known_variables
from tests.template.deployment import GIVEN, is_kept, written

if TYPE_CHECKING:
    from tests.template.deployment import Deployment


DEFAULTS = {
    "STAGE": "dev",
    "MAIL_PROVIDER": "ses",
    "CALL_BUDGET_SECONDS": "20",
    "CONNECT_TIMEOUT_SECONDS": "2",
    "READ_TIMEOUT_SECONDS": "10",
    "LEASE_SECONDS": "45",
    "UNKNOWN_GRACE_SECONDS": "120",
    "START_MARGIN_SECONDS": "3",
    "CALLER_MARGIN_SECONDS": "30",
    "SWEEP_TIMEOUT_SECONDS": "90",
    "SWEEP_LINGER_SECONDS": "65",
    "SEND_SLOTS": "10",
    "SENDS_PER_SECOND": "0",
    "MAX_ATTEMPTS": "5",
    "VERIFY_TOKEN_SECONDS": "86400",
    "VERIFY_CODES": "off",
    "VERIFY_REDIRECT_URLS": "",
    "RESET_TOKEN_SECONDS": "3600",
    "RESET_URL": "",
    "SIGNUP_COOLDOWN_SECONDS": "60",
    "MAILBOX_LIMIT_PER_HOUR": "5",
    "MAILBOX_LIMIT_PER_DAY": "20",
    "CLIENT_LIMIT_PER_MINUTE": "30",
    "CLIENT_LIMIT_PER_HOUR": "300",
    "IDEMPOTENCY_SECONDS": "86400",
    "RETENTION_SECONDS": "7776000",
    "RETENTION_MODE": "delete",
    "REDACTION_SECONDS": "604800",
    "ARCHIVE_SECONDS": "315360000",
}

POWERTOOLS = {
    "POWERTOOLS_SERVICE_NAME": "ref:AWS::StackName",
    "POWERTOOLS_METRICS_NAMESPACE": "Postlease",
}


_DOORBELL = dict.fromkeys(("AuthFunction", "MessagesFunction"), "ref:DoorbellQueue")


def environments(deployed: Deployment) -> list[str]:
    """Every function's environment can be read, and holds nothing that nobody reads."""
    complaints = []
    for name in deployed.functions():
        variables = deployed.environment(name)
        try:
            read_settings(variables)
        except ConfigurationError as error:
            complaints.append(f"{name}: {error}")
        complaints.extend(
            f"{name}: nobody reads {variable}"
            for variable in sorted(variables.keys() - known_variables() - POWERTOOLS.keys())
        )
        complaints.extend(
            f"{name}: {variable} is not {wanted}"
            for variable, wanted in POWERTOOLS.items()
            if variables.get(variable) != wanted
        )
        if (variables.get("DATABASE_OWNER_SECRET_ARN") is not None) != (name == "MigrateFunction"):
            complaints.append(
                f"{name}: DATABASE_OWNER_SECRET_ARN is migrate's, and migrate's alone"
            )
        if variables.get("DOORBELL_QUEUE_URL") != _DOORBELL.get(name):
            complaints.append(f"{name}: DOORBELL_QUEUE_URL is for the API's functions alone")
    return complaints


def defaults(deployed: Deployment) -> list[str]:
    """Every default of the design stands in the template itself, for every function."""
    return [
        f"{name}: {variable} is {found.get(variable)}, not {wanted}"
        for name in deployed.functions()
        for found in [deployed.environment(name)]
        for variable, wanted in DEFAULTS.items()
        if found.get(variable) != wanted
    ]


def times(deployed: Deployment) -> list[str]:
    """The time rules hold for the defaults and for every extreme that the parameters allow."""
    declared = deployed.source["Parameters"]
    leases = [str(declared["LeaseSeconds"][bound]) for bound in ("MinValue", "MaxValue", "Default")]
    graces = [
        str(declared["UnknownGraceSeconds"][bound]) for bound in ("MinValue", "MaxValue", "Default")
    ]
    complaints: list[str] = []
    for lease, grace in itertools.product(leases, graces):
        variables = deployed.environment(
            "SweepFunction", LeaseSeconds=lease, UnknownGraceSeconds=grace
        )
        try:
            rules = read_settings(variables).times.broken_rules(bounded_lease=True)
        except ConfigurationError as error:
            rules = [str(error)]
        complaints.extend(f"lease {lease}, grace {grace}: {rule}" for rule in rules)
    for name in deployed.functions():
        sweep_timeout = deployed.environment(name)["SWEEP_TIMEOUT_SECONDS"]
        actual = deployed.functions()["SweepFunction"]["Timeout"]
        if sweep_timeout != str(actual):
            complaints.append(
                f"{name}: SWEEP_TIMEOUT_SECONDS is {sweep_timeout}, the Timeout {actual}"
            )
    stated = deployed.environment("DoorbellFunction")
    timeout = deployed.functions()["DoorbellFunction"]["Timeout"]
    if not float(stated["CALL_BUDGET_SECONDS"]) + float(stated["START_MARGIN_SECONDS"]) < timeout:
        complaints.append(f"DoorbellFunction: no call ever starts in {timeout} seconds")
    if not timeout <= float(stated["SWEEP_TIMEOUT_SECONDS"]):
        complaints.append(
            "DoorbellFunction: outlives the sweep, whose timeout the grace is made for"
        )
    complaints.extend(
        f"{name}: API Gateway gives up after 30 seconds"
        for name in ("AuthFunction", "MessagesFunction")
        if not deployed.functions()[name]["Timeout"] < 30
    )
    return complaints


def secrets(deployed: Deployment) -> list[str]:
    """Every secret is generated, and the code can use it from the first deploy on."""
    complaints: list[str] = []
    for name, resource in deployed.of_type("AWS::SecretsManager::Secret").items():
        generated = resource["Properties"].get("GenerateSecretString")
        if generated is None:
            complaints.append(f"{name}: is not generated")
            continue
        text = "x" * generated.get("PasswordLength", 32)
        if name == "PepperSecret" and len(text) < 43:
            complaints.append(f"{name}: {len(text)} characters are too few")
        if name != "DatabaseSecret" and not is_kept(resource):
            complaints.append(f"{name}: would go with the stack")
        if name == "TokenKeysSecret":
            key = {generated["GenerateStringKey"]: text}
            try:
                KeyRing.from_secret(json.loads(generated["SecretStringTemplate"]) | key)
            except ConfigurationError as error:
                complaints.append(f"{name}: {error}")
        if name == "DatabaseSecret":
            complaints.extend(_database_secret(deployed, generated, text))
    return complaints


def _database_secret(deployed: Deployment, generated: dict[str, Any], text: str) -> list[str]:
    """The application's login in both shapes: with a root certificate and without."""
    login = {
        "host": "database.example.com",
        "port": "5432",
        "dbname": "postlease",
        "username": "postlease_application",
        "password": text,
    }
    bundle = {"sslrootcert": "/etc/pki/tls/certs/ca-bundle.crt"}
    wanted = {
        "verify-full": login | {"sslmode": "verify-full"} | bundle,
        "require": login | {"sslmode": "require"},
    }
    choice = generated["SecretStringTemplate"].get("Fn::If", ["", "{}", "{}"])
    complaints = [] if choice[0] == "VerifiesDatabase" else ["DatabaseSecret: has one shape"]
    for template, (mode, fields) in zip(choice[1:], wanted.items(), strict=True):
        given = GIVEN | {"DatabaseSslMode": mode}
        filled = written(template)
        for name in re.findall(r"\$\{(\w+)\}", filled):
            filled = filled.replace(f"${{{name}}}", deployed.parameter(name, given) or "?")
        found = json.loads(filled) | {generated["GenerateStringKey"]: text}
        if found != fields:
            complaints.append(f"DatabaseSecret: fields are {sorted(found)}")
    return complaints
