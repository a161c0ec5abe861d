-- What the API and the senders must agree on across processes. Addresses appear as keyed digests only.

-- The answer of committed work, stored in that work's own transaction.
CREATE TABLE postlease.idempotency_keys (
    key_digest bytea NOT NULL,
    request_digest bytea NOT NULL,
    status_code smallint,
    response jsonb,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (key_digest),
    CONSTRAINT idempotency_keys_digest_length CHECK (
        octet_length(key_digest) = 32 AND octet_length(request_digest) = 32),
    CONSTRAINT idempotency_keys_answer_whole CHECK ((status_code IS NULL) = (response IS NULL))
);

-- Fixed windows. message_id is the event that a request inside a cooldown is answered with.
CREATE TABLE postlease.rate_limits (
    limit_digest bytea NOT NULL,
    window_started_at timestamptz NOT NULL,
    window_ends_at timestamptz NOT NULL,
    used integer NOT NULL,
    message_id uuid,
    CONSTRAINT rate_limits_pkey PRIMARY KEY (limit_digest),
    CONSTRAINT rate_limits_digest_length CHECK (octet_length(limit_digest) = 32),
    CONSTRAINT rate_limits_window CHECK (window_ends_at > window_started_at),
    CONSTRAINT rate_limits_used CHECK (used >= 0)
);

CREATE TABLE postlease.suppressions (
    address_digest bytea NOT NULL,
    reason text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    CONSTRAINT suppressions_pkey PRIMARY KEY (address_digest),
    CONSTRAINT suppressions_digest_length CHECK (octet_length(address_digest) = 32),
    CONSTRAINT suppressions_reason CHECK (reason IN ('bounce', 'complaint', 'manual'))
);

CREATE TABLE postlease.provider_gates (
    provider text NOT NULL,
    paused_until timestamptz,
    pause_reason text,
    failures_in_a_row integer NOT NULL DEFAULT 0,
    probe_at timestamptz,
    rate_per_second numeric(10, 3),
    next_slot_at timestamptz,
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT provider_gates_pkey PRIMARY KEY (provider),
    CONSTRAINT provider_gates_pause_reasoned CHECK ((paused_until IS NULL) = (pause_reason IS NULL)),
    CONSTRAINT provider_gates_failures CHECK (failures_in_a_row >= 0),
    CONSTRAINT provider_gates_rate CHECK (rate_per_second > 0)
);

GRANT SELECT, INSERT, UPDATE, DELETE ON postlease.idempotency_keys, postlease.rate_limits,
    postlease.suppressions TO postlease_application;
GRANT SELECT, INSERT, UPDATE ON postlease.provider_gates TO postlease_application;
