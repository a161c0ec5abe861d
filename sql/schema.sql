-- The whole schema in one piece, to read. Written by `make schema`; change sql/migrations or
-- sql/functions instead. The roles and their settings are made by migrations/0001.

CREATE SCHEMA postlease;

CREATE FUNCTION postlease.attachments_tag(producer text DEFAULT SESSION_USER) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT left(encode(sha256(convert_to(producer, 'UTF8')), 'hex'), 16)
    $$;

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
    CONSTRAINT email_attachments_total_size CHECK ((attachment_bytes <= 28500000)),
    CONSTRAINT email_messages_blocked_whole CHECK ((num_nonnulls(blocked_at, blocked_as) = ANY (ARRAY[0, 2]))),
    CONSTRAINT email_messages_counts CHECK (((attempt_count >= refunded_count) AND (refunded_count >= 0) AND (reaped_count >= 0) AND (unknown_count >= 0) AND (max_attempts > 0))),
    CONSTRAINT email_messages_dispatch_named CHECK (((dispatched_at IS NULL) OR (provider IS NOT NULL))),
    CONSTRAINT email_messages_failure_reason CHECK ((failure_reason = ANY (ARRAY['rejected'::text, 'render_error'::text, 'attachment_missing'::text, 'attachment_changed'::text, 'attempts_exhausted'::text, 'worker_lost'::text, 'outcome_unknown'::text, 'expired'::text, 'superseded'::text, 'suppressed'::text, 'cancelled'::text]))),
    CONSTRAINT email_messages_finished_at_the_end CHECK (((status = ANY (ARRAY['sent'::text, 'failed'::text])) = (finished_at IS NOT NULL))),
    CONSTRAINT email_messages_lease_when_sending CHECK ((num_nonnulls(lease_owner, claimed_at, lease_expires_at) =
CASE status
    WHEN 'sending'::text THEN 3
    ELSE 0
END)),
    CONSTRAINT email_messages_not_dispatched_when_pending CHECK (((status <> 'pending'::text) OR (dispatched_at IS NULL))),
    CONSTRAINT email_messages_reason_when_failed CHECK (((status = 'failed'::text) = (failure_reason IS NOT NULL))),
    CONSTRAINT email_messages_retries CHECK ((retry_count >= 0)),
    CONSTRAINT email_messages_sent_at_when_sent CHECK (((status = 'sent'::text) = (sent_at IS NOT NULL))),
    CONSTRAINT email_messages_sent_is_named CHECK (((status <> 'sent'::text) OR (provider_message_id IS NOT NULL))),
    CONSTRAINT email_messages_status CHECK ((status = ANY (ARRAY['pending'::text, 'sending'::text, 'sent'::text, 'failed'::text]))),
    CONSTRAINT email_messages_times_finite CHECK ((isfinite(available_at) AND isfinite(expires_at)))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='5000', fillfactor='50');

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

