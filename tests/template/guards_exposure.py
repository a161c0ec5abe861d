"""Guards over what outsiders can reach: routes, CORS, bucket, queue, network, links in mails."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.template.deployment import GIVEN, is_kept, written

if TYPE_CHECKING:
    from tests.template.deployment import Deployment


PUBLIC_ROUTES = {
    ("/$default", "x-amazon-apigateway-any-method", "AuthFunction"),
    ("/v1/signups", "post", "AuthFunction"),
    ("/v1/verifications/resend", "post", "AuthFunction"),
    ("/v1/password-resets", "post", "AuthFunction"),
    ("/v1/events/{event_id}", "get", "AuthFunction"),
    ("/verify", "get", "AuthFunction"),
    ("/reset", "get", "AuthFunction"),
    ("/healthz", "get", "AuthFunction"),
}

# Requests a second, and at once. What costs a mail gets less than the rest, what only reads more;
# the one that asks the database without need gets least.
LIMITS = {
    "POST /v1/signups": (10, 20),
    "POST /v1/verifications/resend": (10, 20),
    "POST /v1/password-resets": (10, 20),
    "GET /v1/events/{event_id}": (100, 200),
    "GET /verify": (50, 100),
    "GET /reset": (50, 100),
    "GET /healthz": (5, 10),
}

SIGNED_ROUTES = {
    ("/v1/messages", "post", "MessagesFunction"),
    ("/v1/messages/batch", "post", "MessagesFunction"),
    ("/v1/messages/retry", "post", "MessagesFunction"),
    ("/v1/messages", "get", "MessagesFunction"),
    ("/v1/messages/{id}", "get", "MessagesFunction"),
    ("/v1/messages/{id}/recipients", "get", "MessagesFunction"),
    ("/v1/messages/{id}/retry", "post", "MessagesFunction"),
    ("/v1/messages/{id}/cancel", "post", "MessagesFunction"),
    ("/v1/messages/{id}/resolve", "post", "MessagesFunction"),
    ("/v1/stats", "get", "MessagesFunction"),
    ("/v1/attachments", "post", "MessagesFunction"),
    ("/v1/suppressions", "get", "MessagesFunction"),
    ("/v1/suppressions", "put", "MessagesFunction"),
    ("/v1/suppressions/lookup", "post", "MessagesFunction"),
    ("/v1/suppressions/{id}", "delete", "MessagesFunction"),
    ("/v1/gates", "get", "MessagesFunction"),
    ("/v1/gates/{provider}", "get", "MessagesFunction"),
    ("/v1/gates/{provider}", "put", "MessagesFunction"),
    ("/v1/password-resets/redeem", "post", "MessagesFunction"),
    ("/v1/users/{id}", "patch", "MessagesFunction"),
    ("/v1/users/{id}", "delete", "MessagesFunction"),
    ("/v1/users/{id}/revoke-tokens", "post", "MessagesFunction"),
}

_RULES = [{"Fn::GetAtt": [rule, "Arn"]} for rule in ("FeedbackRule", "SendingStatusRule")]
WRITERS = {
    (
        "FeedbackQueuePolicy",
        '{"Service": "events.amazonaws.com"}',
        "sqs:SendMessage",
        "FeedbackQueue.Arn",
        json.dumps({"ArnEquals": {"aws:SourceArn": _RULES}}, sort_keys=True),
    )
}

# Nothing that can hold a token or an address.
LOGGED = {
    "requestId",
    "requestTime",
    "routeKey",
    "httpMethod",
    "status",
    "responseLatency",
    "integrationLatency",
    "integrationStatus",
    "integrationErrorMessage",
}


def routes(deployed: Deployment) -> list[str]:
    """The public routes are auth's and on the list; each other one is on its own, and signed."""
    body = deployed.resources["HttpApi"]["Properties"]["Body"]
    public: set[tuple[str, str, str]] = set()
    signed: set[tuple[str, str, str]] = set()
    for path, methods in body["paths"].items():
        for method, operation in methods.items():
            uri = written(operation["x-amazon-apigateway-integration"]["uri"])
            function = re.search(r"\$\{(\w+)\.Arn\}", uri)
            route = (path, method, function[1] if function else uri)
            schemes = {name for one in operation.get("security", ()) for name in one}
            (signed if schemes == {"AWS_IAM"} else public).add(route)
    complaints = [f"public route {route}" for route in sorted(public ^ PUBLIC_ROUTES)]
    complaints += [f"signed route {route}" for route in sorted(signed ^ SIGNED_ROUTES)]
    scheme = body.get("components", {}).get("securitySchemes", {}).get("AWS_IAM", {})
    if scheme.get("x-amazon-apigateway-authtype") != "awsSigv4":
        complaints.append(f"a signed route asks for {scheme}")
    return complaints


