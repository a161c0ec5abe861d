"""What people and producers do with a deployed stack, and what has to come of it."""

from __future__ import annotations

import json
import re
import secrets
import time

from postlease.model import parse_event_id
from tests.emulator.stage import DOMAIN, ORIGIN, PUBLIC_URL, STACK, Stage

_TOKEN = re.compile(r"#token=([A-Za-z0-9_-]{64})")
_SWEEP_SECONDS = 150
"""Two schedules and a sweep's whole life."""


class Usage(Stage):
    """A stack in use."""

    def call(self) -> None:
        """The API answers, to those it should."""
        health = self._call("GET", "/healthz")
        self._check(health.status == 200, f"/healthz answered {health}")
        unsigned = self._call("GET", "/v1/stats")
        signed = self._call("GET", "/v1/stats", signed=True)
        self._check((unsigned.status, signed.status) == (403, 200), f"{unsigned}, {signed}")
        asked = {"Access-Control-Request-Method": "POST"}
        allowed = self._call("OPTIONS", "/v1/signups", headers={"Origin": ORIGIN, **asked})
        other = self._call("OPTIONS", "/v1/signups", headers={"Origin": PUBLIC_URL, **asked})
        name = "access-control-allow-origin"
        self._check(allowed.headers.get(name) == ORIGIN, f"CORS: {allowed.headers}")
        self._check(other.headers.get(name) != PUBLIC_URL, f"CORS: {other.headers}")
        self._say(
            f"http: /healthz {health.status} {health.body['status']}; /v1/stats unsigned "
            f"{unsigned.status}, signed {signed.status}; CORS lets {allowed.headers[name]} in"
        )

    def sign_up(self) -> None:
        """Sign-up over HTTP, the mail out of SES, its token redeemed."""
        address = f"{secrets.token_hex(6)}@{DOMAIN}"
        accepted = self._call("POST", "/v1/signups", {"email": address})
        self._check(accepted.status == 202, f"the sign-up answered {accepted}")
        event = accepted.body["verification"]["event_id"]
        self._say(f"sign-up: {accepted.status}, {event} {accepted.body['verification']['status']}")
        began = time.monotonic()
        self._until(
            lambda: self._call("GET", f"/v1/events/{event}").body["status"] == "sent",
            f"{event} is not sent",
        )
        sending = self._witness.sending(str(parse_event_id(event)))
        mail = self._mail_to(address)
        self._check(
            sending is not None and sending.provider_message_id == mail["MessageId"],
            f"the ledger says {sending}, SES {mail['MessageId']}",
        )
        found = _TOKEN.search(mail["BodyText"])
        self._check(found is not None, "the mail has no token")
        assert found is not None
        took = time.monotonic() - began
        self._say(f'mail: "{mail["Subject"]}" read from SES {took:.1f} s later, its id noted')
        verified = self._call("POST", "/v1/verifications", {"token": found[1]})
        self._check(
            (verified.status, verified.body.get("user_id")) == (200, accepted.body["user_id"]),
            f"the verification answered {verified}",
        )
        self._say(f"verified: {verified.body['status']}, by the token of that mail")

    def sweep(self) -> str:
        """A producer's own INSERT: nobody rings for it, so only a scheduled sweep can send it.

        Answers the message's id.
        """
        address = f"{secrets.token_hex(6)}@{DOMAIN}"
        message = self._witness.enqueue(address, json.dumps({"order_number": "A-1", "total": "7"}))
        began = time.monotonic()
        self._until(
            lambda: (
                (found := self._witness.sending(message)) is not None and found.status == "sent"
            ),
            "no sweep sent the producer's message",
            seconds=_SWEEP_SECONDS,
        )
        sending = self._witness.sending(message)
        assert sending is not None
        mail = self._mail_to(address)
        took = time.monotonic() - began
        self._say(f'sweep: "{mail["Subject"]}" read from SES {took:.1f} s after the INSERT')
        return message

    def who_sent(self, message: str) -> None:
        """The log of the sweep that the schedule started tells of the message, at its end."""
        group = f"/postlease/{STACK}/sweep"
        found: list[dict[str, object]] = []

        def tells() -> bool:
            found[:] = [
                record
                for record in self._cloud.records(group)
                if record.get("message_id") == message and "outcome" in record
            ]
            return bool(found)

        self._until(tells, f"{group} does not tell of {message}", seconds=_SWEEP_SECONDS)
        schedules = self._cloud.client("scheduler").list_schedules()["Schedules"]
        names = ", ".join(sorted(f"{item['Name']} {item['State']}" for item in schedules))
        self._say(
            f"schedule: {found[0]['function_name']} noted that message as "
            f"{found[0]['outcome']}; schedules: {names}"
        )
