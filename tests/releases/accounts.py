"""What people do with their accounts: sign up, verify, reset, change, close."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from postlease import accounts, outbox, tokens
from postlease.accounts import ground
from postlease.model import event_id
from tests import arrange
from tests.releases.actors import send

if TYPE_CHECKING:
    from postlease.model import TokenFacts
    from tests.releases.actors import Actors


def _token(actors: Actors, template: str) -> tuple[TokenFacts, UUID]:
    """The token in the newest mail of that template, which leaves now."""
    connection = actors.connection
    found = outbox.search(connection, outbox.Wanted(status="pending", template=template), limit=1)
    claimed = outbox.claim_named(
        connection, arrange.claimant(template), [found[0].id], arrange.ROOM
    )
    send(actors, claimed)
    token = claimed[0].token
    assert token
    return token, token.user_id


def sign_up_and_verify(actors: Actors) -> None:
    """By link and by code, and asked for again: known, unknown and verified."""
    database = actors.application
    ring = ground.key_ring()
    for _ in range(2):
        signed = accounts.sign_up(database, email="ada@example.com", idempotency_key='"ada"')
    accounts.event_status(database, signed.event_id)
    accounts.event_status(database, event_id(UUID(int=1)))
    accounts.resend_verification(database, email="ada@example.com")
    accounts.resend_verification(database, email="nobody@example.com")
    facts, _ = _token(actors, "verify_email")
    for _ in range(2):
        accounts.verify(database, token=tokens.derive_again(ring, facts))
    accounts.resend_verification(database, email="ada@example.com")  # a note, undone or kept
    accounts.sign_up(database, email="alan@example.com", locale="de")
    facts, _ = _token(actors, "verify_email")
    accounts.try_code(database, email="alan@example.com", code=tokens.code_again(ring, facts))


def reset_and_change(actors: Actors) -> None:
    """A reset redeemed, another address, the end of the account."""
    database = actors.application
    ring = ground.key_ring()
    accounts.request_reset(database, email="ada@example.com")
    accounts.request_reset(database, email="ada@example.com")
    facts, user_id = _token(actors, "reset_password")
    text = tokens.derive_again(ring, facts)
    for _ in range(2):
        accounts.redeem_reset(database, token=text, idempotency_key='"r"', principal="app")
    accounts.change_address(database, str(user_id), email="Ada@example.com")
    accounts.change_address(database, str(user_id), email="lovelace@example.com")
    accounts.revoke_resets(database, str(user_id))
    accounts.close(database, str(user_id))