def cors(deployed: Deployment) -> list[str]:
    """Origins, methods and headers are literal lists, of strings or references to one string."""
    found = deployed.resources["HttpApi"]["Properties"]["Body"].get("x-amazon-apigateway-cors")
    if not isinstance(found, dict):
        return [f"CORS is {found}"]
    complaints = []
    for name in ("allowOrigins", "allowMethods", "allowHeaders", "exposeHeaders"):
        values = found.get(name)
        if not isinstance(values, list):
            complaints.append(f"{name} is {values}, not a list")
            continue
        for value in values:
            declared = deployed.source["Parameters"].get(written(value), {})
            if value == "*" or (not isinstance(value, str) and declared.get("Type") != "String"):
                complaints.append(f"{name} holds {value}")
    if found.get("allowOrigins") != [GIVEN["AllowedOrigin"]]:
        complaints.append("allowOrigins is not the parameter's origin")
    if found.get("allowCredentials"):
        complaints.append("credentials are allowed")
    return complaints


def stage(deployed: Deployment) -> list[str]:
    """Every route is throttled; the access log holds no path, no address and no user agent."""
    properties = deployed.resources["HttpApiApiGatewayDefaultStage"]["Properties"]
    settings = properties.get("DefaultRouteSettings", {})
    complaints = [
        f"{name} is not set"
        for name in ("ThrottlingRateLimit", "ThrottlingBurstLimit")
        if name not in settings
    ]
    complaints.extend(_limits(deployed, properties.get("RouteSettings", {})))
    access = properties.get("AccessLogSettings", {})
    if written(access.get("DestinationArn", "")) != "AccessLogs.Arn":
        complaints.append("access logs go nowhere")
    template = access.get("Format", "")
    fields = set(re.findall(r"\$context\.([A-Za-z.]+)", template))
    complaints.extend(f"$context.{field} is logged" for field in sorted(fields - LOGGED))
    if "routeKey" not in fields:
        complaints.append("routeKey is not logged")
    if template and not isinstance(json.loads(template), dict):
        complaints.append("an access log's line is not a JSON object")
    return complaints


def _limits(deployed: Deployment, settings: dict[str, Any]) -> list[str]:
    """Limits are those of the table, as numbers, and for routes that are there.

    API Gateway refuses a stage that limits an unknown route. CloudFormation takes the map as it
    is: a reference in it would arrive as a text.
    """
    paths = deployed.resources["HttpApi"]["Properties"]["Body"]["paths"]
    known = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    complaints = [f"{key}: has a limit, and is no route" for key in settings if key not in known]
    names = ("ThrottlingRateLimit", "ThrottlingBurstLimit", "DetailedMetricsEnabled")
    for key in sorted(LIMITS.keys() | (settings.keys() & known)):
        found = tuple(settings.get(key, {}).get(name) for name in names)
        if found != (*LIMITS.get(key, ()), True):
            complaints.append(f"{key}: limit {found}")
    return complaints


def bucket(deployed: Deployment) -> list[str]:
    """The bucket is versioned, encrypted, private, kept, and speaks TLS only."""
    resource = deployed.resources["AttachmentsBucket"]
    properties = resource["Properties"]
    blocks = properties.get("PublicAccessBlockConfiguration", {})
    names = ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")
    rules = properties.get("OwnershipControls", {}).get("Rules")
    lifecycle = properties.get("LifecycleConfiguration", {}).get("Rules", [])
    conditions = {
        "is not versioned": properties.get("VersioningConfiguration") == {"Status": "Enabled"},
        "is not encrypted": "BucketEncryption" in properties,
        "may be public": all(blocks.get(name) is True for name in names),
        "may have ACLs": rules == [{"ObjectOwnership": "BucketOwnerEnforced"}],
        "would go with the stack": is_kept(resource),
        "would go with a replacement": resource.get("UpdateReplacePolicy") == "Retain",
        "lets plain HTTP in": _denies_plain_text(deployed, "AttachmentsBucketPolicy"),
        "lets old TLS in": _denies_old_tls(deployed),
        "expires what messages refer to": not re.search(
            "Expiration|Transition", json.dumps(lifecycle)
        ),
        "keeps what nobody can read": _tidies(lifecycle),
    }
    return [f"the bucket {complaint}" for complaint, holds in conditions.items() if not holds]


