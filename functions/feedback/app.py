"""SES events, from EventBridge through SQS: each is noted by itself, in whatever order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from postlease import database, feedback, telemetry
from postlease.config import settings
from postlease.errors import PostleaseError

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

SETTINGS = settings()


@telemetry.logger.inject_lambda_context(clear_state=True, log_event=False)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, list[dict[str, str]]]:
    """Answer the records that SQS is to deliver again: those that the database did not take."""
    account = context.invoked_function_arn.split(":")[4]
    notes = database.application("feedback")
    taken: list[feedback.Taken] = []
    failures = []
    for record in event["Records"]:
        try:
            taken.append(feedback.take(SETTINGS, notes, record.get("body"), account=account))
        except PostleaseError as error:
            failures.append({"itemIdentifier": record["messageId"]})
            telemetry.logger.warning("event not noted", extra={"error": str(error)})
    telemetry.emit(
        {
            "EventsSettled": sum(one.settled for one in taken),
            "EventsIgnored": sum(one.word == "ignored" for one in taken),
            "EventsFailed": len(failures),
            "Bounces": sum(one.bounced for one in taken),
            "Complaints": sum(one.complained for one in taken),
            "Suppressions": sum(one.suppressed for one in taken),
        },
        samples={
            "HardBounced": [
                float(one.bounced_hard) for one in taken if one.bounced_hard or one.delivered
            ],
            "Complained": [
                float(one.complained) for one in taken if one.complained or one.delivered
            ],
        },
    )
    return {"batchItemFailures": failures}
