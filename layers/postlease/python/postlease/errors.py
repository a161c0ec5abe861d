"""The tree of errors, split by what the caller may do about one.

    PostleaseError
    ├── ConfigurationError      the deployment is wrong: fix the named variable, nothing was done
    ├── UnavailableError        a dependency does not answer: try again later, nothing was done
    ├── DatabaseError           a statement was refused: a rule of the schema, or a bug
    │   └── RuleError           a message was refused by a rule of the schema
    ├── InvalidInputError       the request is wrong: correct the named field, nothing was stored
    │   ├── MalformedInputError the request cannot even be read: correct its form
    │   └── RefusedInputError   the request is well written and cannot be done: ask otherwise
    ├── LimitError              asked too often: wait as long as it says, nothing was done
    ├── ConflictError           the request contradicts an earlier one: do not repeat it unchanged
    ├── TokenError              the link cannot be used; `code` says why
    ├── TokenKeyUnknownError    a token's key is not in the ring: refresh the ring once
    ├── TokenMismatchError      a token's key is not the one it was made with: do not mail it
    ├── SenderNotAllowedError   a message asks for a sender that this deployment does not allow
    ├── FilenameForbiddenError  a message's attachment is of a kind that no provider carries
    ├── TemplateError           a message cannot be rendered until its template or row changes
    └── AttachmentError         a message's attachment is gone or changed: permanent

No message of an error holds an address, a token, a parameter or a row's text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence


class PostleaseError(Exception):
    """Root of every error that this package raises on purpose."""


class ConfigurationError(PostleaseError):
    """A setting is missing or malformed. Names the variable, never its value."""


class UnavailableError(PostleaseError):
    """A dependency (database, secret store) does not answer: repeat later, under a key.

    Nothing was stored, unless the database went away while it committed: then nobody knows.
    """

    def __init__(self, reason: str, *, sqlstate: str | None = None) -> None:
        super().__init__(reason)
        self.sqlstate = sqlstate


class DatabaseError(PostleaseError):
    """The database refused a statement; its transaction is rolled back.

    sqlstate is the five-character code, or None where the driver refused before the server saw it;
    constraint is the violated constraint's name, where there is one.
    """

    def __init__(self, sqlstate: str | None, constraint: str | None) -> None:
        super().__init__(f"sqlstate {sqlstate or 'none'}, constraint {constraint or 'none'}")
        self.sqlstate = sqlstate
        self.constraint = constraint

    @property
    def concerns_row(self) -> bool:
        """Whether the row's own values were refused: repeating the statement cannot help."""
        return self.sqlstate is None or self.sqlstate[:2] in {"22", "23"}


class RuleError(DatabaseError):
    """An enqueue function refused a message by a rule of the schema.

    position is the message's place in its batch, from 0.
    """

    def __init__(self, sqlstate: str | None, constraint: str | None, position: int) -> None:
        super().__init__(sqlstate, constraint)
        self.position = position


class InvalidInputError(PostleaseError):
    """A field of a request is not acceptable. Nothing was stored.

    pointer is the field's JSON pointer (RFC 6901), detail a sentence without the value. others are
    further faults of the same request, as pointer and detail.
    """

    def __init__(self, pointer: str, detail: str, others: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(f"{pointer}: {detail}")
        self.pointer = pointer
        self.detail = detail
        self.others = tuple(others)


class MalformedInputError(InvalidInputError):
    """A request that cannot be read: broken JSON, a doubled or unknown member, a bad header.

    pointer is a JSON pointer (empty for the whole body), or the name of a header.
    """


class RefusedInputError(InvalidInputError):
    """What is asked for can never be done so: no such template, no such sender."""


class LimitError(PostleaseError):
    """A client made too many requests; it may ask again after that many seconds."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"too many requests, {seconds} s to wait")
        self.seconds = seconds


class ConflictError(PostleaseError):
    """The request contradicts stored state.

    code is a stable slug: `idempotency-key-reused`, `idempotency-key-in-progress`,
    `constraint-violated`, `address-taken`, and what stands against an operator's wish:
    `message-not-failed`, `message-redacted`, `message-superseded`, `message-expired`,
    `message-still-open`, `message-not-unknown`, `message-not-pending`. pointer is the JSON pointer
    of the member that contradicts, where one does.
    """

    def __init__(self, code: str, detail: str, *, pointer: str | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.pointer = pointer


class TokenError(PostleaseError):
    """A token cannot be redeemed.

    code is one of `token-invalid`, `token-expired`, `token-superseded`, `token-used`. is_typed:
    digits out of a mail stood for it.
    """

    def __init__(self, code: str, *, is_typed: bool = False) -> None:
        super().__init__(code)
        self.code = code
        self.is_typed = is_typed


class TokenKeyUnknownError(PostleaseError):
    """A stored token was made with a key that the ring does not hold; a fresh ring may."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"no token key of id {key_id}")
        self.key_id = key_id


class TokenMismatchError(PostleaseError):
    """A token derived again has another hash than the stored one: its key was replaced."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"token key {key_id} is not the one this token was made with")
        self.key_id = key_id


class SenderNotAllowedError(PostleaseError):
    """A message's from_address is none of the configured senders: permanent, it is not sent."""


class FilenameForbiddenError(PostleaseError):
    """An attachment's name ends as providers refuse it: permanent, the message is not sent."""


class TemplateError(PostleaseError):
    """A template is missing, or rendering it failed. code names the kind, never the parameters.

    pointer is the JSON pointer of the parameter at fault, empty where that is not known.
    """

    def __init__(self, code: str, detail: str = "", *, pointer: str = "") -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code
        self.detail = detail
        self.pointer = pointer


class AttachmentError(PostleaseError):
    """An attachment is gone (`attachment_missing`) or another object now (`attachment_changed`)."""

    def __init__(self, code: Literal["attachment_missing", "attachment_changed"]) -> None:
        super().__init__(code)
        self.code: Literal["attachment_missing", "attachment_changed"] = code