def queues(deployed: Deployment) -> list[str]:
    """Every queue is encrypted and talks TLS only; dead letters are kept for two weeks."""
    complaints = []
    for name, queue in deployed.of_type("AWS::SQS::Queue").items():
        if queue["Properties"].get("SqsManagedSseEnabled") is not True:
            complaints.append(f"{name} is not encrypted")
        if not _denies_plain_text(deployed, f"{name}Policy"):
            complaints.append(f"{name} lets plain text in")
    complaints.extend(
        f"{name} are forgotten early"
        for name in ("DeadLetters", "FeedbackDeadLetters")
        if deployed.resources[name]["Properties"].get("MessageRetentionPeriod") != 1_209_600
    )
    complaints.extend(_writers(deployed))
    # What is in it gets old: a ring is worth nothing after minutes, and the sweep has had its mail.
    if deployed.resources["DoorbellQueue"]["Properties"].get("MessageRetentionPeriod", 0) > 900:
        complaints.append("DoorbellQueue rings for too long")
    return complaints


def _writers(deployed: Deployment) -> list[str]:
    """Nobody outside writes into a queue but EventBridge, for our own rules, into feedback's."""
    found = {
        (
            name,
            json.dumps(one["Principal"], sort_keys=True),
            written(one["Action"]),
            written(one["Resource"]),
            json.dumps(one.get("Condition", {}), sort_keys=True),
        )
        for name, policy in deployed.of_type("AWS::SQS::QueuePolicy").items()
        for one in policy["Properties"]["PolicyDocument"]["Statement"]
        if one["Effect"] == "Allow"
    }
    return [f"a queue's policy has {one}" for one in sorted(found ^ WRITERS)]


def _denies_plain_text(deployed: Deployment, policy: str) -> bool:
    if policy not in deployed.resources:
        return False
    statements = deployed.resources[policy]["Properties"]["PolicyDocument"]["Statement"]
    return any(
        one["Effect"] == "Deny"
        and one["Principal"] == "*"
        and one["Action"] in {"s3:*", "sqs:*"}
        and one["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        for one in statements
    )


def _denies_old_tls(deployed: Deployment) -> bool:
    policy = deployed.resources["AttachmentsBucketPolicy"]["Properties"]["PolicyDocument"]
    return any(
        one["Effect"] == "Deny"
        and one["Principal"] == "*"
        and one["Action"] == "s3:*"
        and one["Condition"] == {"NumericLessThan": {"s3:TlsVersion": "1.2"}}
        for one in policy["Statement"]
    )


def _tidies(lifecycle: list[dict[str, Any]]) -> bool:
    """Parts of uploads that never ended, and deletion marks with nothing behind them, leave."""
    on = [rule for rule in lifecycle if rule["Status"] == "Enabled"]
    return any(
        rule.get("AbortIncompleteMultipartUpload") == {"DaysAfterInitiation": 1} for rule in on
    ) and any(rule.get("ExpiredObjectDeleteMarker") is True for rule in on)


def tracking(deployed: Deployment) -> list[str]:
    """Nothing rewrites a link in a mail or counts who opened it, and mail travels under TLS."""
    properties = deployed.resources["ConfigurationSet"]["Properties"]
    events = [
        event
        for one in deployed.of_type("AWS::SES::ConfigurationSetEventDestination").values()
        for event in one["Properties"]["EventDestination"]["MatchingEventTypes"]
    ]
    vdm = properties.get("VdmOptions", {}).get("DashboardOptions", {})
    conditions = {
        "clicks or opens are tracked": not {event.upper() for event in events} & {"CLICK", "OPEN"},
        "links go over a tracking domain": "TrackingOptions" not in properties,
        "engagement is measured": vdm.get("EngagementMetrics") == "DISABLED",
        "TLS is optional": properties.get("DeliveryOptions") == {"TlsPolicy": "REQUIRE"},
        "complaints suppress": properties.get("SuppressionOptions")
        == {"SuppressedReasons": ["BOUNCE"]},
    }
    return [complaint for complaint, holds in conditions.items() if not holds]


def network(deployed: Deployment) -> list[str]:
    """Every function joins the VPC when one is given, or none does."""
    return [
        f"{name} does not follow the VPC parameters"
        for name, properties in deployed.functions().items()
        if properties.get("VpcConfig", {}).get("Fn::If", [None])[0] != "InVpc"
    ]
