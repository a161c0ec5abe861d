-- The queue and the ledger in one table, and the attachments that messages refer to.

CREATE TABLE postlease.email_messages (
    id uuid NOT NULL DEFAULT postlease.uuid_v7(),
    -- what to render
    template text NOT NULL,
    parameters jsonb NOT NULL DEFAULT '{}',
    locale text NOT NULL DEFAULT 'en',
    template_version text,
    -- to whom, as it was when the message was asked for
    to_addresses text[] NOT NULL,
    cc_addresses text[] NOT NULL DEFAULT '{}',
    bcc_addresses text[] NOT NULL DEFAULT '{}',
    from_address text,
    reply_to text,
    tags jsonb NOT NULL DEFAULT '{}',
    token_id uuid,
    -- from whom
    producer text NOT NULL,
    idempotency_key text,
    content_hash bytea,
    cancel_scope text,
    -- how and when
    priority smallint NOT NULL DEFAULT 50,
    delivery text NOT NULL DEFAULT 'at_least_once',
    available_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    -- where it stands
    status text NOT NULL DEFAULT 'pending',
    failure_reason text,
    attempt_count integer NOT NULL DEFAULT 0,
    refunded_count integer NOT NULL DEFAULT 0,
    reaped_count integer NOT NULL DEFAULT 0,
    unknown_count integer NOT NULL DEFAULT 0,
    max_attempts integer,
    -- who holds it
    lease_owner text,
    claimed_at timestamptz,
    lease_expires_at timestamptz,
    -- what the provider knows of it
    dispatched_at timestamptz,
    provider text,
    provider_message_id text,
    attempts jsonb NOT NULL DEFAULT '[]',
    created_at timestamptz NOT NULL DEFAULT now(),
    sent_at timestamptz,
    finished_at timestamptz,
    redacted_at timestamptz,

    CONSTRAINT email_messages_pkey PRIMARY KEY (id),
    CONSTRAINT email_messages_token_fkey FOREIGN KEY (token_id) REFERENCES postlease.verification_tokens,
    CONSTRAINT email_messages_template_shape CHECK (template ~ '^[a-z][a-z0-9_]{0,63}$'),
    CONSTRAINT email_messages_locale_shape CHECK (locale ~ '^[A-Za-z0-9-]{1,35}$'),
    CONSTRAINT email_messages_parameters_object CHECK (jsonb_typeof(parameters) = 'object'),
    CONSTRAINT email_messages_tags_object CHECK (jsonb_typeof(tags) = 'object'),
    CONSTRAINT email_messages_recipient_count CHECK (
        cardinality(to_addresses) >= 1
        AND cardinality(to_addresses) + cardinality(cc_addresses) + cardinality(bcc_addresses) <= 50),
    CONSTRAINT email_messages_recipients_flat CHECK (
        greatest(array_ndims(to_addresses), array_ndims(cc_addresses), array_ndims(bcc_addresses)) = 1),
    -- A token is for one person's eyes: nobody is copied, and only these templates carry one.
    CONSTRAINT email_messages_token_alone CHECK (
        token_id IS NULL
        OR (cardinality(to_addresses) = 1 AND cardinality(cc_addresses) + cardinality(bcc_addresses) = 0)),
    CONSTRAINT email_messages_token_template CHECK (
        (token_id IS NOT NULL) = (template IN ('verify_email', 'reset_password'))),
    CONSTRAINT email_messages_priority CHECK (priority IN (0, 50, 100)),
    CONSTRAINT email_messages_delivery CHECK (delivery IN ('at_least_once', 'at_most_once')),
    CONSTRAINT email_messages_status CHECK (status IN ('pending', 'sending', 'sent', 'failed')),
    CONSTRAINT email_messages_failure_reason CHECK (failure_reason IN (
        'rejected', 'render_error', 'attachment_missing', 'attachment_changed', 'attempts_exhausted',
        'worker_lost', 'outcome_unknown', 'expired', 'superseded', 'suppressed', 'cancelled')),
    CONSTRAINT email_messages_reason_when_failed CHECK ((status = 'failed') = (failure_reason IS NOT NULL)),
    CONSTRAINT email_messages_lease_when_sending CHECK (
        num_nonnulls(lease_owner, claimed_at, lease_expires_at)
        = CASE status WHEN 'sending' THEN 3 ELSE 0 END),
    CONSTRAINT email_messages_dispatch_named CHECK (dispatched_at IS NULL OR provider IS NOT NULL),
    CONSTRAINT email_messages_not_dispatched_when_pending CHECK (status <> 'pending' OR dispatched_at IS NULL),
    CONSTRAINT email_messages_sent_at_when_sent CHECK ((status = 'sent') = (sent_at IS NOT NULL)),
    CONSTRAINT email_messages_sent_is_named CHECK (status <> 'sent' OR provider_message_id IS NOT NULL),
    CONSTRAINT email_messages_finished_at_the_end CHECK (
        (status IN ('sent', 'failed')) = (finished_at IS NOT NULL)),
    CONSTRAINT email_messages_counts CHECK (
        attempt_count >= refunded_count AND refunded_count >= 0 AND reaped_count >= 0
        AND unknown_count >= 0 AND max_attempts > 0),
    -- An infinite time would never come, never end, and break every sum over the queue's ages.
    CONSTRAINT email_messages_times_finite CHECK (isfinite(available_at) AND isfinite(expires_at)),
    CONSTRAINT email_messages_key_length CHECK (length(idempotency_key) BETWEEN 1 AND 255),
    CONSTRAINT email_messages_key_hashed CHECK ((idempotency_key IS NULL) = (content_hash IS NULL))
) WITH (
    -- Claims and dispatch marks change no indexed column: with room on the page they are HOT updates.
    fillfactor = 80,
    -- A queue dies and is born again all day: vacuum by count, at once.
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 5000
);

