"""What every step of the story does: deploy, mend the emulator's gaps, call, wait, look."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from tests.emulator.project import architecture
from tests.emulator.routes import Shim

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.emulator.cloud import Answer, Cloud
    from tests.emulator.project import Sam
    from tests.emulator.witness import Witness

STACK = "postlease"
DOMAIN = "example.com"
ORIGIN = "https://app.example.com"
PUBLIC_URL = "https://mail.example.com"
_SECONDS = 60.0
_PAUSE_SECONDS = 0.3


class StageError(Exception):
    """A step did not see what it should; the text says what it saw."""


class Stage:
    """One stack under way. given are the parameters that only this run knows.

    Copies of the project go to folder.
    """

    def __init__(
        self,
        cloud: Cloud,
        sam: Sam,
        witness: Witness,
        folder: Path,
        *,
        given: dict[str, str],
        say: Callable[[str], None],
    ) -> None:
        self._cloud = cloud
        self._sam = sam
        self._witness = witness
        self._folder = folder
        self._say = say
        self._shim = Shim(cloud, STACK)
        self._parameters = {
            "Architecture": architecture(),
            "FromAddress": f"no-reply@{DOMAIN}",
            "PublicUrl": PUBLIC_URL,
            "AllowedOrigin": ORIGIN,
            **given,
        }

    def _deploy(self, project: Path, *, expect: int) -> str:
        """`sam deploy` with the parameters as its user gives them; what it said."""
        given = [f"{name}={value}" for name, value in self._parameters.items()]
        status, said = self._sam.run(
            project,
            "deploy",
            "--no-confirm-changeset",
            "--no-progressbar",
            "--parameter-overrides",
            *given,
        )
        self._check(status == expect, f"sam deploy ended {status} and said {said[-2000:]}")
        return said

    def _build(self, project: Path) -> None:
        status, said = self._sam.run(project, "build")
        self._check(status == 0, f"sam build said {said[-2000:]}")

    def _mend(self) -> None:
        """Make good what the emulator leaves out; says so when it was left out."""
        made = self._shim.routes()
        numbers = self._shim.sources()
        if made:
            signed = sum(route.iam for route in made)
            sources = ", ".join(f"{name} {number}" for name, number in numbers.items())
            self._say(
                f"shim: {len(made)} routes of the template made ({signed} for signed calls); "
                f"concurrency set: {sources}"
            )

    def _call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        signed: bool = False,
    ) -> Answer:
        url = self._cloud.outputs(STACK)["ApiUrl"]
        return self._cloud.call(url, method, path, body, headers=headers, signed=signed)

    def _mail_to(self, address: str) -> dict[str, Any]:
        """The one mail that SES took for address."""
        found = [mail for mail in self._cloud.mails() if address in mail["To"]]
        self._check(len(found) == 1, f"SES took {len(found)} mails for one address")
        return found[0]

    def _expect_status(self, wanted: str) -> str:
        found = str(self._cloud.stack(STACK)["StackStatus"])
        self._check(found == wanted, f"the stack is {found}")
        return found

    def _finished_in_order(self) -> list[str]:
        """The resources that the newest deployment has finished, in the order of their ends."""
        newest: list[str] = []
        for event in self._cloud.events(STACK):
            status = event["ResourceStatus"]
            if event["LogicalResourceId"] == STACK and status.endswith("_IN_PROGRESS"):
                newest = []
            elif status in {"CREATE_COMPLETE", "UPDATE_COMPLETE"}:
                newest.append(event["LogicalResourceId"])
        return newest

    def _failure_of(self, logical_id: str) -> str:
        """Why a resource failed the last time."""
        reasons = [
            str(event.get("ResourceStatusReason"))
            for event in self._cloud.events(STACK)
            if event["LogicalResourceId"] == logical_id
            and event["ResourceStatus"].endswith("_FAILED")
        ]
        self._check(bool(reasons), f"{logical_id} never failed")
        return reasons[-1]

    def _kept_by_policy(self) -> dict[str, tuple[str, str]]:
        """What the template says stays: type and physical id by logical id."""
        resources = self._cloud.resources(STACK)
        template = self._cloud.processed_template(STACK)["Resources"]
        return {
            name: (resource["Type"], resources[name])
            for name, resource in template.items()
            if resource.get("DeletionPolicy", "Delete").startswith("Retain") and name in resources
        }

    def _exists(self, kind: str, physical_id: str) -> bool:
        try:
            match kind:
                case "AWS::S3::Bucket":
                    self._cloud.client("s3").head_bucket(Bucket=physical_id)
                case "AWS::SecretsManager::Secret":
                    self._cloud.client("secretsmanager").get_secret_value(SecretId=physical_id)
                case _:
                    raise StageError(f"nobody knows how to look for a kept {kind}")
        except ClientError:
            return False
        return True

    def _stack_exists(self) -> bool:
        try:
            return bool(self._cloud.stack(STACK)["StackStatus"] != "DELETE_COMPLETE")
        except ClientError:
            return False

    def _until(
        self, holds: Callable[[], bool], otherwise: str, *, seconds: float = _SECONDS
    ) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            self._check(time.monotonic() < deadline, f"{otherwise} after {seconds:.0f} s")
            time.sleep(_PAUSE_SECONDS)

    @staticmethod
    def _check(holds: bool, otherwise: str) -> None:
        if not holds:
            raise StageError(otherwise)
