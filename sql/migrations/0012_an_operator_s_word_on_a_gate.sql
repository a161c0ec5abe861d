-- An operator can close a gate, and then no probe, no answer and no event of the provider opens it. Who
-- said the last word, and why, is kept.

ALTER TABLE postlease.provider_gates
    ADD COLUMN is_paused boolean NOT NULL DEFAULT false,
    -- The last word of an operator, to pause or to open.
    ADD COLUMN ruled_at timestamptz,
    ADD COLUMN ruled_by text,
    ADD COLUMN ruled_because text,
    ADD CONSTRAINT provider_gates_ruling_whole CHECK (
        num_nonnulls(ruled_at, ruled_by, ruled_because) IN (0, 3)),
    ADD CONSTRAINT provider_gates_reason_length CHECK (
        char_length(ruled_because) BETWEEN 1 AND 200),
    -- Code that knows no pause obeys this one too: it is closed, and its probe is never due.
    ADD CONSTRAINT provider_gates_paused_whole CHECK (
        NOT is_paused OR closed_at IS NOT NULL AND probe_at = 'infinity' AND ruled_at IS NOT NULL);
