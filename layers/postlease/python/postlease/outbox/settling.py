"""What the provider tells by itself: an attempt was accepted, whatever we believed of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, LiteralString

from postlease.database import translated_errors

if TYPE_CHECKING:
    from uuid import UUID

    from postlease.database import Connection

# One row by its key and no join: after a lock wait PostgreSQL looks at the row's new version, and
# everything here is asked of that one. The entry names the owner that made the call, so that its
# own late record finds the attempt recorded. `failed` asks for no reason: after a call that nobody
# answered a message can end by any (expired, refused the second time, its workers lost), and the
# call was accepted all the same.
SETTLE_ACCEPTED: LiteralString = """-- outbox.settle_accepted
UPDATE postlease.email_messages AS m
SET status = 'sent',
    failure_reason = NULL,
    attempts = CASE
        WHEN m.status = 'sending' AND m.attempt_count = %(attempt)s
        THEN postlease.attempts_with(m, 'accepted', 'event', %(provider_message_id)s, false)
        ELSE postlease.attempts_kept(m.attempts)
            || CASE WHEN m.status = 'sending' AND m.dispatched_at IS NOT NULL
               THEN jsonb_build_array(
                   postlease.attempts_with(m, 'unknown', 'overtaken', NULL, false) -> -1)
               ELSE '[]' END
            || (jsonb_path_query_first(
                    m.attempts, '$[*] ? (@.attempt == $attempt && @.outcome == "unknown")',
                    jsonb_build_object('attempt', %(attempt)s::integer))
                || jsonb_build_object(
                    'outcome', 'accepted', 'code', 'event', 'ended_at', now(),
                    'provider_message_id', %(provider_message_id)s::text))
        END,
    dispatched_at = coalesce((jsonb_path_query_first(
        m.attempts, '$[*] ? (@.attempt == $attempt && @.outcome == "unknown").dispatched_at',
        jsonb_build_object('attempt', %(attempt)s::integer)) #>> '{}')::timestamptz,
        m.dispatched_at),
    provider = coalesce(jsonb_path_query_first(
        m.attempts, '$[*] ? (@.attempt == $attempt && @.outcome == "unknown").provider',
        jsonb_build_object('attempt', %(attempt)s::integer)) #>> '{}', m.provider),
    provider_message_id = %(provider_message_id)s,
    keyed_since = NULL,
    sent_at = now(),
    finished_at = now(),
    lease_owner = NULL,
    claimed_at = NULL,
    lease_expires_at = NULL
WHERE m.id = %(message_id)s
  AND (m.status = 'sending' AND m.attempt_count = %(attempt)s
       OR m.attempts @> jsonb_build_array(jsonb_build_object(
              'attempt', %(attempt)s::integer, 'outcome', 'unknown'))
          AND m.status <> 'sent')
RETURNING m.id
"""


def settle_accepted(
    connection: Connection, *, message_id: UUID, attempt: int, provider_message_id: str
) -> bool:
    """Make the message `sent` if its outcome was open, and commit; whether it was.

    Only for what proves that the provider accepted this attempt. Open is an attempt that is being
    sent, and an unknown one whose message waits, failed for whatever reason, or was claimed again:
    whoever holds it finds the claim lost. A later call that has left may double the mail, which
    cannot be helped any more; it stands as unknown beside this one, and is not made a third time.
    Anything else stays as it is: a repeated call, a message that is gone.
    """
    parameters = {
        "message_id": message_id,
        "attempt": attempt,
        "provider_message_id": provider_message_id,
    }
    with translated_errors():
        return connection.execute(SETTLE_ACCEPTED, parameters).fetchone() is not None
