-- The whole schema in one piece, to read. Written by `make schema`; change sql/migrations or
-- sql/functions instead. The roles and their settings are made by migrations/0001.

CREATE SCHEMA postlease;

CREATE FUNCTION postlease.attempts_kept(attempts jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $_$
    SELECT CASE WHEN jsonb_array_length(attempts) < 20 THEN attempts ELSE
        (jsonb_path_query_array(attempts, '$[0 to 18] ? (@.outcome == "unknown")')
            || jsonb_path_query_array(attempts, '$[0 to 18] ? (!(@.outcome == "unknown"))'))
        - jsonb_array_length(
            jsonb_path_query_array(attempts, '$[0 to 18] ? (@.outcome == "unknown")')) % 19
        || (attempts -> -1) END
    $_$;

CREATE FUNCTION postlease.uuid_v7() RETURNS uuid
    LANGUAGE sql PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT encode(
        set_bit(set_bit(
            overlay(uuid_send(gen_random_uuid())
                    PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
                    FROM 1 FOR 6),
            52, 1), 53, 1),
        'hex')::uuid
    $$;

CREATE TABLE postlease.email_messages (
    id uuid DEFAULT postlease.uuid_v7() NOT NULL,
    template text NOT NULL,
    parameters jsonb DEFAULT '{}'::jsonb NOT NULL,
    locale text DEFAULT 'en'::text NOT NULL,
    template_version text,
    to_addresses text[] NOT NULL,
    cc_addresses text[] DEFAULT '{}'::text[] NOT NULL,
    bcc_addresses text[] DEFAULT '{}'::text[] NOT NULL,
    from_address text,
    reply_to text,
    tags jsonb DEFAULT '{}'::jsonb NOT NULL,
    token_id uuid,
    producer text NOT NULL,
    idempotency_key text,
    content_hash bytea,
    cancel_scope text,
    priority smallint DEFAULT 50 NOT NULL,
    delivery text DEFAULT 'at_least_once'::text NOT NULL,
    available_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone,
    status text DEFAULT 'pending'::text NOT NULL,
    failure_reason text,
    attempt_count integer DEFAULT 0 NOT NULL,
    refunded_count integer DEFAULT 0 NOT NULL,
    reaped_count integer DEFAULT 0 NOT NULL,
    unknown_count integer DEFAULT 0 NOT NULL,
    max_attempts integer,
    lease_owner text,
    claimed_at timestamp with time zone,
    lease_expires_at timestamp with time zone,
    dispatched_at timestamp with time zone,
    provider text,
    provider_message_id text,
    attempts jsonb DEFAULT '[]'::jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    sent_at timestamp with time zone,
    finished_at timestamp with time zone,
    redacted_at timestamp with time zone,
    retry_count integer DEFAULT 0 NOT NULL,
    keyed_since timestamp with time zone,
    blocked_at timestamp with time zone,
    blocked_as text,
    recipient_names jsonb DEFAULT '{}'::jsonb NOT NULL,
    attachment_bytes bigint DEFAULT 0 NOT NULL,
    CONSTRAINT email_messages_attachment_bytes CHECK ((attachment_bytes >= 0)),
    CONSTRAINT email_messages_blocked_whole CHECK ((num_nonnulls(blocked_at, blocked_as) = ANY (ARRAY[0, 2]))),
    CONSTRAINT email_messages_counts CHECK (((attempt_count >= refunded_count) AND (refunded_count >= 0) AND (reaped_count >= 0) AND (unknown_count >= 0) AND (max_attempts > 0))),
    CONSTRAINT email_messages_delivery CHECK ((delivery = ANY (ARRAY['at_least_once'::text, 'at_most_once'::text]))),
    CONSTRAINT email_messages_dispatch_named CHECK (((dispatched_at IS NULL) OR (provider IS NOT NULL))),
    CONSTRAINT email_messages_failure_reason CHECK ((failure_reason = ANY (ARRAY['rejected'::text, 'render_error'::text, 'attachment_missing'::text, 'attachment_changed'::text, 'attempts_exhausted'::text, 'worker_lost'::text, 'outcome_unknown'::text, 'expired'::text, 'superseded'::text, 'suppressed'::text, 'cancelled'::text]))),
    CONSTRAINT email_messages_finished_at_the_end CHECK (((status = ANY (ARRAY['sent'::text, 'failed'::text])) = (finished_at IS NOT NULL))),
    CONSTRAINT email_messages_key_hashed CHECK (((idempotency_key IS NULL) = (content_hash IS NULL))),
    CONSTRAINT email_messages_key_length CHECK (((length(idempotency_key) >= 1) AND (length(idempotency_key) <= 255))),
    CONSTRAINT email_messages_lease_when_sending CHECK ((num_nonnulls(lease_owner, claimed_at, lease_expires_at) =
CASE status
    WHEN 'sending'::text THEN 3
    ELSE 0
END)),
    CONSTRAINT email_messages_locale_shape CHECK ((locale ~ '^[A-Za-z0-9-]{1,35}$'::text)),
    CONSTRAINT email_messages_names_object CHECK ((jsonb_typeof(recipient_names) = 'object'::text)),
    CONSTRAINT email_messages_not_dispatched_when_pending CHECK (((status <> 'pending'::text) OR (dispatched_at IS NULL))),
    CONSTRAINT email_messages_parameters_object CHECK ((jsonb_typeof(parameters) = 'object'::text)),
    CONSTRAINT email_messages_priority CHECK ((priority = ANY (ARRAY[0, 50, 100]))),
    CONSTRAINT email_messages_reason_when_failed CHECK (((status = 'failed'::text) = (failure_reason IS NOT NULL))),
    CONSTRAINT email_messages_recipient_count CHECK (((cardinality(to_addresses) >= 1) AND (((cardinality(to_addresses) + cardinality(cc_addresses)) + cardinality(bcc_addresses)) <= 50))),
    CONSTRAINT email_messages_recipients_flat CHECK ((GREATEST(array_ndims(to_addresses), array_ndims(cc_addresses), array_ndims(bcc_addresses)) = 1)),
    CONSTRAINT email_messages_retries CHECK ((retry_count >= 0)),
    CONSTRAINT email_messages_sent_at_when_sent CHECK (((status = 'sent'::text) = (sent_at IS NOT NULL))),
    CONSTRAINT email_messages_sent_is_named CHECK (((status <> 'sent'::text) OR (provider_message_id IS NOT NULL))),
    CONSTRAINT email_messages_status CHECK ((status = ANY (ARRAY['pending'::text, 'sending'::text, 'sent'::text, 'failed'::text]))),
    CONSTRAINT email_messages_tags_object CHECK ((jsonb_typeof(tags) = 'object'::text)),
    CONSTRAINT email_messages_template_shape CHECK ((template ~ '^[a-z][a-z0-9_]{0,63}$'::text)),
    CONSTRAINT email_messages_times_finite CHECK ((isfinite(available_at) AND isfinite(expires_at))),
    CONSTRAINT email_messages_token_alone CHECK (((token_id IS NULL) OR ((cardinality(to_addresses) = 1) AND ((cardinality(cc_addresses) + cardinality(bcc_addresses)) = 0)))),
    CONSTRAINT email_messages_token_template CHECK (((token_id IS NOT NULL) = (template = ANY (ARRAY['verify_email'::text, 'reset_password'::text]))))
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='5000');

CREATE FUNCTION postlease.attempts_with(message postlease.email_messages, outcome text, code text, provider_message_id text, refunded boolean) RETURNS jsonb
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT postlease.attempts_kept(message.attempts)
        || jsonb_build_object(
            'attempt', message.attempt_count,
            'owner', message.lease_owner,
            'claimed_at', message.claimed_at,
            'lease_expires_at', message.lease_expires_at,
            'dispatched_at', message.dispatched_at,
            'ended_at', now(),
            'outcome', outcome,
            'code', code,
            'provider', CASE WHEN message.dispatched_at IS NOT NULL THEN message.provider END,
            'provider_message_id', provider_message_id,
            'refunded', refunded)
    $$;

CREATE FUNCTION postlease.check_message_content() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
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
$_$;

CREATE FUNCTION postlease.drop_other_signatures(kept regprocedure) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    older regprocedure;
BEGIN
    FOR older IN SELECT other.oid::regprocedure
                 FROM pg_proc AS p JOIN pg_proc AS other USING (proname, pronamespace)
                 WHERE p.oid = kept AND other.oid <> kept LOOP
        EXECUTE format('DROP FUNCTION %s', older);
    END LOOP;
END
$$;

CREATE FUNCTION postlease.enqueue_auth_email(template text, user_id uuid, token_id uuid DEFAULT NULL::uuid, parameters jsonb DEFAULT '{}'::jsonb, locale text DEFAULT NULL::text, lifetime interval DEFAULT NULL::interval) RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    new_id uuid;
BEGIN
    INSERT INTO postlease.email_messages (
        template, parameters, locale, to_addresses, token_id, producer, priority, expires_at,
        cancel_scope)
    SELECT enqueue_auth_email.template, enqueue_auth_email.parameters,
           coalesce(enqueue_auth_email.locale, u.locale), ARRAY[u.email], t.id, session_user, 0,
           coalesce(t.expires_at, now() + enqueue_auth_email.lifetime),
           CASE WHEN enqueue_auth_email.template = 'account_exists' THEN 'account_exists:' || u.id END
    FROM postlease.users AS u
    LEFT JOIN postlease.verification_tokens AS t
        ON t.id = enqueue_auth_email.token_id AND t.user_id = u.id AND t.purpose = enqueue_auth_email.template
    WHERE u.id = enqueue_auth_email.user_id
      AND (t.id IS NOT NULL OR enqueue_auth_email.token_id IS NULL)
    RETURNING id INTO new_id;
    IF new_id IS NULL THEN
        RAISE EXCEPTION 'no such user, or the token is not this user''s for this purpose'
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'email_messages_token_fkey';
    END IF;
    RETURN new_id;
END
$$;

CREATE FUNCTION postlease.enqueue_email(template text, to_addresses text[], parameters jsonb DEFAULT '{}'::jsonb, cc_addresses text[] DEFAULT '{}'::text[], bcc_addresses text[] DEFAULT '{}'::text[], locale text DEFAULT 'en'::text, priority integer DEFAULT 50, delivery text DEFAULT 'at_least_once'::text, send_at timestamp with time zone DEFAULT NULL::timestamp with time zone, expires_at timestamp with time zone DEFAULT NULL::timestamp with time zone, idempotency_key text DEFAULT NULL::text) RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
DECLARE
    absent text := CASE
        WHEN template IS NULL THEN 'template'
        WHEN to_addresses IS NULL THEN 'to_addresses'
        WHEN parameters IS NULL THEN 'parameters'
        WHEN cc_addresses IS NULL THEN 'cc_addresses'
        WHEN bcc_addresses IS NULL THEN 'bcc_addresses'
        WHEN locale IS NULL THEN 'locale'
        WHEN priority IS NULL THEN 'priority'
        WHEN delivery IS NULL THEN 'delivery'
    END;
    -- The table's constraints hold all of this too; but their errors repeat the row with its addresses.
    broken text := CASE
        WHEN template !~ '^[a-z][a-z0-9_]{0,63}$' THEN 'email_messages_template_shape'
        WHEN template IN ('verify_email', 'reset_password') THEN 'email_messages_token_template'
        WHEN locale !~ '^[A-Za-z0-9-]{1,35}$' THEN 'email_messages_locale_shape'
        WHEN jsonb_typeof(parameters) <> 'object' THEN 'email_messages_parameters_object'
        WHEN greatest(array_ndims(to_addresses), array_ndims(cc_addresses), array_ndims(bcc_addresses)) > 1
            THEN 'email_messages_recipients_flat'
        WHEN cardinality(to_addresses) = 0
          OR cardinality(to_addresses) + cardinality(cc_addresses) + cardinality(bcc_addresses) > 50
            THEN 'email_messages_recipient_count'
        WHEN priority NOT IN (50, 100) THEN 'email_messages_priority'
        WHEN delivery NOT IN ('at_least_once', 'at_most_once') THEN 'email_messages_delivery'
        WHEN NOT (isfinite(send_at) AND isfinite(expires_at)) THEN 'email_messages_times_finite'
        WHEN length(idempotency_key) NOT BETWEEN 1 AND 255 THEN 'email_messages_key_length'
    END;
    hash bytea;
    found_id uuid;
    found_hash bytea;
BEGIN
    IF absent IS NOT NULL THEN
        RAISE EXCEPTION 'enqueue_email needs a value for %', absent
            USING ERRCODE = 'not_null_violation', COLUMN = absent;
    END IF;
    IF broken IS NOT NULL THEN
        RAISE EXCEPTION 'enqueue_email refused an argument by %', broken
            USING ERRCODE = 'check_violation', CONSTRAINT = broken;
    END IF;
    IF idempotency_key IS NOT NULL THEN
        -- Seconds, because a moment's text depends on the session's time zone.
        hash := sha256(convert_to(jsonb_build_array(
            template, to_addresses, parameters, cc_addresses, bcc_addresses, locale, priority, delivery,
            extract(epoch FROM send_at), extract(epoch FROM expires_at))::text, 'UTF8'));
    END IF;
    INSERT INTO postlease.email_messages (
        template, parameters, locale, to_addresses, cc_addresses, bcc_addresses,
        producer, idempotency_key, content_hash, priority, delivery, available_at, expires_at)
    VALUES (
        enqueue_email.template, enqueue_email.parameters, enqueue_email.locale,
        enqueue_email.to_addresses, enqueue_email.cc_addresses, enqueue_email.bcc_addresses,
        session_user, enqueue_email.idempotency_key, hash, enqueue_email.priority,
        enqueue_email.delivery, greatest(enqueue_email.send_at, now()), enqueue_email.expires_at)
    ON CONFLICT (producer, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
    RETURNING id INTO found_id;
    IF found_id IS NOT NULL THEN
        RETURN found_id;
    END IF;
    SELECT m.id, m.content_hash INTO found_id, found_hash FROM postlease.email_messages AS m
    WHERE m.producer = session_user AND m.idempotency_key = enqueue_email.idempotency_key;
    IF found_hash IS DISTINCT FROM hash THEN
        RAISE EXCEPTION 'this idempotency key was used for other content'
            USING ERRCODE = 'unique_violation', CONSTRAINT = 'email_messages_idempotency';
    END IF;
    RETURN found_id;
END
$_$;

CREATE TABLE postlease.attachment_deletions (
    id bigint NOT NULL,
    storage_ref text NOT NULL,
    version_id text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE postlease.attachment_deletions ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME postlease.attachment_deletions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE postlease.bounces (
    address_digest bytea NOT NULL,
    event_digest bytea NOT NULL,
    happened_at timestamp with time zone NOT NULL,
    CONSTRAINT bounces_digest_length CHECK (((octet_length(address_digest) = 32) AND (octet_length(event_digest) = 32)))
);

CREATE TABLE postlease.email_attachments (
    message_id uuid NOT NULL,
    "position" smallint NOT NULL,
    filename text NOT NULL,
    content_type text NOT NULL,
    storage_ref text NOT NULL,
    version_id text,
    size bigint NOT NULL,
    sha256 bytea NOT NULL,
    owned boolean GENERATED ALWAYS AS ((storage_ref ~~ 'attachments/uploads/%'::text)) STORED NOT NULL,
    content_id text,
    CONSTRAINT email_attachments_content_id CHECK ((content_id ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'::text)),
    CONSTRAINT email_attachments_filename CHECK (((length(filename) >= 1) AND (length(filename) <= 255))),
    CONSTRAINT email_attachments_key_shape CHECK (((octet_length(storage_ref) <= 1024) AND (storage_ref !~ '[\u0001-\u001f\u007f]'::text))),
    CONSTRAINT email_attachments_owned_is_pinned CHECK (((NOT owned) OR (version_id IS NOT NULL))),
    CONSTRAINT email_attachments_sha256_length CHECK ((octet_length(sha256) = 32)),
    CONSTRAINT email_attachments_size CHECK ((size >= 0)),
    CONSTRAINT email_attachments_under_prefix CHECK ((storage_ref ~~ 'attachments/_%'::text))
);

CREATE TABLE postlease.idempotency_keys (
    key_digest bytea NOT NULL,
    request_digest bytea NOT NULL,
    status_code smallint,
    response jsonb,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT idempotency_keys_answer_whole CHECK (((status_code IS NULL) = (response IS NULL))),
    CONSTRAINT idempotency_keys_digest_length CHECK (((octet_length(key_digest) = 32) AND (octet_length(request_digest) = 32)))
);

CREATE TABLE postlease.provider_gates (
    provider text NOT NULL,
    closed_at timestamp with time zone,
    close_reason text,
    closed_by uuid,
    pause interval DEFAULT '00:00:30'::interval NOT NULL,
    probe_at timestamp with time zone,
    failures_in_a_row integer DEFAULT 0 NOT NULL,
    limit_per_second double precision,
    rate_per_second double precision,
    rate_changed_at timestamp with time zone DEFAULT now() NOT NULL,
    next_slot_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    accepted_at timestamp with time zone,
    throttled_by uuid,
    CONSTRAINT provider_gates_closed_whole CHECK ((num_nonnulls(closed_at, close_reason, probe_at) = ANY (ARRAY[0, 3]))),
    CONSTRAINT provider_gates_failures CHECK ((failures_in_a_row >= 0)),
    CONSTRAINT provider_gates_rate CHECK (((num_nonnulls(limit_per_second, rate_per_second) = ANY (ARRAY[0, 2])) AND (rate_per_second > (0)::double precision) AND (rate_per_second <= limit_per_second)))
)
WITH (fillfactor='50');

CREATE TABLE postlease.rate_limits (
    limit_digest bytea NOT NULL,
    window_started_at timestamp with time zone NOT NULL,
    window_ends_at timestamp with time zone NOT NULL,
    used integer NOT NULL,
    message_id uuid,
    CONSTRAINT rate_limits_digest_length CHECK ((octet_length(limit_digest) = 32)),
    CONSTRAINT rate_limits_used CHECK ((used >= 0)),
    CONSTRAINT rate_limits_window CHECK ((window_ends_at > window_started_at))
);

CREATE TABLE postlease.schema_migrations (
    name text NOT NULL,
    sha256 bytea NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT schema_migrations_sha256_length CHECK ((octet_length(sha256) = 32))
);

CREATE TABLE postlease.suppressions (
    address_digest bytea NOT NULL,
    reason text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone,
    CONSTRAINT suppressions_digest_length CHECK ((octet_length(address_digest) = 32)),
    CONSTRAINT suppressions_reason CHECK ((reason = ANY (ARRAY['bounce'::text, 'complaint'::text, 'manual'::text])))
);

CREATE TABLE postlease.users (
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    email text NOT NULL,
    email_canonical text NOT NULL,
    locale text NOT NULL,
    verified_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT users_email_canonical_shape CHECK ((email_canonical = lower(email_canonical))),
    CONSTRAINT users_email_shape CHECK (((email ~ '^[!-?A-~]+@[!-?A-~]+$'::text) AND (length(email) <= 254))),
    CONSTRAINT users_locale_shape CHECK ((locale ~ '^[A-Za-z0-9-]{1,35}$'::text))
);

CREATE TABLE postlease.verification_tokens (
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    user_id uuid NOT NULL,
    purpose text NOT NULL,
    version integer NOT NULL,
    token_hash bytea NOT NULL,
    key_id text NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    redeemed_at timestamp with time zone,
    superseded_at timestamp with time zone,
    code_attempts smallint DEFAULT 0 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT verification_tokens_expiry_later CHECK ((expires_at > created_at)),
    CONSTRAINT verification_tokens_hash_length CHECK ((octet_length(token_hash) = 32)),
    CONSTRAINT verification_tokens_one_end CHECK ((num_nonnulls(redeemed_at, superseded_at) <= 1)),
    CONSTRAINT verification_tokens_purpose CHECK ((purpose = ANY (ARRAY['verify_email'::text, 'reset_password'::text]))),
    CONSTRAINT verification_tokens_version_positive CHECK ((version > 0))
);

ALTER TABLE ONLY postlease.attachment_deletions
    ADD CONSTRAINT attachment_deletions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY postlease.bounces
    ADD CONSTRAINT bounces_pkey PRIMARY KEY (address_digest, event_digest);

ALTER TABLE ONLY postlease.email_attachments
    ADD CONSTRAINT email_attachments_pkey PRIMARY KEY (message_id, "position");

ALTER TABLE ONLY postlease.email_messages
    ADD CONSTRAINT email_messages_pkey PRIMARY KEY (id);

ALTER TABLE ONLY postlease.idempotency_keys
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (key_digest);

ALTER TABLE ONLY postlease.provider_gates
    ADD CONSTRAINT provider_gates_pkey PRIMARY KEY (provider);

ALTER TABLE ONLY postlease.rate_limits
    ADD CONSTRAINT rate_limits_pkey PRIMARY KEY (limit_digest);

ALTER TABLE ONLY postlease.schema_migrations
    ADD CONSTRAINT schema_migrations_pkey PRIMARY KEY (name);

ALTER TABLE ONLY postlease.suppressions
    ADD CONSTRAINT suppressions_pkey PRIMARY KEY (address_digest, reason);

ALTER TABLE ONLY postlease.users
    ADD CONSTRAINT users_email_canonical_key UNIQUE (email_canonical);

ALTER TABLE ONLY postlease.users
    ADD CONSTRAINT users_pkey PRIMARY KEY (id);

ALTER TABLE ONLY postlease.verification_tokens
    ADD CONSTRAINT verification_tokens_pkey PRIMARY KEY (id);

ALTER TABLE ONLY postlease.verification_tokens
    ADD CONSTRAINT verification_tokens_version_key UNIQUE (user_id, purpose, version);

CREATE UNIQUE INDEX email_attachments_one_owner ON postlease.email_attachments USING btree (storage_ref) WHERE owned;

CREATE INDEX email_messages_by_age ON postlease.email_messages USING brin (created_at) WITH (autosummarize='on');

CREATE INDEX email_messages_cancellable ON postlease.email_messages USING btree (producer, cancel_scope) WHERE ((cancel_scope IS NOT NULL) AND (finished_at IS NULL));

CREATE UNIQUE INDEX email_messages_idempotency ON postlease.email_messages USING btree (producer, idempotency_key) WHERE (idempotency_key IS NOT NULL);

CREATE INDEX email_messages_of_token ON postlease.email_messages USING btree (token_id) WHERE (token_id IS NOT NULL);

CREATE INDEX email_messages_redactable ON postlease.email_messages USING btree (finished_at) WHERE ((priority = 0) AND (finished_at IS NOT NULL) AND (redacted_at IS NULL));

CREATE INDEX email_messages_suspects ON postlease.email_messages USING btree (priority, available_at, id) WHERE ((finished_at IS NULL) AND (reaped_count > 0));

CREATE INDEX email_messages_unfinished ON postlease.email_messages USING btree (priority, available_at, id) WHERE (finished_at IS NULL);

CREATE UNIQUE INDEX verification_tokens_one_live ON postlease.verification_tokens USING btree (user_id, purpose) WHERE ((redeemed_at IS NULL) AND (superseded_at IS NULL));

CREATE TRIGGER email_messages_content BEFORE INSERT OR UPDATE OF parameters, to_addresses, cc_addresses, bcc_addresses ON postlease.email_messages FOR EACH ROW EXECUTE FUNCTION postlease.check_message_content();

ALTER TABLE ONLY postlease.email_attachments
    ADD CONSTRAINT email_attachments_message_fkey FOREIGN KEY (message_id) REFERENCES postlease.email_messages(id) ON DELETE CASCADE;

ALTER TABLE ONLY postlease.email_messages
    ADD CONSTRAINT email_messages_token_fkey FOREIGN KEY (token_id) REFERENCES postlease.verification_tokens(id);

GRANT USAGE ON SCHEMA postlease TO postlease_application;
GRANT USAGE ON SCHEMA postlease TO postlease_producer;

REVOKE ALL ON FUNCTION postlease.attempts_kept(attempts jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION postlease.attempts_kept(attempts jsonb) TO postlease_application;

REVOKE ALL ON FUNCTION postlease.uuid_v7() FROM PUBLIC;
GRANT ALL ON FUNCTION postlease.uuid_v7() TO postlease_application;

GRANT SELECT,DELETE,UPDATE ON TABLE postlease.email_messages TO postlease_application;

REVOKE ALL ON FUNCTION postlease.attempts_with(message postlease.email_messages, outcome text, code text, provider_message_id text, refunded boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION postlease.attempts_with(message postlease.email_messages, outcome text, code text, provider_message_id text, refunded boolean) TO postlease_application;

REVOKE ALL ON FUNCTION postlease.check_message_content() FROM PUBLIC;

REVOKE ALL ON FUNCTION postlease.drop_other_signatures(kept regprocedure) FROM PUBLIC;

REVOKE ALL ON FUNCTION postlease.enqueue_auth_email(template text, user_id uuid, token_id uuid, parameters jsonb, locale text, lifetime interval) FROM PUBLIC;
GRANT ALL ON FUNCTION postlease.enqueue_auth_email(template text, user_id uuid, token_id uuid, parameters jsonb, locale text, lifetime interval) TO postlease_application;

REVOKE ALL ON FUNCTION postlease.enqueue_email(template text, to_addresses text[], parameters jsonb, cc_addresses text[], bcc_addresses text[], locale text, priority integer, delivery text, send_at timestamp with time zone, expires_at timestamp with time zone, idempotency_key text) FROM PUBLIC;
GRANT ALL ON FUNCTION postlease.enqueue_email(template text, to_addresses text[], parameters jsonb, cc_addresses text[], bcc_addresses text[], locale text, priority integer, delivery text, send_at timestamp with time zone, expires_at timestamp with time zone, idempotency_key text) TO postlease_application;
GRANT ALL ON FUNCTION postlease.enqueue_email(template text, to_addresses text[], parameters jsonb, cc_addresses text[], bcc_addresses text[], locale text, priority integer, delivery text, send_at timestamp with time zone, expires_at timestamp with time zone, idempotency_key text) TO postlease_producer;

GRANT SELECT,INSERT,DELETE ON TABLE postlease.attachment_deletions TO postlease_application;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE postlease.bounces TO postlease_application;

GRANT SELECT,DELETE ON TABLE postlease.email_attachments TO postlease_application;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE postlease.idempotency_keys TO postlease_application;

GRANT SELECT,INSERT,UPDATE ON TABLE postlease.provider_gates TO postlease_application;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE postlease.rate_limits TO postlease_application;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE postlease.suppressions TO postlease_application;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE postlease.users TO postlease_application;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE postlease.verification_tokens TO postlease_application;
