-- A message is to blame for a closing only if it met the same answer of the same provider before, and
-- one message's troubles with the rate are told once.

ALTER TABLE postlease.email_messages
    -- Which answer that was, of which provider: `ses sending_paused`.
    ADD COLUMN blocked_as text,
    ADD CONSTRAINT email_messages_blocked_whole CHECK (
        num_nonnulls(blocked_at, blocked_as) IN (0, 2)) NOT VALID;

UPDATE postlease.email_messages SET blocked_at = NULL WHERE blocked_at IS NOT NULL;
ALTER TABLE postlease.email_messages VALIDATE CONSTRAINT email_messages_blocked_whole;

ALTER TABLE postlease.provider_gates
    -- The message whose refusal for speed halved the rate last.
    ADD COLUMN throttled_by uuid;
