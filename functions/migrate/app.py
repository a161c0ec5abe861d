"""Before new code runs: bring the database to what sql/ says, and let the application log in.

A CloudFormation custom resource; every path answers CloudFormation, which otherwise waits for an
hour. Deleting the stack destroys nothing. Invoked by hand, without a ResponseURL, it just migrates.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from datetime import timedelta
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from postlease import database, migrations, secret_store, telemetry
from postlease.config import settings
from postlease.errors import ConfigurationError, PostleaseError

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

PHYSICAL_ID = "postlease-migrations"
SQL_PACKAGE = "postlease_sql"
ANSWER_SECONDS = 10
ANSWER_TRIES = 3
ANSWER_PAUSE_SECONDS = 2.0
LONGEST_REASON = 1000
"""CloudFormation takes 4096 bytes in all, and waits on when there are more."""

TO_ANSWER = timedelta(seconds=60)


@telemetry.logger.inject_lambda_context(clear_state=True, log_event=False)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Migrate, unless the stack is being deleted; answer the names of the files that ran."""
    try:
        request = event.get("RequestType")
        # CloudFormation rolls back by an Update, too: to the files of before, on a database that
        # has later ones. The old code works on those; a failure would leave the stack stuck. An
        # invocation by hand brings a new password, then as before. Only a new stack may not.
        ran = [] if request == "Delete" else _migrate(context, accept_newer=request != "Create")
    except Exception as error:
        known = isinstance(error, PostleaseError)
        reason = str(error) if known else type(error).__name__
        telemetry.logger.error("migration failed", extra={"reason": reason})
        if "ResponseURL" not in event:
            raise
        _respond(event, context, status="FAILED", reason=reason)
        return {"failed": reason}
    if "ResponseURL" in event:
        _respond(event, context, status="SUCCESS", reason="")
    return {"ran": ran}


def _migrate(context: LambdaContext, *, accept_newer: bool) -> list[str]:
    # Not at import: a wrong setting too must be told to whoever waits at the ResponseURL.
    # As it is now: who calls by hand has just changed it, and this process may know it from before.
    secret = secret_store.read_json(settings().database_secret_arn, refresh=True)
    password = secret.get("password")
    named = secret.get("username") == migrations.APPLICATION_ROLE
    if not (named and isinstance(password, str) and password):
        raise ConfigurationError(
            f"the application's database secret must be for {migrations.APPLICATION_ROLE}"
        )
    # The other modes ask nobody; "system" is no file.
    verifies = str(secret.get("sslmode")).startswith("verify")
    authorities = secret.get("sslrootcert") or "system"
    if verifies and authorities != "system" and not Path(authorities).is_file():
        raise ConfigurationError("DatabaseSslRootCert names no file that the functions have")
    connection = database.owner().connection()
    if secret.get("dbname") != connection.info.dbname:
        raise ConfigurationError(
            "DatabaseName is another database than the owner's secret names as dbname"
        )
    # Whoever waits at the ResponseURL must be answered before the platform ends this process.
    left = timedelta(milliseconds=context.get_remaining_time_in_millis())
    ran = migrations.migrate(
        connection,
        resources.files(SQL_PACKAGE),
        patience=max(left - TO_ANSWER, timedelta()),
        accept_newer=accept_newer,
    )
    migrations.set_application_password(connection, password)
    telemetry.logger.info("migrated", extra={"ran": ran})
    return ran


def _respond(event: dict[str, Any], context: LambdaContext, *, status: str, reason: str) -> None:
    """Tell CloudFormation, at the presigned address that it gave."""
    body = {
        "Status": status,
        "Reason": reason[:LONGEST_REASON] or f"see log stream {context.log_stream_name}",
        "PhysicalResourceId": event.get("PhysicalResourceId", PHYSICAL_ID),
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
    }
    request = urllib.request.Request(  # noqa: S310 - CloudFormation's own URL
        event["ResponseURL"],
        data=json.dumps(body).encode(),
        method="PUT",
        headers={"Content-Type": ""},  # the presigned address covers an empty type
    )
    for tries_left in reversed(range(ANSWER_TRIES)):
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS):  # noqa: S310 - as above
                return
        except OSError as error:
            # Nobody asks again: an answer that is lost is a deployment that waits and then fails.
            refused = isinstance(error, urllib.error.HTTPError) and error.code < 500
            if refused or not tries_left:
                raise
            telemetry.logger.warning(
                "the answer was not taken", extra={"reason": type(error).__name__}
            )
            time.sleep(ANSWER_PAUSE_SECONDS)
