"""One conversation with an SMTP relay, spoken step by step.

Each step has its own meaning when it fails. Until the text is on its way nothing can have been
accepted; from then on only an answer tells.
"""

from __future__ import annotations

import logging
import smtplib
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from postlease.mime import message_identifier
from postlease.model import (
    Accepted,
    Blocked,
    Deferred,
    Outcome,
    Rejected,
    Unknown,
    Unreachable,
    event_id,
)
from postlease.providers.smtp_replies import Step, classify

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from postlease.config import Smtp, TimeRules
    from postlease.model import OutgoingMail

_log = logging.getLogger(__name__)


class EndedError(Exception):
    """The conversation is over; outcome says how."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


class _Connection(smtplib.SMTP):
    """smtplib's client over a socket that was connected elsewhere."""

    def __init__(self, sock: socket.socket, *, server: str, own_name: str) -> None:
        super().__init__(local_hostname=own_name)
        self.sock = sock
        # What the certificate is checked against after STARTTLS.
        self._host = server


class Conversation:
    """One mail's conversation: open, transfer, and close whatever happened.

    Everything raises EndedError when the relay or the network ends it.
    """

    def __init__(
        self,
        relay: Smtp,
        times: TimeRules,
        mail: OutgoingMail,
        *,
        tls: Callable[[], ssl.SSLContext],
    ) -> None:
        self._relay = relay
        self._tls = tls
        self._mail = mail
        self._connect_timeout = times.connect_timeout.total_seconds()
        self._read_timeout = times.read_timeout.total_seconds()
        self._deadline = time.monotonic() + self._connect_timeout + self._read_timeout
        self._connection: _Connection | None = None

    def open(self, login: tuple[str, str] | None) -> None:
        """Connect, greet, secure, log in."""
        self._connection = _Connection(
            self._connect(),
            server=self._relay.host,
            # EHLO wants a name of ours; the sender's domain is the one that we certainly have.
            own_name=self._mail.envelope.sender.rpartition("@")[2],
        )
        self._expect(Step.GREETING, *self._ask(self._connection.getreply))
        self._greet()
        if self._relay.security == "starttls":
            self._secure()
        if login is not None:
            self._log_in(*login)

    def transfer(self) -> Outcome:
        """Envelope and text; the outcome is the relay's last word."""
        envelope, content = self._mail.envelope, self._mail.content
        size = f" SIZE={len(content)}" if self._talking.has_extn("size") else ""
        self._end_on(self._command(Step.SENDER, f"MAIL FROM:<{envelope.sender}>{size}"))
        self._name_recipients()
        self._end_on(self._command(Step.DATA, "DATA"))
        # From here on, silence means that nobody knows.
        code, text = self._say(content)
        outcome = classify(Step.TEXT, code, text, sender=envelope.sender)
        return outcome or Accepted(message_identifier(self._mail.message_id, envelope.sender))

    def close(self) -> None:
        """Say QUIT without waiting for the answer: what has been accepted is to be recorded now."""
        if self._connection is not None:
            with suppress(OSError):
                self._connection.putcmd("QUIT")
            self._connection.close()

    @property
    def _talking(self) -> _Connection:
        assert self._connection is not None  # noqa: S101  open() comes first
        return self._connection

    def _connect(self) -> socket.socket:
        relay = self._relay
        patience = min(self._connect_timeout, self._remaining())
        try:
            plain = socket.create_connection((relay.host, relay.port), patience)
        except TimeoutError:
            raise EndedError(Unreachable("connect_timeout")) from None
        except OSError:
            raise EndedError(Unreachable("connect_failed")) from None
        except UnicodeError:
            # A host name that cannot be looked up at all is a wrong setting.
            raise EndedError(Blocked("host_unusable")) from None
        if relay.security != "tls":
            return plain
        try:
            return self._tls().wrap_socket(plain, server_hostname=relay.host)
        except OSError:
            plain.close()
            raise EndedError(Unreachable("tls_failed")) from None

    def _greet(self) -> None:
        code, text = self._ask(self._talking.ehlo)
        if code != 250:
            code, text = self._ask(self._talking.helo)
        self._expect(Step.GREETING, code, text)

    def _secure(self) -> None:
        """TLS or nothing: a relay that does not offer it gets no mail in clear."""
        if not self._talking.has_extn("starttls"):
            raise EndedError(Unreachable("tls_unavailable"))
        try:
            code, _ = self._ask(lambda: self._talking.starttls(context=self._tls()))
        except OSError:
            raise EndedError(Unreachable("tls_failed")) from None
        if code != 220:
            raise EndedError(Unreachable("tls_unavailable"))
        self._greet()

    def _log_in(self, username: str, password: str) -> None:
        try:
            code, text = self._ask(lambda: self._talking.login(username, password))
        except UnicodeEncodeError:
            raise EndedError(Blocked("credentials_refused")) from None
        except smtplib.SMTPException:
            raise EndedError(Blocked("login_unsupported")) from None
        self._expect(Step.LOGIN, code, text)

    def _name_recipients(self) -> None:
        """RCPT for each; the mail goes on if somebody who stands in To can get it.

        One "not now" defers the whole mail before anybody got it, so that nobody gets it twice.
        One "never" among others is left out.
        """
        refusals: dict[str, Outcome] = {}
        for address in self._mail.envelope.recipients:
            outcome = self._command(Step.RECIPIENT, f"RCPT TO:<{address}>")
            match outcome:
                case None:
                    pass
                case Rejected() | Deferred():
                    refusals[address] = outcome
                case _:
                    raise EndedError(outcome)
        if deferred := next((o for o in refusals.values() if isinstance(o, Deferred)), None):
            raise EndedError(deferred)
        if refusals.keys() >= set(self._mail.envelope.to):
            raise EndedError(next(iter(refusals.values())))
        if refusals:
            _log.warning(
                "recipients_left_out %d of %d, %s",
                len(refusals),
                len(self._mail.envelope.recipients),
                event_id(self._mail.message_id),
            )

    def _say(self, content: bytes) -> tuple[int, bytes]:
        """Send the text and wait for the relay's last word. From here on silence is unknown."""
        self._keep_time()
        lines = content if content.endswith(b"\r\n") else content + b"\r\n"
        try:
            # A leading period would end the text (RFC 5321, section 4.5.2).
            self._talking.send((b"\r\n" + lines).replace(b"\r\n.", b"\r\n..")[2:] + b".\r\n")
            return self._talking.getreply()
        except smtplib.SMTPException:
            raise EndedError(Unknown("answer_lost")) from None

    def _command(self, step: Step, line: str) -> Outcome | None:
        code, text = self._ask(lambda: self._talking.docmd(line))
        return classify(step, code, text, sender=self._mail.envelope.sender)

    def _expect(self, step: Step, code: int, text: bytes) -> None:
        self._end_on(classify(step, code, text, sender=self._mail.envelope.sender))

    def _end_on(self, outcome: Outcome | None) -> None:
        if outcome is not None:
            raise EndedError(outcome)

    def _ask(self, step: Callable[[], tuple[int, bytes]]) -> tuple[int, bytes]:
        """One exchange before the text: whatever breaks here, nothing was accepted."""
        self._keep_time()
        try:
            return step()
        except smtplib.SMTPServerDisconnected:
            late = time.monotonic() >= self._deadline
            code = "too_slow" if late else "connection_closed"
            raise EndedError(Unreachable(code)) from None
        except smtplib.SMTPResponseException as error:
            if self._talking.sock is None:
                raise EndedError(Unreachable("unreadable_answer")) from None
            text = error.smtp_error
            return error.smtp_code, text if isinstance(text, bytes) else text.encode()

    def _keep_time(self) -> None:
        remaining = self._remaining()
        if self._talking.sock is not None:
            self._talking.sock.settimeout(min(self._read_timeout, remaining))

    def _remaining(self) -> float:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise EndedError(Unreachable("too_slow"))
        return remaining
