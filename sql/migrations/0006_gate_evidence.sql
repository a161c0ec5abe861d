-- Whose trouble a closed gate is: the account's, or one message's that stops all others.

ALTER TABLE postlease.provider_gates
    -- When the last call began that is known to have been accepted.
    ADD COLUMN accepted_at timestamptz;

ALTER TABLE postlease.email_messages
    -- When this message was last the one whose answer closed the gate.
    ADD COLUMN blocked_at timestamptz,
    DROP CONSTRAINT email_messages_retries,
    DROP COLUMN blocked_count,
    ADD CONSTRAINT email_messages_retries CHECK (retry_count >= 0);
