"""A code tried: six digits beside the address that they were mailed to. The link has no part in it.

A code can be guessed, so tries are few: five for each token, ten for each address a day, wrong or
right, and both counts commit whatever comes of the try. Why a try failed is not told. Sub-addresses
are apart: nobody uses up another's tries with one that does not exist.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, LiteralString
from uuid import uuid4

from postlease import addresses, limits, tokens
from postlease.accounts import ground, mailboxes, redeeming
from postlease.accounts.verifying import Verified, redeem, still_proves
from postlease.config import settings
from postlease.errors import TokenError, TokenKeyUnknownError

if TYPE_CHECKING:
    from uuid import UUID

    from postlease.accounts.mailboxes import Mailbox
    from postlease.database import Connection, Database, Row

TRIES_OF_A_TOKEN = 5
TRIES_OF_A_DAY = 10

_DAY = timedelta(days=1)
_NO_LIMIT = b""
_BETWEEN = re.compile(r"[\s-]+")

# A redeemed token's code answers as its link does: that it was used before.
FIND_CODE: LiteralString = """-- accounts.find_code
SELECT t.id, t.user_id, t.version, t.key_id, u.verified_at
FROM postlease.users AS u
JOIN postlease.verification_tokens AS t ON t.user_id = u.id
WHERE u.email_canonical = %(canonical)s AND t.purpose = 'verify_email' AND t.superseded_at IS NULL
ORDER BY t.version DESC
LIMIT 1
"""

# The time begins when the mail may have left first: a call that was never answered counts, though
# the message waits again, or was dispatched again since; one that was refused does not.
TRY_CODE: LiteralString = """-- accounts.try_code
UPDATE postlease.verification_tokens AS t SET code_attempts = t.code_attempts + 1
WHERE t.id = %(id)s AND t.code_attempts < %(tries)s
  AND t.expires_at > now()
  AND (
      SELECT min(least(m.dispatched_at, u.dispatched_at))
      FROM postlease.email_messages AS m
      LEFT JOIN LATERAL (
          SELECT min((a.attempt->>'dispatched_at')::timestamptz) AS dispatched_at
          FROM jsonb_array_elements(m.attempts) AS a (attempt)
          WHERE a.attempt->>'outcome' = 'unknown'
      ) AS u ON true
      WHERE m.token_id = t.id
  ) > now() - %(lifetime)s
RETURNING t.redeemed_at
"""


@dataclass(frozen=True, slots=True)
class _Typed:
    """What a person typed: the address in its canonical form, the code without blanks.

    tries is the key of what counts the address's tries.
    """

    tries: bytes = field(repr=False)
    canonical_address: str = field(repr=False)
    code: str = field(repr=False)


def try_code(database: Database, *, email: str, code: str) -> Verified:
    """Redeem the token that the code stands for, or answer that it was redeemed before; commits.

    Ends the mailbox's cooldown if the code is right. Raises InvalidInputError (`/email`);
    TokenError `token-invalid` for anything else that is not right, whatever it is, and where codes
    are off; UnavailableError.
    """
    address = addresses.parse(email, pointer="/email")
    if not settings().verify_codes:
        raise TokenError("token-invalid", is_typed=True)
    pepper = ground.pepper()
    ring = ground.key_ring()
    mailbox = mailboxes.mailbox(pepper, "verification", address.canonical)
    digest = limits.address_digest(pepper, "codes", address.canonical)
    tries = [limits.Window(digest, _DAY, TRIES_OF_A_DAY)]
    with ground.transaction(database) as connection:
        verified = None
        if not limits.count(connection, tries):
            typed = _Typed(digest, address.canonical, _BETWEEN.sub("", code))
            verified = _try(connection, ring, mailbox, typed)
    # Only now: an error within would undo the counts.
    if verified is None:
        raise TokenError("token-invalid", is_typed=True)
    return verified


def _find(connection: Connection, ring: tokens.KeyRing, typed: _Typed) -> tuple[Row | None, bool]:
    """The newest token behind the address, and whether the code is its; without a lock."""
    found = connection.execute(FIND_CODE, {"canonical": typed.canonical_address}).fetchone()
    return found, _is_right(ring, found, typed.code)


def _is_right(ring: tokens.KeyRing, found: Row | None, code: str) -> bool:
    """Whether code is the found token's; takes the same time where there is none."""
    try:
        wanted = tokens.code(
            ring.key(found["key_id"] if found else ring.current),
            purpose="verify_email",
            token_id=found["id"] if found else uuid4(),
            version=found["version"] if found else 1,
            user_id=found["user_id"] if found else uuid4(),
        )
    except TokenKeyUnknownError:
        return False
    is_equal = hmac.compare_digest(wanted.encode(), code.encode(errors="replace"))
    return is_equal and found is not None


def _try(
    connection: Connection, ring: tokens.KeyRing, mailbox: Mailbox, typed: _Typed
) -> Verified | None:
    """Count the try, and redeem if it is right and not too late."""
    found, is_right = _find(connection, ring, typed)
    if found and is_right:
        # Whoever knows the code may have another mail at once, even if it is too late.
        mailboxes.clear(connection, mailbox)
        redeeming.lock_user(connection, found["user_id"])
        found, is_right = _find(connection, ring, typed)  # what waited sees what happened meanwhile
    token_id: UUID = found["id"] if found else uuid4()
    tried = connection.execute(
        TRY_CODE,
        {"id": token_id, "tries": TRIES_OF_A_TOKEN, "lifetime": tokens.CODE_LIFETIME},
    ).fetchone()
    # A row is written either way: time does not tell whether there is a code to guess.
    limits.note(connection, typed.tries if tried is None else _NO_LIMIT, None, window=_DAY)
    if tried is None or found is None or not is_right:
        return None
    if tried["redeemed_at"] is None:
        return redeem(connection, token_id, found["user_id"])
    if not still_proves(tried["redeemed_at"], found["verified_at"]):
        return None
    return Verified(found["user_id"], found["verified_at"])
