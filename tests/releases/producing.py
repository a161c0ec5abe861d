"""What producers say: the contract of `postlease.enqueue_email` and its kin, by all its names."""

from __future__ import annotations

from typing import TYPE_CHECKING, LiteralString

from psycopg.types.json import Jsonb

from tests.releases.actors import FAR

if TYPE_CHECKING:
    from tests.releases.actors import Actors

PDF = {"filename": "a.pdf", "content_type": "application/pdf", "size": 3, "sha256": "0f" * 32}

ENQUEUE_EMAIL: LiteralString = """-- producer.enqueue_email
SELECT postlease.enqueue_email(
    template => 'receipt',
    to_addresses => ARRAY['grace@example.com'],
    parameters => '{"order_number": "A-1", "total": "12.00"}',
    cc_addresses => ARRAY['cc@example.com'],
    bcc_addresses => ARRAY['bcc@example.com'],
    names => '{"grace@example.com": "Grace"}',
    locale => 'de',
    priority => 100,
    delivery => 'at_most_once',
    send_at => '2026-01-01 00:00+00',
    expires_at => %(expires_at)s::timestamptz,
    idempotency_key => %(key)s,
    cancel_scope => 'order A-1',
    from_address => 'shop@example.com',
    reply_to => 'help@example.com',
    tags => '{"kind": "receipt"}',
    attachments => jsonb_build_array(%(pdf)s::jsonb || jsonb_build_object(
        'storage_ref', 'attachments/kept/' || postlease.attachments_tag() || '/terms.pdf'))
) AS id
"""
ENQUEUE_IN_PLACES: LiteralString = """-- producer.enqueue_email_in_places
SELECT postlease.enqueue_email('receipt', ARRAY['grace@example.com'], '{"total": "1.00"}') AS id
"""
ENQUEUE_EMAILS: LiteralString = """-- producer.enqueue_emails
SELECT "position", id FROM postlease.enqueue_emails(%(messages)s) ORDER BY "position"
"""
ATTACHMENTS_TAG: LiteralString = """-- producer.attachments_tag
SELECT length(postlease.attachments_tag()) AS characters
"""
OF_PRODUCERS = (ENQUEUE_EMAIL, ENQUEUE_IN_PLACES, ENQUEUE_EMAILS, ATTACHMENTS_TAG)


def produce(actors: Actors) -> None:
    """Each call, and one of them twice."""
    connection = actors.producer
    whole = {"expires_at": FAR, "key": "A-1", "pdf": Jsonb(PDF)}
    for _ in range(2):  # the same key, the same message
        connection.execute(ENQUEUE_EMAIL, whole)
    connection.execute(ENQUEUE_IN_PLACES)
    one = {"template": "receipt", "to_addresses": ["a@example.com"], "idempotency_key": "A-2"}
    connection.execute(ENQUEUE_EMAILS, {"messages": Jsonb([one, one | {"idempotency_key": "A-3"}])})
    connection.execute(ATTACHMENTS_TAG)
