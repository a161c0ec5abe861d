"""Tokens and keyed digests: what proves an address, and what stands for one. Pure: no I/O.

A token is made when it is needed and stored nowhere: once at issue, where only its SHA-256 is kept,
and again when its mail is rendered. Its text is

    base64url(token id ‖ HMAC-SHA256(key, "link" ‖ purpose ‖ token id ‖ version ‖ user id))

with every field of the HMAC at a fixed width, so that no two sets of fields share one input. A code
is six digits of the same HMAC with "code" in front.
Which token is live, and who asks, is for `accounts`.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from postlease.errors import ConfigurationError, TokenKeyUnknownError, TokenMismatchError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from postlease.model import Purpose, TokenFacts

MINIMUM_SECRET_LENGTH = 43
"""Characters of a key or pepper: 43 of base64's alphabet carry 256 bits."""

CODE_LENGTH = 6
"""Digits of a code."""

CODE_LIFETIME = timedelta(minutes=10)
"""How long a code is good for, from the moment that its mail may have left."""

_KEY_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CURRENT = "current"
# 48 bytes are 64 characters with no bits left over: every token has exactly one spelling.
_TOKEN = re.compile(r"[A-Za-z0-9_-]{64}")
_PURPOSE_WIDTH = 16
_PAGES: dict[Purpose, str] = {"verify_email": "verify", "reset_password": "reset"}


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The token keys by id; current names the one that new tokens are made with."""

    current: str
    keys: Mapping[str, bytes] = field(repr=False)

    @classmethod
    def from_secret(cls, secret: Mapping[str, Any]) -> Self:
        """The ring behind the flat secret `{"current": "k1", "k1": "..."}`.

        Raises ConfigurationError that names the problem and never a value.
        """
        current = secret.get(_CURRENT)
        if not isinstance(current, str):
            raise ConfigurationError("the token keys secret lacks `current`")
        keys = {}
        for key_id, text in secret.items():
            if key_id == _CURRENT:
                continue
            if not _KEY_ID.fullmatch(key_id):
                raise ConfigurationError("the token keys secret holds a malformed key id")
            keys[key_id] = _key_bytes(text, f"token key {key_id}")
        if current not in keys:
            raise ConfigurationError("the token keys secret lacks the key that `current` names")
        return cls(current=current, keys=keys)

    def key(self, key_id: str) -> bytes:
        """The key of that id; TokenKeyUnknownError when the ring has none."""
        try:
            return self.keys[key_id]
        except KeyError:
            raise TokenKeyUnknownError(key_id) from None


def pepper(secret: str) -> bytes:
    """The pepper secret's text as key bytes; ConfigurationError when it is too short."""
    return _key_bytes(secret, "pepper")


def derive(key: bytes, *, purpose: Purpose, token_id: UUID, version: int, user_id: UUID) -> str:
    """The token's text, 64 characters of base64url; the same fields always give the same text."""
    mac = _mac(key, b"link", purpose, token_id, version, user_id)
    return base64.urlsafe_b64encode(token_id.bytes + mac).decode()


def code(key: bytes, *, purpose: Purpose, token_id: UUID, version: int, user_id: UUID) -> str:
    """The six digits that stand for a token where a person types them; stored nowhere either."""
    mac = _mac(key, b"code", purpose, token_id, version, user_id)
    # 64 bits over a million: no digit is likelier than another by more than 1 in 10 ** 13.
    return f"{int.from_bytes(mac[:8], 'big') % 10**CODE_LENGTH:0{CODE_LENGTH}d}"


def derive_again(ring: KeyRing, facts: TokenFacts) -> str:
    """The text of a token issued earlier, proven against its stored hash.

    Raises TokenKeyUnknownError when the ring lacks its key (a fresh ring may have it), and
    TokenMismatchError when the key of that id is not the one it was made with: such a text would
    verify nobody and must not be mailed.
    """
    token = derive(
        ring.key(facts.key_id),
        purpose=facts.purpose,
        token_id=facts.id,
        version=facts.version,
        user_id=facts.user_id,
    )
    if not matches(token, facts.token_hash):
        raise TokenMismatchError(facts.key_id)
    return token


def code_again(ring: KeyRing, facts: TokenFacts) -> str:
    """The code of a token issued earlier; TokenKeyUnknownError when the ring lacks its key.

    There is no hash to prove it by: derive the token again first, which proves the key.
    """
    return code(
        ring.key(facts.key_id),
        purpose=facts.purpose,
        token_id=facts.id,
        version=facts.version,
        user_id=facts.user_id,
    )


def token_hash(token: str) -> bytes:
    """SHA-256 of the token's text: what the database keeps instead of it."""
    return hashlib.sha256(token.encode()).digest()


def matches(token: str, expected_hash: bytes) -> bool:
    """Whether expected_hash is the token's, in a time that does not depend on the answer."""
    return hmac.compare_digest(token_hash(token), expected_hash)


def parse(text: str) -> UUID | None:
    """The id inside a token's text, or None for anything `derive` would not have written.

    The id is only a claim until `matches` has confirmed the whole text.
    """
    if not _TOKEN.fullmatch(text):
        return None
    return UUID(bytes=base64.urlsafe_b64decode(text)[:16])


def link(public_url: str, purpose: Purpose, token: str) -> str:
    """Where a person redeems the token. In the fragment it reaches no log and no Referer."""
    return f"{public_url}/{_PAGES[purpose]}#token={token}"


def keyed_digest(pepper: bytes, *fields: bytes) -> bytes:
    """HMAC-SHA256 of fields, each behind its length; the first one names the use.

    Stands for an address where none may be stored: without the pepper, knowing every address does
    not tell whose digest it is.
    """
    use, *others = fields
    mac = _begun(pepper, use).copy()
    for part in others:
        mac.update(_framed(part))
    return mac.digest()


@functools.lru_cache(maxsize=16)
def _begun(pepper: bytes, use: bytes) -> hmac.HMAC:
    """To be copied: a key's schedule, and finding the algorithm, cost more than an address."""
    return hmac.new(pepper, _framed(use), hashlib.sha256)


def _framed(part: bytes) -> bytes:
    return len(part).to_bytes(8, "big") + part


def _mac(
    key: bytes, use: bytes, purpose: Purpose, token_id: UUID, version: int, user_id: UUID
) -> bytes:
    fields = (
        use,
        purpose.encode().ljust(_PURPOSE_WIDTH, b"\0"),
        token_id.bytes,
        version.to_bytes(4, "big"),
        user_id.bytes,
    )
    return hmac.digest(key, b"".join(fields), "sha256")


def _key_bytes(text: object, name: str) -> bytes:
    if not isinstance(text, str) or len(text) < MINIMUM_SECRET_LENGTH:
        raise ConfigurationError(f"the {name} is not {MINIMUM_SECRET_LENGTH} characters or longer")
    return text.encode(errors="surrogatepass")