CREATE FUNCTION postlease.broken_attachments(producer text, attachments jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $_$
DECLARE
    tag text := postlease.attachments_tag(producer);
    own text := '^attachments/((uploads|kept)/' || tag || '|shared)/.';
    broken text;
BEGIN
    IF jsonb_typeof(attachments) <> 'array' THEN
        RETURN 'email_attachments_array';
    ELSIF jsonb_array_length(attachments) > 20 THEN
        RETURN 'email_attachments_count';
    END IF;
    SELECT f.broken INTO broken FROM (SELECT a.place, CASE
        WHEN jsonb_typeof(a.one) <> 'object' THEN 'email_attachments_member'
        WHEN EXISTS (SELECT FROM jsonb_object_keys(a.one) AS k (name) WHERE k.name NOT IN (
            'storage_ref', 'filename', 'content_type', 'version_id', 'size', 'sha256', 'content_id'))
            THEN 'email_attachments_member:unknown'
        WHEN jsonb_typeof(a.one -> 'storage_ref') IS DISTINCT FROM 'string'
            THEN 'email_attachments_member:storage_ref'
        WHEN jsonb_typeof(a.one -> 'filename') IS DISTINCT FROM 'string'
            THEN 'email_attachments_member:filename'
        WHEN jsonb_typeof(a.one -> 'content_type') IS DISTINCT FROM 'string'
            THEN 'email_attachments_member:content_type'
        WHEN jsonb_typeof(a.one -> 'version_id') NOT IN ('string', 'null')
            THEN 'email_attachments_member:version_id'
        WHEN jsonb_typeof(a.one -> 'size') IS DISTINCT FROM 'number'
            THEN 'email_attachments_member:size'
        WHEN jsonb_typeof(a.one -> 'sha256') IS DISTINCT FROM 'string'
            THEN 'email_attachments_member:sha256'
        WHEN jsonb_typeof(a.one -> 'content_id') NOT IN ('string', 'null')
            THEN 'email_attachments_member:content_id'
        WHEN octet_length(a.one ->> 'storage_ref') > 1024
          OR a.one ->> 'storage_ref' ~ '[\u0001-\u001f\u007f]'
          OR a.one ->> 'storage_ref' ~ '(^|/)[.]{1,2}(/|$)'
            THEN 'email_attachments_key_shape'
        WHEN a.one ->> 'storage_ref' !~ own THEN 'email_attachments_producer_prefix'
        WHEN a.one ->> 'storage_ref' LIKE 'attachments/uploads/%' AND a.one ->> 'version_id' IS NULL
            THEN 'email_attachments_owned_is_pinned'
        WHEN a.one ->> 'version_id' !~ '^[\u0021-\u007e]+$' OR length(a.one ->> 'version_id') > 1024
            THEN 'email_attachments_version_shape'
        WHEN length(a.one ->> 'filename') NOT BETWEEN 1 AND 255
          OR a.one ->> 'filename' ~ '[\u0001-\u001f\u007f-\u009f\u2028\u2029]'
            THEN 'email_attachments_filename'
        WHEN a.one ->> 'content_type'
            !~ '^[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,63}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}$'
            THEN 'email_attachments_content_type'
        WHEN (a.one ->> 'size')::numeric < 0 OR (a.one ->> 'size')::numeric % 1 <> 0
            THEN 'email_attachments_size'
        WHEN a.one ->> 'sha256' !~ '^[0-9A-Fa-f]{64}$' THEN 'email_attachments_sha256_length'
        WHEN a.one ->> 'content_id' !~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'
            THEN 'email_attachments_content_id'
        END AS broken
        FROM jsonb_array_elements(attachments) WITH ORDINALITY AS a (one, place)) AS f
    WHERE f.broken IS NOT NULL
    ORDER BY f.place
    LIMIT 1;
    RETURN coalesce(broken, (
        SELECT CASE
            WHEN sum((a.one ->> 'size')::numeric) > 28500000 THEN 'email_attachments_total_size'
            WHEN count(DISTINCT a.one ->> 'content_id') <> count(a.one ->> 'content_id')
                THEN 'email_attachments_content_ids_distinct'
        END
        FROM jsonb_array_elements(attachments) AS a (one)));
END
$_$;

CREATE FUNCTION postlease.broken_content(parameters jsonb, addresses text[]) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $_$
BEGIN
    RETURN CASE
        WHEN octet_length(parameters::text) > 65536 THEN 'email_messages_parameters_size'
        -- Printable ASCII, one @, none of the characters that join, quote or route addresses.
        WHEN EXISTS (SELECT FROM unnest(addresses) AS a (address)
                     WHERE address IS NULL OR length(address) > 254
                        OR address !~ ('^[A-Za-z0-9!#$%&''*+/=?^_`{|}~.-]{1,64}'
                            || '@([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+'
                            || '[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$')
                        -- A reader's program would decode it to another address (RFC 2047).
                        OR address ~* '=\?[^?]+\?[bq]\?.*\?=')
            THEN 'email_messages_recipient_shape'
        WHEN cardinality(addresses) > 1
         AND (SELECT count(DISTINCT lower(address)) FROM unnest(addresses) AS a (address))
            <> cardinality(addresses)
            THEN 'email_messages_recipients_distinct'
    END;
END
$_$;

CREATE FUNCTION postlease.broken_mailbox(mailbox text) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $_$
DECLARE
    parts text[];
    name text;
BEGIN
    IF length(mailbox) > 512 THEN
        RETURN true;
    END IF;
    parts := regexp_match(mailbox, '^(.*)<([^<]*)>$');
    name := btrim(coalesce(parts[1], ''));
    IF length(name) >= 2 AND name LIKE '"%"' THEN
        name := substr(name, 2, length(name) - 2);
    END IF;
    RETURN length(name) > 128
        -- What is invisible, or ends a line, or turns the direction of reading.
        OR name ~ ('[\u0001-\u001f\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f'
            || '\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ud800-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff]')
        OR postlease.broken_content('{}', ARRAY[coalesce(parts[2], mailbox)]) IS NOT NULL;
END
$_$;

CREATE FUNCTION postlease.broken_message(producer text, template text, to_addresses text[], parameters jsonb, cc_addresses text[], bcc_addresses text[], names jsonb, locale text, priority numeric, delivery text, send_at timestamp with time zone, expires_at timestamp with time zone, idempotency_key text, cancel_scope text, from_address text, reply_to text, tags jsonb, attachments jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $_$
BEGIN
    RETURN CASE
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
        -- Neither infinite nor beyond what programs read: a row with such a time would hide all others.
        WHEN NOT (send_at BETWEEN timestamptz '0001-01-02 00:00:00+00' AND '9999-12-30 00:00:00+00'
                  AND expires_at BETWEEN timestamptz '0001-01-02 00:00:00+00' AND '9999-12-30 00:00:00+00')
            THEN 'email_messages_times_finite'
        -- One that is over already is taken: who repeats a key after that still learns the id.
        WHEN expires_at <= send_at THEN 'email_messages_expires_after_send'
        WHEN length(idempotency_key) NOT BETWEEN 1 AND 255 THEN 'email_messages_key_length'
        WHEN length(cancel_scope) NOT BETWEEN 1 AND 255 THEN 'email_messages_scope_length'
        WHEN from_address IS NOT NULL AND postlease.broken_mailbox(from_address)
            THEN 'email_messages_from_shape'
        WHEN reply_to IS NOT NULL AND postlease.broken_mailbox(reply_to)
            THEN 'email_messages_reply_to_shape'
        ELSE coalesce(
            CASE WHEN names <> '{}' THEN
                postlease.broken_names(names, to_addresses || cc_addresses || bcc_addresses) END,
            CASE WHEN tags <> '{}' THEN postlease.broken_tags(tags) END,
            CASE WHEN attachments <> '[]' THEN
                postlease.broken_attachments(producer, attachments) END)
    END;
END
$_$;

CREATE FUNCTION postlease.broken_names(names jsonb, recipients text[]) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $$
BEGIN
    IF jsonb_typeof(names) <> 'object' THEN
        RETURN 'email_messages_names_object';
    END IF;
    RETURN (
        SELECT min(CASE
            WHEN n.address <> ALL (SELECT lower(r.address) FROM unnest(recipients) AS r (address))
                THEN 'email_messages_names_of_recipients'
            WHEN jsonb_typeof(n.name) <> 'string' OR length(n.name #>> '{}') > 100
              OR n.name #>> '{}' ~ '[\u0001-\u001f\u007f-\u009f\u2028\u2029]'
                THEN 'email_messages_names_shape'
        END)
        FROM jsonb_each(names) AS n (address, name));
END
$$;

CREATE FUNCTION postlease.broken_tags(tags jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $_$
BEGIN
    IF jsonb_typeof(tags) <> 'object' THEN
        RETURN 'email_messages_tags_object';
    END IF;
    RETURN (
        SELECT CASE
            WHEN count(*) > 10 THEN 'email_messages_tags_count'
            WHEN NOT bool_and(
                t.name ~ '^[A-Za-z0-9_-]+$' AND length(t.name) <= 256
                AND lower(t.name) NOT LIKE 'postlease-%' AND jsonb_typeof(t.value) = 'string'
                AND t.value #>> '{}' ~ '^[A-Za-z0-9_-]+$' AND length(t.value #>> '{}') <= 256)
                THEN 'email_messages_tags_shape'
        END
        FROM jsonb_each(tags) AS t (name, value));
END
$_$;

CREATE FUNCTION postlease.check_message_content() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $_$
DECLARE
    broken text := CASE
        WHEN NEW.template !~ '^[a-z][a-z0-9_]{0,63}$' THEN 'email_messages_template_shape'
        WHEN NEW.locale !~ '^[A-Za-z0-9-]{1,35}$' THEN 'email_messages_locale_shape'
        WHEN jsonb_typeof(NEW.parameters) <> 'object' THEN 'email_messages_parameters_object'
        WHEN jsonb_typeof(NEW.tags) <> 'object' THEN 'email_messages_tags_object'
        WHEN jsonb_typeof(NEW.recipient_names) <> 'object' THEN 'email_messages_names_object'
        WHEN cardinality(NEW.to_addresses) = 0
          OR cardinality(NEW.to_addresses) + cardinality(NEW.cc_addresses)
             + cardinality(NEW.bcc_addresses) > 50
            THEN 'email_messages_recipient_count'
        WHEN greatest(array_ndims(NEW.to_addresses), array_ndims(NEW.cc_addresses),
                      array_ndims(NEW.bcc_addresses)) > 1
            THEN 'email_messages_recipients_flat'
        -- A token is for one person's eyes: nobody is copied, and only these templates carry one.
        WHEN NEW.token_id IS NOT NULL
         AND (cardinality(NEW.to_addresses) > 1
              OR cardinality(NEW.cc_addresses) + cardinality(NEW.bcc_addresses) > 0)
            THEN 'email_messages_token_alone'
        WHEN (NEW.token_id IS NOT NULL) <> (NEW.template IN ('verify_email', 'reset_password'))
            THEN 'email_messages_token_template'
        WHEN NEW.priority NOT IN (0, 50, 100) THEN 'email_messages_priority'
        WHEN NEW.delivery NOT IN ('at_least_once', 'at_most_once') THEN 'email_messages_delivery'
        WHEN length(NEW.idempotency_key) NOT BETWEEN 1 AND 255 THEN 'email_messages_key_length'
        WHEN (NEW.idempotency_key IS NULL) <> (NEW.content_hash IS NULL)
            THEN 'email_messages_key_hashed'
        WHEN length(NEW.cancel_scope) NOT BETWEEN 1 AND 255 THEN 'email_messages_scope_length'
        WHEN NEW.attachment_bytes < 0 THEN 'email_messages_attachment_bytes'
        ELSE postlease.broken_content(
            NEW.parameters, NEW.to_addresses || NEW.cc_addresses || NEW.bcc_addresses)
    END;
BEGIN
    IF broken IS NOT NULL THEN
        RAISE EXCEPTION '%', CASE broken
                WHEN 'email_messages_parameters_size' THEN 'parameters are larger than 64 kB'
                WHEN 'email_messages_recipient_shape' THEN 'a recipient is not one plain address'
                WHEN 'email_messages_recipients_distinct' THEN
                    'an address stands twice among the recipients'
                ELSE 'a message breaks ' || broken END
            USING ERRCODE = 'check_violation', CONSTRAINT = broken;
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
    SET standard_conforming_strings TO 'on'
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

CREATE FUNCTION postlease.enqueue_email(template text, to_addresses text[], parameters jsonb DEFAULT '{}'::jsonb, cc_addresses text[] DEFAULT '{}'::text[], bcc_addresses text[] DEFAULT '{}'::text[], names jsonb DEFAULT '{}'::jsonb, locale text DEFAULT 'en'::text, priority integer DEFAULT 50, delivery text DEFAULT 'at_least_once'::text, send_at timestamp with time zone DEFAULT NULL::timestamp with time zone, expires_at timestamp with time zone DEFAULT NULL::timestamp with time zone, idempotency_key text DEFAULT NULL::text, cancel_scope text DEFAULT NULL::text, from_address text DEFAULT NULL::text, reply_to text DEFAULT NULL::text, tags jsonb DEFAULT '{}'::jsonb, attachments jsonb DEFAULT '[]'::jsonb) RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_column
DECLARE
    absent text;
    broken text := postlease.broken_message(
        session_user, template, to_addresses, parameters, cc_addresses, bcc_addresses, names, locale,
        priority, delivery, send_at, expires_at, idempotency_key, cancel_scope, from_address, reply_to,
        tags, attachments);
    digest bytea;
    found_id uuid;
    found_digest bytea;
BEGIN
    IF num_nulls(template, to_addresses, parameters, cc_addresses, bcc_addresses, names, locale,
                 priority, delivery, tags, attachments) > 0 THEN
        absent := CASE
            WHEN template IS NULL THEN 'template'
            WHEN to_addresses IS NULL THEN 'to_addresses'
            WHEN parameters IS NULL THEN 'parameters'
            WHEN cc_addresses IS NULL THEN 'cc_addresses'
            WHEN bcc_addresses IS NULL THEN 'bcc_addresses'
            WHEN names IS NULL THEN 'names'
            WHEN locale IS NULL THEN 'locale'
            WHEN priority IS NULL THEN 'priority'
            WHEN delivery IS NULL THEN 'delivery'
            WHEN tags IS NULL THEN 'tags'
            ELSE 'attachments'
        END;
        RAISE EXCEPTION 'enqueue_email needs a value for %', absent
            USING ERRCODE = 'not_null_violation', COLUMN = absent;
    END IF;
    IF broken IS NOT NULL THEN
        PERFORM postlease.refuse_message(broken);
    END IF;
    IF cancel_scope IS NOT NULL OR attachments <> '[]' THEN
        -- More than one statement is needed: the same as for a batch, of one.
        RETURN (SELECT f.id FROM postlease.enqueue_for(session_user, jsonb_build_array(jsonb_build_object(
            'template', template, 'to_addresses', to_addresses, 'parameters', parameters,
            'cc_addresses', cc_addresses, 'bcc_addresses', bcc_addresses, 'names', names,
            'locale', locale, 'priority', priority, 'delivery', delivery, 'send_at', send_at,
            'expires_at', expires_at, 'idempotency_key', idempotency_key,
            'cancel_scope', cancel_scope, 'from_address', from_address, 'reply_to', reply_to,
            'tags', tags, 'attachments', attachments))) AS f);
    END IF;
    IF idempotency_key IS NOT NULL THEN
        digest := postlease.message_digest(
            template, to_addresses, parameters, cc_addresses, bcc_addresses, names, locale, priority,
            delivery, send_at, expires_at, cancel_scope, from_address, reply_to, tags, attachments);
    END IF;
    INSERT INTO postlease.email_messages (
        template, parameters, locale, to_addresses, cc_addresses, bcc_addresses, recipient_names,
        from_address, reply_to, tags, producer, idempotency_key, content_hash, priority, delivery,
        available_at, expires_at)
    VALUES (
        enqueue_email.template, enqueue_email.parameters, enqueue_email.locale,
        enqueue_email.to_addresses, enqueue_email.cc_addresses, enqueue_email.bcc_addresses,
        enqueue_email.names, enqueue_email.from_address, enqueue_email.reply_to, enqueue_email.tags,
        session_user, enqueue_email.idempotency_key, digest, enqueue_email.priority,
        enqueue_email.delivery, greatest(enqueue_email.send_at, now()), enqueue_email.expires_at)
    ON CONFLICT (producer, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
    RETURNING id INTO found_id;
    IF found_id IS NULL THEN
        SELECT m.id, m.content_hash INTO found_id, found_digest FROM postlease.email_messages AS m
        WHERE m.producer = session_user AND m.idempotency_key = enqueue_email.idempotency_key;
        IF found_digest IS DISTINCT FROM digest THEN
            PERFORM postlease.refuse_message('email_messages_idempotency');
        END IF;
    END IF;
    RETURN found_id;
END
$$;

CREATE FUNCTION postlease.enqueue_emails(messages jsonb) RETURNS TABLE("position" integer, id uuid)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    RETURN QUERY
    SELECT f."position", f.id FROM postlease.enqueue_for(session_user::text, messages) AS f;
END
$$;

CREATE FUNCTION postlease.enqueue_for(producer text, messages jsonb) RETURNS TABLE("position" integer, id uuid, is_new boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $_$
#variable_conflict use_column
DECLARE
    asker text := enqueue_for.producer;
    fault record;
    -- What was made of the messages, in their order.
    ids uuid[];
    born boolean[];
    keys text[];
    digests bytea[];
    scopes text[];
    enclosed jsonb[];
    newest uuid[];
    faults text[];
    fault_place integer;
BEGIN
    IF length(asker) NOT BETWEEN 1 AND 255 OR asker IS NULL THEN
        PERFORM postlease.refuse_message('email_messages_producer');
    ELSIF jsonb_typeof(messages) IS DISTINCT FROM 'array' THEN
        PERFORM postlease.refuse_message('email_messages_batch');
    END IF;

    -- What no message may say would be lost in silence, and what has another type would be repeated by
    -- the error of its conversion.
    SELECT (m.place - 1)::integer AS place,
           CASE WHEN jsonb_typeof(m.message) <> 'object' THEN 'email_messages_batch'
                ELSE 'email_messages_member:' || wrong.name END AS broken
    INTO fault
    FROM jsonb_array_elements(messages) WITH ORDINALITY AS m (message, place)
    LEFT JOIN LATERAL (
        SELECT said.name FROM jsonb_each(CASE jsonb_typeof(m.message) WHEN 'object' THEN m.message ELSE '{}' END)
            AS said (name, value)
        WHERE CASE
            WHEN said.name IN ('template', 'locale', 'delivery', 'send_at', 'expires_at',
                               'idempotency_key', 'cancel_scope', 'from_address', 'reply_to')
                THEN jsonb_typeof(said.value) NOT IN ('string', 'null')
            WHEN said.name IN ('to_addresses', 'cc_addresses', 'bcc_addresses')
                THEN jsonb_typeof(said.value) NOT IN ('array', 'null')
                  OR said.value @? 'strict $[*] ? (@.type() == "array")'
            WHEN said.name = 'priority' THEN jsonb_typeof(said.value) NOT IN ('number', 'null')
            ELSE said.name NOT IN ('parameters', 'names', 'tags', 'attachments')
        END
        LIMIT 1) AS wrong ON true
    WHERE jsonb_typeof(m.message) <> 'object' OR wrong.name IS NOT NULL
    ORDER BY m.place
    LIMIT 1;
    IF FOUND THEN
        PERFORM postlease.refuse_message(fault.broken, fault.place);
    END IF;

    WITH said AS MATERIALIZED (
        SELECT (m.place - 1)::integer AS place, postlease.uuid_v7() AS id,
               m.template, m.to_addresses,
               coalesce(nullif(m.parameters, 'null'), '{}') AS parameters,
               coalesce(m.cc_addresses, '{}') AS cc_addresses,
               coalesce(m.bcc_addresses, '{}') AS bcc_addresses,
               coalesce(nullif(m.names, 'null'), '{}') AS names,
               coalesce(m.locale, 'en') AS locale, coalesce(m.priority, 50) AS priority,
               coalesce(m.delivery, 'at_least_once') AS delivery,
               CASE WHEN m.send_at IS NOT NULL THEN postlease.moment_of(m.send_at) END AS send_at,
               CASE WHEN m.expires_at IS NOT NULL THEN postlease.moment_of(m.expires_at) END AS expires_at,
               m.idempotency_key, m.cancel_scope, m.from_address, m.reply_to,
               coalesce(nullif(m.tags, 'null'), '{}') AS tags,
               coalesce(nullif(m.attachments, 'null'), '[]') AS attachments
        FROM ROWS FROM (jsonb_to_recordset(messages) AS (
            template text, to_addresses text[], parameters jsonb, cc_addresses text[],
            bcc_addresses text[], names jsonb, locale text, priority numeric, delivery text,
            send_at text, expires_at text, idempotency_key text, cancel_scope text,
            from_address text, reply_to text, tags jsonb, attachments jsonb)) WITH ORDINALITY
            AS m (template, to_addresses, parameters, cc_addresses, bcc_addresses, names, locale,
                  priority, delivery, send_at, expires_at, idempotency_key, cancel_scope,
                  from_address, reply_to, tags, attachments, place)
    ), asked AS MATERIALIZED (
        SELECT s.*, CASE WHEN s.broken IS NULL AND s.idempotency_key IS NOT NULL THEN postlease.message_digest(
            s.template, s.to_addresses, s.parameters, s.cc_addresses, s.bcc_addresses, s.names,
            s.locale, s.priority::integer, s.delivery, s.send_at, s.expires_at, s.cancel_scope,
            s.from_address, s.reply_to, s.tags, s.attachments) END AS digest
        FROM (
            SELECT s.*, coalesce(
                CASE WHEN s.template IS NULL THEN 'template' END,
                CASE WHEN s.to_addresses IS NULL THEN 'to_addresses' END,
                postlease.broken_message(
                    asker, s.template, s.to_addresses, s.parameters, s.cc_addresses, s.bcc_addresses,
                    s.names, s.locale, s.priority, s.delivery, s.send_at, s.expires_at,
                    s.idempotency_key, s.cancel_scope, s.from_address, s.reply_to, s.tags,
                    s.attachments),
                postlease.broken_content(
                    s.parameters, s.to_addresses || s.cc_addresses || s.bcc_addresses)) AS broken
            FROM said AS s
            OFFSET 0) AS s
    ), made AS (
        INSERT INTO postlease.email_messages (
            id, template, parameters, locale, to_addresses, cc_addresses, bcc_addresses,
            recipient_names, from_address, reply_to, tags, producer, idempotency_key, content_hash,
            cancel_scope, priority, delivery, available_at, expires_at, attachment_bytes)
        SELECT a.id, a.template, a.parameters, a.locale, a.to_addresses, a.cc_addresses,
               a.bcc_addresses, a.names, a.from_address, a.reply_to, a.tags, asker,
               a.idempotency_key, a.digest, a.cancel_scope, a.priority, a.delivery,
               greatest(a.send_at, now()), a.expires_at,
               CASE WHEN a.attachments = '[]' THEN 0 ELSE (
                   SELECT sum((e.one ->> 'size')::bigint)
                   FROM jsonb_array_elements(a.attachments) AS e (one)) END
        FROM asked AS a
        WHERE NOT EXISTS (SELECT FROM asked AS b WHERE b.broken IS NOT NULL)
        -- In the order of the keys: of two sessions that use the same ones, one waits.
        ORDER BY a.idempotency_key, a.place
        ON CONFLICT (producer, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
        RETURNING id
    )
    SELECT array_agg(a.id ORDER BY a.place), array_agg(made.id IS NOT NULL ORDER BY a.place),
           array_agg(a.idempotency_key ORDER BY a.place), array_agg(a.digest ORDER BY a.place),
           array_agg(a.cancel_scope ORDER BY a.place),
           array_agg(nullif(a.attachments, '[]') ORDER BY a.place),
           array_agg(a.broken ORDER BY a.place) FILTER (WHERE a.broken IS NOT NULL),
           min(a.place) FILTER (WHERE a.broken IS NOT NULL)
    INTO ids, born, keys, digests, scopes, enclosed, faults, fault_place
    FROM asked AS a LEFT JOIN made ON made.id = a.id;

    -- Out here, so that the error's context does not show the whole statement to whoever reads it.
    IF fault_place IS NOT NULL THEN
        PERFORM postlease.refuse_message(faults[1], fault_place);
    END IF;

    -- A statement of its own sees what another session committed while this one waited for its key.
    IF false = ANY (born) THEN
        SELECT array_agg(CASE WHEN a.born THEN a.id ELSE m.id END ORDER BY a.place),
               min(a.place) FILTER (WHERE NOT a.born AND m.content_hash IS DISTINCT FROM a.digest)
        INTO ids, fault_place
        FROM unnest(ids, born, keys, digests) WITH ORDINALITY AS a (id, born, key, digest, place)
        LEFT JOIN postlease.email_messages AS m
            ON NOT a.born AND m.producer = asker AND m.idempotency_key = a.key;
        IF fault_place IS NOT NULL THEN
            PERFORM postlease.refuse_message('email_messages_idempotency', fault_place - 1);
        END IF;
    END IF;

    IF num_nonnulls(VARIADIC enclosed) > 0 THEN
        WITH wanted AS MATERIALIZED (
            SELECT a.id, a.place, e.spot, e.one
            FROM unnest(ids, born, enclosed) WITH ORDINALITY AS a (id, born, attachments, place)
            CROSS JOIN LATERAL jsonb_array_elements(a.attachments) WITH ORDINALITY AS e (one, spot)
            WHERE a.born
        ), kept AS (
            -- In the order of the objects: of two sessions that name the same ones, one waits.
            INSERT INTO postlease.email_attachments (
                message_id, position, filename, content_type, storage_ref, version_id, size, sha256,
                content_id)
            SELECT w.id, w.spot - 1, w.one ->> 'filename', w.one ->> 'content_type',
                   w.one ->> 'storage_ref', w.one ->> 'version_id', (w.one ->> 'size')::bigint,
                   decode(w.one ->> 'sha256', 'hex'), w.one ->> 'content_id'
            FROM wanted AS w
            ORDER BY w.one ->> 'storage_ref', w.place
            ON CONFLICT (storage_ref) WHERE owned DO NOTHING
            RETURNING message_id, position
        )
        SELECT min(w.place) INTO fault_place
        FROM wanted AS w
        LEFT JOIN kept AS k ON k.message_id = w.id AND k.position = w.spot - 1
        WHERE k.message_id IS NULL;
        IF fault_place IS NOT NULL THEN
            PERFORM postlease.refuse_message('email_attachments_one_owner', fault_place - 1);
        END IF;
    END IF;

    -- Of a scope the newest stays. A repeated key is not newer than what came after it.
    SELECT array_agg(n.scope), array_agg(n.id) INTO scopes, newest
    FROM (
        SELECT DISTINCT ON (a.scope) a.scope, a.id
        FROM unnest(ids, born, scopes) WITH ORDINALITY AS a (id, born, scope, place)
        WHERE a.born AND a.scope IS NOT NULL
        ORDER BY a.scope, a.place DESC) AS n;
    IF newest IS NOT NULL THEN
        -- Without the lock two sessions would each not see the other's message, and both would stay.
        PERFORM pg_advisory_xact_lock(l.key)
        FROM (
            SELECT DISTINCT hashtextextended(jsonb_build_array(asker, s.scope)::text, 0) AS key
            FROM unnest(scopes) AS s (scope)
            ORDER BY key) AS l;
        WITH older AS MATERIALIZED (
            SELECT m.id
            FROM postlease.email_messages AS m
            WHERE m.producer = asker
              AND m.cancel_scope = ANY (scopes)
              AND m.finished_at IS NULL
              AND m.status = 'pending'
              AND m.id <> ALL (newest)
            ORDER BY m.id
            FOR NO KEY UPDATE
        )
        UPDATE postlease.email_messages AS m
        SET status = 'failed', failure_reason = 'superseded', finished_at = now()
        FROM older
        WHERE m.id = older.id;
    END IF;

    RETURN QUERY
    SELECT (a.place - 1)::integer, a.id, a.born
    FROM unnest(ids, born) WITH ORDINALITY AS a (id, born, place)
    ORDER BY a.place;
END
$_$;

CREATE FUNCTION postlease.message_digest(template text, to_addresses text[], parameters jsonb, cc_addresses text[], bcc_addresses text[], names jsonb, locale text, priority integer, delivery text, send_at timestamp with time zone, expires_at timestamp with time zone, cancel_scope text, from_address text, reply_to text, tags jsonb, attachments jsonb) RETURNS bytea
    LANGUAGE plpgsql STABLE PARALLEL SAFE
    AS $$
DECLARE
    further jsonb := jsonb_strip_nulls(jsonb_build_object(
        'names', nullif(names, '{}'), 'cancel_scope', cancel_scope, 'from_address', from_address,
        'reply_to', reply_to, 'tags', nullif(tags, '{}'), 'attachments', nullif(attachments, '[]')));
BEGIN
    RETURN sha256(convert_to((
        -- Seconds, because a moment's text depends on the session's time zone.
        jsonb_build_array(
            template, to_addresses, parameters, cc_addresses, bcc_addresses, locale, priority, delivery,
            extract(epoch FROM send_at), extract(epoch FROM expires_at))
        || CASE WHEN further = '{}' THEN '[]' ELSE jsonb_build_array(further) END)::text, 'UTF8'));
END
$$;

CREATE FUNCTION postlease.moment_of(written text) RETURNS timestamp with time zone
    LANGUAGE plpgsql STABLE PARALLEL SAFE
    AS $_$
BEGIN
    IF written !~* ('^[0-9]{4,6}-[0-9]{2}-[0-9]{2}[t ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?'
                    || '(z|[+-][0-9]{2}(:?[0-9]{2}){0,2})$') THEN
        RETURN 'infinity';
    END IF;
    RETURN written::timestamptz;
EXCEPTION WHEN data_exception THEN
    RETURN 'infinity';
END
$_$;

CREATE FUNCTION postlease.refuse_message(broken text, at integer DEFAULT NULL::integer) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
DECLARE
    rule text := split_part(broken, ':', 1);
    member text := substr(broken, length(rule) + 2);
    needed text := CASE
        WHEN rule = 'email_messages_member' THEN CASE
            WHEN member IN ('to_addresses', 'cc_addresses', 'bcc_addresses')
                THEN member || ' is an array of texts'
            WHEN member = 'priority' THEN member || ' is a number'
            WHEN member IN ('template', 'locale', 'delivery', 'send_at', 'expires_at', 'idempotency_key',
                            'cancel_scope', 'from_address', 'reply_to')
                THEN member || ' is a text'
            ELSE 'a member is unknown: there are template, to_addresses, parameters, cc_addresses, '
                'bcc_addresses, names, locale, priority, delivery, send_at, expires_at, idempotency_key, '
                'cancel_scope, from_address, reply_to, tags and attachments' END
        WHEN rule = 'email_attachments_member' THEN CASE
            WHEN member = '' THEN 'an attachment is an object'
            WHEN member IN ('storage_ref', 'filename', 'content_type', 'sha256')
                THEN member || ' of an attachment is a text, and has to be given'
            WHEN member = 'size' THEN 'size of an attachment is a number, and has to be given'
            WHEN member IN ('version_id', 'content_id') THEN member || ' of an attachment is a text'
            ELSE 'a member of an attachment is unknown: there are storage_ref, version_id, filename, '
                'content_type, size, sha256 and content_id' END
    END;
    meaning text := CASE rule
        WHEN 'template' THEN 'template needs a value'
        WHEN 'to_addresses' THEN 'to_addresses needs a value'
        WHEN 'email_messages_producer' THEN 'a producer''s name has 1 to 255 characters'
        WHEN 'email_messages_batch' THEN 'messages are an array of objects'
        WHEN 'email_messages_member' THEN 'a member is unknown, or of another type than it must be'
        WHEN 'email_messages_template_shape' THEN
            'a template''s name is 1 to 64 of a-z, 0-9 and _, a letter first'
        WHEN 'email_messages_token_template' THEN 'this template carries a token: only the API sends it'
        WHEN 'email_messages_locale_shape' THEN 'a locale is 1 to 35 letters, digits and hyphens'
        WHEN 'email_messages_parameters_object' THEN 'parameters are an object'
        WHEN 'email_messages_parameters_size' THEN 'parameters are larger than 64 kB'
        WHEN 'email_messages_recipients_flat' THEN 'recipients are lists of one dimension'
        WHEN 'email_messages_recipient_count' THEN
            'a message has 1 to 50 recipients, one of them in to_addresses'
        WHEN 'email_messages_recipient_shape' THEN
            'a recipient is not one plain address: no name, no list, an international domain in A-labels (xn--...)'
        WHEN 'email_messages_recipients_distinct' THEN 'an address stands twice among the recipients'
        WHEN 'email_messages_names_object' THEN 'names are an object'
        WHEN 'email_messages_names_of_recipients' THEN
            'a key of names is the address of a recipient in lower case'
        WHEN 'email_messages_names_shape' THEN
            'a name is a text of at most 100 characters, none of which controls or ends a line'
        WHEN 'email_messages_priority' THEN 'priority is 50 or 100'
        WHEN 'email_messages_delivery' THEN 'delivery is at_least_once or at_most_once'
        WHEN 'email_messages_times_finite' THEN
            'send_at and expires_at are moments of the years 1 to 9999; as text, RFC 3339 with an offset'
        WHEN 'email_messages_expires_after_send' THEN 'expires_at is later than send_at'
        WHEN 'email_messages_key_length' THEN 'an idempotency key has 1 to 255 characters'
        WHEN 'email_messages_scope_length' THEN 'a cancel scope has 1 to 255 characters'
        WHEN 'email_messages_from_shape' THEN 'from_address is name@domain or Name <name@domain>'
        WHEN 'email_messages_reply_to_shape' THEN 'reply_to is name@domain or Name <name@domain>'
        WHEN 'email_messages_tags_object' THEN 'tags are an object'
        WHEN 'email_messages_tags_count' THEN 'a message has at most 10 tags'
        WHEN 'email_messages_tags_shape' THEN
            'a tag''s name and text are 1 to 256 of A-Z, a-z, 0-9, _ and -; postlease- is taken'
        WHEN 'email_messages_idempotency' THEN 'this idempotency key was used for other content'
        WHEN 'email_attachments_array' THEN 'attachments are an array'
        WHEN 'email_attachments_count' THEN 'a message has at most 20 attachments'
        WHEN 'email_attachments_member' THEN
            'a member of an attachment is unknown, missing, or of another type than it must be'
        WHEN 'email_attachments_producer_prefix' THEN
            'storage_ref is under none of the prefixes that this producer may name'
        WHEN 'email_attachments_key_shape' THEN
            'storage_ref has at most 1024 bytes, no control character and no part . or ..'
        WHEN 'email_attachments_owned_is_pinned' THEN 'an upload is named with its version_id'
        WHEN 'email_attachments_version_shape' THEN 'a version_id is 1 to 1024 visible ASCII characters'
        WHEN 'email_attachments_filename' THEN
            'a filename has 1 to 255 characters, none of which controls or ends a line'
        WHEN 'email_attachments_content_type' THEN 'a content_type is type/subtype'
        WHEN 'email_attachments_size' THEN 'a size is a whole number of bytes'
        WHEN 'email_attachments_sha256_length' THEN 'a sha256 is 64 hex digits'
        WHEN 'email_attachments_content_id' THEN
            'a content_id is 1 to 100 letters, digits, dots, hyphens and _, not a sign first'
        WHEN 'email_attachments_content_ids_distinct' THEN 'a content_id stands twice in the message'
        WHEN 'email_attachments_total_size' THEN
            'the attachments of a message are 28500000 bytes at most (38 MB as base64)'
        WHEN 'email_attachments_one_owner' THEN 'an upload belongs to one message'
    END;
BEGIN
    RAISE EXCEPTION '%', concat('message ' || at || ': ', coalesce(needed, meaning), ' (' || rule || ')')
        USING ERRCODE = CASE
                WHEN rule IN ('template', 'to_addresses') THEN 'not_null_violation'
                WHEN rule IN ('email_messages_idempotency', 'email_attachments_one_owner')
                    THEN 'unique_violation'
                ELSE 'check_violation' END,
            CONSTRAINT = CASE WHEN rule LIKE 'email\_%' THEN rule ELSE '' END,
            COLUMN = CASE WHEN rule LIKE 'email\_%' THEN '' ELSE rule END;
END
$$;

CREATE TABLE postlease.archive_chunks (
    id uuid DEFAULT postlease.uuid_v7() NOT NULL,
    message_ids uuid[] NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT archive_chunks_some CHECK ((cardinality(message_ids) > 0))
);

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
    CONSTRAINT email_attachments_content_type CHECK ((content_type ~ '^[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,63}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}$'::text)),
    CONSTRAINT email_attachments_filename CHECK (((length(filename) >= 1) AND (length(filename) <= 255) AND (filename !~ '[\u0001-\u001f\u007f-\u009f\u2028\u2029]'::text))),
    CONSTRAINT email_attachments_key_shape CHECK (((octet_length(storage_ref) <= 1024) AND (storage_ref !~ '[\u0001-\u001f\u007f]'::text) AND (storage_ref !~ '(^|/)[.]{1,2}(/|$)'::text))),
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
    is_paused boolean DEFAULT false NOT NULL,
    ruled_at timestamp with time zone,
    ruled_by text,
    ruled_because text,
    CONSTRAINT provider_gates_closed_whole CHECK ((num_nonnulls(closed_at, close_reason, probe_at) = ANY (ARRAY[0, 3]))),
    CONSTRAINT provider_gates_failures CHECK ((failures_in_a_row >= 0)),
    CONSTRAINT provider_gates_paused_whole CHECK (((NOT is_paused) OR ((closed_at IS NOT NULL) AND (probe_at = 'infinity'::timestamp with time zone) AND (ruled_at IS NOT NULL)))),
    CONSTRAINT provider_gates_rate CHECK (((num_nonnulls(limit_per_second, rate_per_second) = ANY (ARRAY[0, 2])) AND (rate_per_second > (0)::double precision) AND (rate_per_second <= limit_per_second))),
    CONSTRAINT provider_gates_reason_length CHECK (((char_length(ruled_because) >= 1) AND (char_length(ruled_because) <= 200))),
    CONSTRAINT provider_gates_ruling_whole CHECK ((num_nonnulls(ruled_at, ruled_by, ruled_because) = ANY (ARRAY[0, 3])))
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

CREATE TABLE postlease.retention_duties (
    duty text NOT NULL,
    "position" text DEFAULT ''::text NOT NULL,
    lease_owner text,
    lease_expires_at timestamp with time zone,
    ended_at timestamp with time zone,
    CONSTRAINT retention_duties_lease_whole CHECK ((num_nonnulls(lease_owner, lease_expires_at) = ANY (ARRAY[0, 2])))
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

ALTER TABLE ONLY postlease.archive_chunks
    ADD CONSTRAINT archive_chunks_pkey PRIMARY KEY (id);

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

ALTER TABLE ONLY postlease.retention_duties
    ADD CONSTRAINT retention_duties_pkey PRIMARY KEY (duty);

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

CREATE INDEX email_messages_of_scope ON postlease.email_messages USING btree (producer, cancel_scope, id) WHERE ((cancel_scope IS NOT NULL) AND (finished_at IS NOT NULL));

CREATE INDEX email_messages_of_token ON postlease.email_messages USING btree (token_id) WHERE (token_id IS NOT NULL);

CREATE INDEX email_messages_redactable ON postlease.email_messages USING btree (finished_at) WHERE ((priority = 0) AND (finished_at IS NOT NULL) AND (redacted_at IS NULL));

CREATE INDEX email_messages_suspects ON postlease.email_messages USING btree (priority, available_at, id) WHERE ((finished_at IS NULL) AND (reaped_count > 0));

CREATE INDEX email_messages_unfinished ON postlease.email_messages USING btree (priority, available_at, id) WHERE (finished_at IS NULL);

CREATE INDEX verification_tokens_by_age ON postlease.verification_tokens USING brin (expires_at) WITH (autosummarize='on');

CREATE UNIQUE INDEX verification_tokens_one_live ON postlease.verification_tokens USING btree (user_id, purpose) WHERE ((redeemed_at IS NULL) AND (superseded_at IS NULL));

CREATE TRIGGER email_messages_content BEFORE INSERT ON postlease.email_messages FOR EACH ROW EXECUTE FUNCTION postlease.check_message_content();

CREATE TRIGGER email_messages_content_changed AFTER UPDATE OF template, locale, parameters, tags, recipient_names, to_addresses, cc_addresses, bcc_addresses, token_id, priority, delivery, idempotency_key, content_hash, cancel_scope, attachment_bytes ON postlease.email_messages FOR EACH ROW EXECUTE FUNCTION postlease.check_message_content();

ALTER TABLE ONLY postlease.email_attachments
    ADD CONSTRAINT email_attachments_message_fkey FOREIGN KEY (message_id) REFERENCES postlease.email_messages(id) ON DELETE CASCADE;

ALTER TABLE ONLY postlease.email_messages
    ADD CONSTRAINT email_messages_token_fkey FOREIGN KEY (token_id) REFERENCES postlease.verification_tokens(id);

GRANT USAGE ON SCHEMA postlease TO postlease_application;
GRANT USAGE ON SCHEMA postlease TO postlease_producer;

REVOKE ALL ON FUNCTION postlease.attachments_tag(producer text) FROM PUBLIC;
GRANT ALL ON FUNCTION postlease.attachments_tag(producer text) TO postlease_application;
GRANT ALL ON FUNCTION postlease.attachments_tag(producer text) TO postlease_producer;

REVOKE ALL ON FUNCTION postlease.attempts_kept(attempts jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION postlease.attempts_kept(attempts jsonb) TO postlease_application;

REVOKE ALL ON FUNCTION postlease.uuid_v7() FROM PUBLIC;
GRANT ALL ON FUNCTION postlease.uuid_v7() TO postlease_application;

GRANT SELECT,DELETE,UPDATE ON TABLE postlease.email_messages TO postlease_application;

REVOKE ALL ON FUNCTION postlease.attempts_with(message postlease.email_messages, outcome text, code text, provider_message_id text, refunded boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION postlease.attempts_with(message postlease.email_messages, outcome text, code text, provider_message_id text, refunded boolean) TO postlease_application;

REVOKE ALL ON FUNCTION postlease.broken_attachments(producer text, attachments jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION postlease.broken_content(parameters jsonb, addresses text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION postlease.broken_content(parameters jsonb, addresses text[]) TO postlease_application;

REVOKE ALL ON FUNCTION postlease.broken_mailbox(mailbox text) FROM PUBLIC;

REVOKE ALL ON FUNCTION postlease.broken_message(producer text, template text, to_addresses text[], parameters jsonb, cc_addresses text[], bcc_addresses text[], names jsonb, locale text, priority numeric, delivery text, send_at timestamp with time zone, expires_at timestamp with time zone, idempotency_key text, cancel_scope text, from_address text, reply_to text, tags jsonb, attachments jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION postlease.broken_names(names jsonb, recipients text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION postlease.broken_tags(tags jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION postlease.check_message_content() FROM PUBLIC;

REVOKE ALL ON FUNCTION postlease.drop_other_signatures(kept regprocedure) FROM PUBLIC;

REVOKE ALL ON FUNCTION postlease.enqueue_auth_email(template text, user_id uuid, token_id uuid, parameters jsonb, locale text, lifetime interval) FROM PUBLIC;
GRANT ALL ON FUNCTION postlease.enqueue_auth_email(template text, user_id uuid, token_id uuid, parameters jsonb, locale text, lifetime interval) TO postlease_application;

REVOKE ALL ON FUNCTION postlease.enqueue_email(template text, to_addresses text[], parameters jsonb, cc_addresses text[], bcc_addresses text[], names jsonb, locale text, priority integer, delivery text, send_at timestamp with time zone, expires_at timestamp with time zone, idempotency_key text, cancel_scope text, from_address text, reply_to text, tags jsonb, attachments jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION postlease.enqueue_email(template text, to_addresses text[], parameters jsonb, cc_addresses text[], bcc_addresses text[], names jsonb, locale text, priority integer, delivery text, send_at timestamp with time zone, expires_at timestamp with time zone, idempotency_key text, cancel_scope text, from_address text, reply_to text, tags jsonb, attachments jsonb) TO postlease_application;
GRANT ALL ON FUNCTION postlease.enqueue_email(template text, to_addresses text[], parameters jsonb, cc_addresses text[], bcc_addresses text[], names jsonb, locale text, priority integer, delivery text, send_at timestamp with time zone, expires_at timestamp with time zone, idempotency_key text, cancel_scope text, from_address text, reply_to text, tags jsonb, attachments jsonb) TO postlease_producer;

REVOKE ALL ON FUNCTION postlease.enqueue_emails(messages jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION postlease.enqueue_emails(messages jsonb) TO postlease_application;
GRANT ALL ON FUNCTION postlease.enqueue_emails(messages jsonb) TO postlease_producer;

REVOKE ALL ON FUNCTION postlease.enqueue_for(producer text, messages jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION postlease.enqueue_for(producer text, messages jsonb) TO postlease_application;

REVOKE ALL ON FUNCTION postlease.message_digest(template text, to_addresses text[], parameters jsonb, cc_addresses text[], bcc_addresses text[], names jsonb, locale text, priority integer, delivery text, send_at timestamp with time zone, expires_at timestamp with time zone, cancel_scope text, from_address text, reply_to text, tags jsonb, attachments jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION postlease.moment_of(written text) FROM PUBLIC;

REVOKE ALL ON FUNCTION postlease.refuse_message(broken text, at integer) FROM PUBLIC;

GRANT SELECT,INSERT,DELETE ON TABLE postlease.archive_chunks TO postlease_application;

GRANT SELECT,INSERT,DELETE ON TABLE postlease.attachment_deletions TO postlease_application;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE postlease.bounces TO postlease_application;

GRANT SELECT,DELETE ON TABLE postlease.email_attachments TO postlease_application;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE postlease.idempotency_keys TO postlease_application;

GRANT SELECT,INSERT,UPDATE ON TABLE postlease.provider_gates TO postlease_application;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE postlease.rate_limits TO postlease_application;

GRANT SELECT,INSERT,UPDATE ON TABLE postlease.retention_duties TO postlease_application;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE postlease.suppressions TO postlease_application;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE postlease.users TO postlease_application;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE postlease.verification_tokens TO postlease_application;
