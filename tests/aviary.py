"""The product under watch: what a test asks of it is searched for canaries when the test ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests import arrange
from tests.canaries import CODE, LINK, LOG_LINE_PREFIX, Canaries, Person, entries
from tests.e2e import conftest

if TYPE_CHECKING:
    from pathlib import Path

    from local import postgres
    from local.stack import Stack
    from postlease.database import Connection
    from tests.e2e.conftest import Answer

OURS = "the_test"
"""The application name of a test's own statements, which the search leaves out."""

LOUD = {
    "log_line_prefix": LOG_LINE_PREFIX,
    "log_timezone": "UTC",
    "log_statement": "all",
    "log_duration": "on",
    "log_min_duration_statement": "0",
    "log_parameter_max_length": "-1",
    "log_parameter_max_length_on_error": "-1",
    "log_lock_waits": "on",
    "log_connections": "on",
}
"""A server that tells as much as an operator may have it tell."""


@dataclass
class Aviary:
    """The product under watch: what a test asks of it is kept, and searched when the test ends."""

    stack: Stack
    server: postgres.Server
    owner: Connection
    canaries: Canaries
    refusals: list[str] = field(default_factory=list)
    successes: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    domains: set[str] = field(default_factory=set)
    read: dict[str, int] = field(default_factory=dict)
    """How much of each log was searched by the tests before, whose canaries were others."""

    def person(self) -> Person:
        """Somebody whom nobody knows yet."""
        person = self.canaries.person()
        self.domains.add(person.domain)
        return person

    def ask(
        self, method: str, target: str, body: Any = None, /, *, status: int, **headers: str
    ) -> Answer:
        """The answer to an unsigned request; it must have that status."""
        url = f"{self.stack.url}{target}"
        return self._kept(conftest.ask(url, method, body, **headers), status)

    def signed(
        self, method: str, target: str, body: Any = None, /, *, status: int, **headers: str
    ) -> Answer:
        """The same, signed."""
        return self._kept(conftest.signed(self.stack, method, target, body, **headers), status)

    def try_out(
        self, method: str, target: str, body: Any, /, *, is_signed: bool, **headers: str
    ) -> None:
        """A request in both forms if there are two, whatever is answered but a failure."""
        url = f"{self.stack.url}{target}"
        answers = [conftest.ask(url, method, body, **headers)]
        if is_signed:
            answers.append(conftest.signed(self.stack, method, target, body, **headers))
        for answer in answers:
            self._kept(answer, min(answer.status, 499))

    def _kept(self, answer: Answer, status: int) -> Answer:
        text = f"{answer.headers}\n{answer.body.decode()}"
        (self.refusals if answer.status >= 400 else self.successes).append(text)
        assert answer.status == status, "an unexpected answer"
        return answer

    def sweep(self, fault: Any = "accept", **more: Any) -> None:
        """Run a sweep, its calls met with fault; the gate is open again afterwards."""
        self.stack.set_faults(fault, **more)
        self.run("sweep")
        self.stack.set_faults("accept")
        self.owner.execute("DELETE FROM postlease.provider_gates")

    def run(self, function: str, event: Any = None) -> Any:
        """Run a function and keep its result, which may be an error."""
        result = self.stack.run(function, event)
        self.results.append(result.payload.decode())
        return result

    def mails(self, person: Person) -> list[str]:
        """The texts of the mails to person, whose tokens and codes are canaries from now on."""
        texts = [m["text"] for m in self.stack.inbox() if person.address in m["to"]]
        for text in texts:
            self.canaries.words.update(LINK.findall(text))
            self.canaries.codes.update(CODE.findall(text))
        return texts

    def tokens(self, person: Person) -> list[str]:
        """What the links in the mails to person carry."""
        return [token for text in self.mails(person) for token in LINK.findall(text)]

    def sign_up(self, **headers: str) -> tuple[Person, str, str]:
        """Somebody who signed up and got the mail, whose user id, and the link's token."""
        person = self.person()
        body = {"email": person.address, "locale": "en"}
        answer = self.ask("POST", "/v1/signups", body, status=202, **headers)
        self.sweep()
        return person, answer.json["user_id"], self.tokens(person)[-1]

    def enqueue(self, **arguments: Any) -> Any:
        """The id of a receipt to somebody, with their name and address in its parameters."""
        person = self.person()
        given = {"order_number": person.name, "total": person.address}
        wish = {"to": [person.address], "parameters": given, **arguments}
        return arrange.enqueue(self.owner, **wish)[0]

    def forget(self) -> None:
        """Search for nothing that was made so far."""
        self.canaries.words.clear()
        self.canaries.codes.clear()

    def check(self) -> None:
        """Fail on any canary that flew out."""
        self.check_product()
        told = entries(self._new(self.server.log), but_of=OURS)
        assert any("user=postlease_application" in entry for entry in told)
        self._nothing_in("".join(told))

    def check_product(self) -> None:
        """The same for all but PostgreSQL's log."""
        for text in (*self.refusals, *self.results):
            self._nothing_in(text)
        for text in self.successes:
            # A masked address has its domain.
            self._nothing_in(text, but=frozenset(self.domains))
        logs = {path.name: self._new(path) for path in self._logs()}
        assert {"auth.log", "messages.log", "sweep.log", "aws.log"} <= logs.keys()
        for text in logs.values():
            self._nothing_in(text)

    def done(self) -> None:
        """Search what was written until now no more."""
        for path in (*self._logs(), self.server.log):
            self.read[path.name] = path.stat().st_size

    def _logs(self) -> list[Path]:
        return list(self.stack.log_folder.glob("*.log"))

    def _new(self, path: Path) -> str:
        return path.read_bytes()[self.read.get(path.name, 0) :].decode()

    def _nothing_in(self, text: str, *, but: frozenset[str] = frozenset()) -> None:
        if found := self.canaries.found_in(text, but=but):
            seen = Canaries({found[0]}, {found[0]} & self.canaries.codes)
            at = next((line for line in text.splitlines() if seen.found_in(line)), "several lines")
            pytest.fail(f"{found} in {at[:400]}")