-- Named after their questions. Lease columns stand in none of them.
CREATE INDEX email_messages_unfinished ON postlease.email_messages (priority, available_at, id)
    WHERE finished_at IS NULL;
CREATE INDEX email_messages_suspects ON postlease.email_messages (priority, available_at, id)
    WHERE finished_at IS NULL AND reaped_count > 0;
CREATE UNIQUE INDEX email_messages_idempotency ON postlease.email_messages (producer, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX email_messages_of_token ON postlease.email_messages (token_id)
    WHERE token_id IS NOT NULL;
CREATE INDEX email_messages_cancellable ON postlease.email_messages (producer, cancel_scope)
    WHERE cancel_scope IS NOT NULL AND finished_at IS NULL;
CREATE INDEX email_messages_redactable ON postlease.email_messages (finished_at)
    WHERE priority = 0 AND finished_at IS NOT NULL AND redacted_at IS NULL;
CREATE INDEX email_messages_by_age ON postlease.email_messages USING brin (created_at)
    WITH (autosummarize = on);

-- Rules about the whole content are checked when it is written, not at each change of status.
CREATE FUNCTION postlease.check_message_content() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    addresses text[] := NEW.to_addresses || NEW.cc_addresses || NEW.bcc_addresses;
BEGIN
    IF octet_length(NEW.parameters::text) > 65536 THEN
        RAISE EXCEPTION 'parameters are larger than 64 kB'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'email_messages_parameters_size';
    END IF;
    -- Printable ASCII, one @, none of the characters that join, quote or route addresses.
    IF EXISTS (SELECT FROM unnest(addresses) AS a (address)
               WHERE address IS NULL OR length(address) > 254
                  OR address !~ ('^[A-Za-z0-9!#$%&''*+/=?^_`{|}~.-]{1,64}'
                      || '@([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+'
                      || '[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$')) THEN
        RAISE EXCEPTION 'a recipient is not one plain address'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'email_messages_recipient_shape';
    END IF;
    IF (SELECT count(DISTINCT lower(address)) FROM unnest(addresses) AS a (address))
            <> cardinality(addresses) THEN
        RAISE EXCEPTION 'an address stands twice among the recipients'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'email_messages_recipients_distinct';
    END IF;
    RETURN NEW;
END
$$;
REVOKE ALL ON FUNCTION postlease.check_message_content() FROM PUBLIC;

CREATE TRIGGER email_messages_content
    BEFORE INSERT OR UPDATE OF parameters, to_addresses, cc_addresses, bcc_addresses
    ON postlease.email_messages
    FOR EACH ROW EXECUTE FUNCTION postlease.check_message_content();

CREATE TABLE postlease.email_attachments (
    message_id uuid NOT NULL,
    position smallint NOT NULL,
    filename text NOT NULL,
    content_type text NOT NULL,
    storage_ref text NOT NULL,
    version_id text,
    size bigint NOT NULL,
    sha256 bytea NOT NULL,
    owned boolean NOT NULL GENERATED ALWAYS AS (storage_ref LIKE 'attachments/uploads/%') STORED,
    CONSTRAINT email_attachments_pkey PRIMARY KEY (message_id, position),
    CONSTRAINT email_attachments_message_fkey FOREIGN KEY (message_id)
        REFERENCES postlease.email_messages ON DELETE CASCADE,
    CONSTRAINT email_attachments_under_prefix CHECK (storage_ref LIKE 'attachments/_%'),
    -- What XML cannot carry, DeleteObjects could not name.
    CONSTRAINT email_attachments_key_shape CHECK (
        octet_length(storage_ref) <= 1024 AND storage_ref !~ '[\u0001-\u001f\u007f]'),
    CONSTRAINT email_attachments_owned_is_pinned CHECK (NOT owned OR version_id IS NOT NULL),
    CONSTRAINT email_attachments_filename CHECK (length(filename) BETWEEN 1 AND 255),
    CONSTRAINT email_attachments_size CHECK (size >= 0),
    CONSTRAINT email_attachments_sha256_length CHECK (octet_length(sha256) = 32)
);

-- An uploaded object belongs to one message and goes with it.
CREATE UNIQUE INDEX email_attachments_one_owner ON postlease.email_attachments (storage_ref) WHERE owned;

-- Objects still to be deleted, written in the transaction that deletes their message.
CREATE TABLE postlease.attachment_deletions (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    storage_ref text NOT NULL,
    version_id text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT attachment_deletions_pkey PRIMARY KEY (id)
);

-- Messages are born in the enqueue functions alone, so nobody but the owner may insert.
GRANT SELECT, UPDATE, DELETE ON postlease.email_messages TO postlease_application;
GRANT SELECT, DELETE ON postlease.email_attachments TO postlease_application;
GRANT SELECT, INSERT, DELETE ON postlease.attachment_deletions TO postlease_application;
