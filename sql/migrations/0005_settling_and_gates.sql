-- What an unknown outcome needs to be settled by its key, and a gate that every worker obeys.

ALTER TABLE postlease.email_messages
    -- Numbers the provider's idempotency key: the id alone, then id-r1, id-r2 after an operator's retry.
    ADD COLUMN retry_count integer NOT NULL DEFAULT 0,
    -- How often this message was the one that closed the gate while others passed.
    ADD COLUMN blocked_count integer NOT NULL DEFAULT 0,
    -- The first dispatch under the current key, as long as its outcome is unsettled.
    ADD COLUMN keyed_since timestamptz,
    ADD CONSTRAINT email_messages_retries CHECK (retry_count >= 0 AND blocked_count >= 0);

-- Distinct soft bounces of an address, until they are enough or too old.
CREATE TABLE postlease.bounces (
    address_digest bytea NOT NULL,
    event_digest bytea NOT NULL,
    happened_at timestamptz NOT NULL,
    CONSTRAINT bounces_pkey PRIMARY KEY (address_digest, event_digest),
    CONSTRAINT bounces_digest_length CHECK (
        octet_length(address_digest) = 32 AND octet_length(event_digest) = 32)
);

-- A closed gate lets probes through, one at a time, and whoever takes one moves probe_at first: a
-- prober that dies costs one pause and no more.
DROP TABLE postlease.provider_gates;
CREATE TABLE postlease.provider_gates (
    provider text NOT NULL,
    closed_at timestamptz,
    close_reason text,
    closed_by uuid,
    pause interval NOT NULL DEFAULT '30 seconds',
    probe_at timestamptz,
    failures_in_a_row integer NOT NULL DEFAULT 0,
    limit_per_second double precision,
    rate_per_second double precision,
    rate_changed_at timestamptz NOT NULL DEFAULT now(),
    next_slot_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT provider_gates_pkey PRIMARY KEY (provider),
    CONSTRAINT provider_gates_closed_whole CHECK (
        num_nonnulls(closed_at, close_reason, probe_at) IN (0, 3)),
    CONSTRAINT provider_gates_failures CHECK (failures_in_a_row >= 0),
    CONSTRAINT provider_gates_rate CHECK (
        num_nonnulls(limit_per_second, rate_per_second) IN (0, 2)
        AND rate_per_second > 0 AND rate_per_second <= limit_per_second)
) WITH (fillfactor = 50);

GRANT SELECT, INSERT, UPDATE, DELETE ON postlease.bounces TO postlease_application;
GRANT SELECT, INSERT, UPDATE ON postlease.provider_gates TO postlease_application;
