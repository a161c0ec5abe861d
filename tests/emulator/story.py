"""The story of one stack: deployed, used, updated, an update refused, removed.

Each step looks for itself and prints what it saw; the first that does not see what it should ends
the story with StageError. No figure is written down here that the run does not measure.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from local.stack import ROOT
from tests.emulator.project import HEADER, Release, copy_project
from tests.emulator.stage import STACK
from tests.emulator.usage import Usage
from tests.emulator.watch import Watch

if TYPE_CHECKING:
    from datetime import datetime


class Story(Usage):
    """One stack's life."""

    def tell(self) -> None:
        """All of it, in order."""
        self.deploy()
        self.call()
        self.sign_up()
        self.who_sent(self.sweep())
        self.mend(self.refuse(self.update()))
        self.delete()

    def deploy(self) -> None:
        """`sam deploy` of this template, and the migrations that its custom resource ran."""
        project = copy_project(ROOT, self._folder / "first")
        self._build(project)
        began = time.monotonic()
        self._deploy(project, expect=0)
        state = self._expect_status("CREATE_COMPLETE")
        resources = self._cloud.resources(STACK)
        took = time.monotonic() - began
        self._say(f"sam deploy: {state}, {len(resources)} resources in {took:.0f} s")
        ledger = self._witness.ledger()
        files = {str(path.relative_to(ROOT / "sql")) for path in (ROOT / "sql").glob("*/*.sql")}
        self._check(set(ledger) == files, f"the ledger holds {sorted(ledger)}")
        order = self._finished_in_order()
        after = [name for name in order[order.index("Migrations") :] if name.endswith("Function")]
        before = [name for name in order[: order.index("Migrations")] if name.endswith("Function")]
        self._check(before == ["MigrateFunction"], f"made before the migrations: {before}")
        self._say(f"migrations: {len(ledger)} files applied, then {len(after)} functions made")
        self._mend()

    def update(self) -> Release:
        """A release with a migration and with code that needs it: the migration comes first."""
        release = Release(ROOT, self._folder / "update", f"r{secrets.token_hex(4)}")
        self._build(release.folder)
        with Watch(lambda: self._call("GET", "/healthz")) as watch:
            self._deploy(release.folder, expect=0)
            self._mend()
            self._until(lambda: watch.newest(HEADER) is not None, "the new code never answered")
        state = self._expect_status("UPDATE_COMPLETE")
        applied = self._witness.ledger()[release.migration]
        answers = watch.answers
        old = [answer for answer in answers if HEADER not in answer.headers]
        new = [answer for answer in answers if HEADER in answer.headers]
        failed = [answer for answer in answers if answer.status != 200]
        self._check(not failed, f"answers during the update: {failed[:3]}")
        self._check(
            {answer.headers[HEADER] for answer in new} == {f"{release.name} {release.name}"},
            f"new answers: {new[:3]}",
        )
        self._check(bool(old), "the old code was never seen to serve during the update")
        self._check(answers == [*old, *new], "the old code answered after the new")
        order = self._finished_in_order()
        self._check(
            order.index("Migrations") < order.index("AuthFunction"), f"updated in order {order}"
        )
        self._say(
            f"update: {state}; {release.migration} applied {applied:%H:%M:%S}; meanwhile "
            f"{len(old)} answers of the old code, then {len(new)} of {release.name}, "
            f"{len(failed)} failed"
        )
        return release

    def refuse(self, serving: Release) -> Release:
        """A release whose second migration is refused: the release before serves on."""
        code, ledger, tables = self._state()
        broken = Release(
            serving.folder, self._folder / "broken", f"r{secrets.token_hex(4)}", refused=True
        )
        self._build(broken.folder)
        with Watch(lambda: self._call("GET", "/healthz")) as watch:
            self._deploy(broken.folder, expect=1)
            self._mend()
        state = self._expect_status("UPDATE_ROLLBACK_COMPLETE")
        reason = self._failure_of("Migrations")
        self._check(broken.refused in reason, f"the migrations failed of {reason}")
        after = self._state()
        self._check(after[0] == code, f"the code was {code}, is {after[0]}")
        new = {name for name in after[1].keys() - ledger.keys() if name.startswith("migrations/")}
        self._check(new == {broken.migration}, f"applied of the refused release: {new}")
        self._check(set(after[2]) - set(tables) == {broken.table}, f"tables: {after[2]}")
        last = self._call("GET", "/healthz")
        served = {answer.headers.get(HEADER) for answer in (*watch.answers, last)}
        self._check(served == {f"{serving.name} {serving.name}"}, f"served meanwhile: {served}")
        self._say(
            f'refused: {state}, "{reason}"; of {broken.name} the database keeps '
            f"{', '.join(new)} alone; {serving.name} gave all {len(watch.answers) + 1} answers"
        )
        self.sign_up()
        return broken

    def mend(self, broken: Release) -> None:
        """The same release with its migration mended: the next deploy goes through."""
        broken.mend()
        self._build(broken.folder)
        self._deploy(broken.folder, expect=0)
        self._mend()
        state = self._expect_status("UPDATE_COMPLETE")
        self._until(
            lambda: (
                self._call("GET", "/healthz").headers.get(HEADER) == f"{broken.name} {broken.name}"
            ),
            f"{broken.name} does not serve",
        )
        self._check(broken.refused in self._witness.ledger(), "the mended migration did not run")
        self._say(f"mended: {state}, {broken.refused} applied, {broken.name} serves")

    def _state(self) -> tuple[dict[str, str], dict[str, datetime], list[str]]:
        """What runs and what the database holds: code by function, ledger, tables."""
        return self._cloud.code_of(STACK), self._witness.ledger(), self._witness.tables()

    def delete(self) -> None:
        """`sam delete`: the stack goes; the data and what the links in mails need do not."""
        counts = self._witness.counts()
        kept = self._kept_by_policy()
        bucket = self._cloud.outputs(STACK)["AttachmentsBucketName"]
        self._cloud.client("s3").put_object(Bucket=bucket, Key="attachments/shared/a", Body=b"a")
        status, said = self._sam.run(ROOT, "delete", "--stack-name", STACK, "--no-prompts")
        self._check(status == 0, f"sam delete said {said[-2000:]}")
        self._check(not self._stack_exists(), "the stack is still there")
        self._check(self._witness.counts() == counts, f"rows: {self._witness.counts()}")
        objects = self._cloud.client("s3").list_objects_v2(Bucket=bucket)["KeyCount"]
        still = [name for name, (kind, found) in kept.items() if self._exists(kind, found)]
        self._check(still == list(kept), f"kept: {still}, to be kept: {list(kept)}")
        left = self._cloud.client("lambda").list_functions()["Functions"]
        self._check(not left, f"functions left: {[item['FunctionName'] for item in left]}")
        rows = ", ".join(f"{number} {name}" for name, number in counts.items())
        self._say(f"sam delete: {len(left)} functions left; in the database still {rows}")
        self._say(f"kept: {', '.join(still)}; {objects} object in the bucket")
