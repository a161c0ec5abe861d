"""`make emulator`: an empty account and a database, for whoever follows docs/deploy.md by hand.

It prints what to set and to type, mends the emulator's gaps in every stack that appears, and
gives the API a URL that a resolver knows, until Ctrl-C.
"""

from __future__ import annotations

import contextlib
import http.client
import json
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError

from local.web import Front, Request, Response
from tests.emulator.project import architecture, python_folder
from tests.emulator.routes import Shim
from tests.emulator.stage import DOMAIN, ORIGIN, STACK

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from tests.emulator.account import Account
    from tests.emulator.cloud import Cloud

_PAUSE_SECONDS = 1.0
_SETTLED = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")
_HOP_BY_HOP = {"host", "connection", "content-length", "transfer-encoding", "expect"}

_WELCOME = """\
An empty AWS account on port {port}, PostgreSQL {version} on port {database_port}; until Ctrl-C.

In another terminal, in this folder:

export AWS_ENDPOINT_URL={endpoint} AWS_DEFAULT_REGION={region} \\
    AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test SAM_CLI_TELEMETRY=0 \\
    PATH="$PWD/.venv-sam/bin:{python}:$PATH"
aws secretsmanager create-secret --name postlease-owner --secret-string '{secret}'
aws sesv2 create-email-identity --email-identity {domain}
sam build && sam deploy --guided

Answer with these, and with Enter where nothing stands here:
{answers}
  DatabaseOwnerSecretArn  the ARN that create-secret answered
"""

_READY = """\
{stack} is {state}. Routes made: {routes}. Then:

export API_URL={url}
curl -i "$API_URL/v1/signups" -H 'content-type: application/json' -d '{{"email": "you@{domain}"}}'
curl -s {endpoint}/_ministack/ses/messages
"""


class ByHand:
    """Watches the account while somebody deploys into it."""

    def __init__(self, account: Account, say: Callable[[str], None]) -> None:
        self._account = account
        self._cloud = account.emulator.cloud
        self._say = say
        self._shim = Shim(self._cloud, STACK)
        self._told = ""

    def welcome(self) -> str:
        """What to type before and while one deploys."""
        environment = self._cloud.environment
        answers = {
            "Architecture": architecture(),
            "FromAddress": f"no-reply@{DOMAIN}",
            "PublicUrl": f"https://mail.{DOMAIN}",
            "AllowedOrigin": ORIGIN,
            **self._account.parameters(""),
        }
        del answers["DatabaseOwnerSecretArn"]
        return _WELCOME.format(
            port=self._account.emulator.port,
            version=self._account.server_version,
            database_port=self._account.front.port,
            endpoint=environment["AWS_ENDPOINT_URL"],
            region=environment["AWS_DEFAULT_REGION"],
            domain=DOMAIN,
            secret=json.dumps(self._account.login),
            python=python_folder(),
            answers="\n".join(f"  {name:<22}  {value}" for name, value in answers.items()),
        )

    def watch(self, ended: threading.Event) -> None:
        """Mend every stack that has settled, until ended is set."""
        front = Front(lambda request: forward(self._cloud, request))
        try:
            while not ended.wait(_PAUSE_SECONDS):
                # No stack yet, or one that is being changed: the next look finds it.
                with contextlib.suppress(ClientError, BotoCoreError, KeyError):
                    self._look(f"http://{front.address}")
        finally:
            front.close()

    def _look(self, url: str) -> None:
        stack = self._cloud.stack(STACK)
        state = str(stack["StackStatus"])
        moment = f"{state} {stack.get('LastUpdatedTime') or stack['CreationTime']}"
        if state not in _SETTLED or moment == self._told:
            return
        made = self._shim.routes()
        self._shim.sources()
        self._told = moment
        self._say(
            _READY.format(
                stack=STACK,
                state=state,
                routes=len(made),
                url=url,
                domain=DOMAIN,
                endpoint=self._cloud.url,
            )
        )


def forward(cloud: Cloud, request: Request) -> Response:
    """The deployed API's answer: its host's name, which no resolver knows, is sent to loopback."""
    try:
        host = urlsplit(cloud.outputs(STACK)["ApiUrl"]).netloc
    except (ClientError, KeyError):
        return Response(503, b"no stack\n", (("content-type", "text/plain"),))
    headers = {name: value for name, value in request.headers if name.lower() not in _HOP_BY_HOP}
    place = urlsplit(cloud.url)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)
    try:
        connection.request(
            request.method, request.target, request.body or None, {**headers, "Host": host}
        )
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in _HOP_BY_HOP]
    return Response(answer.status, body, tuple(kept))
