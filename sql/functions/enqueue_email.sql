-- The producers' contract: ask for an email inside your own transaction, on your own connection.
--
-- Returns the message's id. Never commits. The same idempotency key with the same content returns
-- the id that exists; with other content it raises email_messages_idempotency. Takes no token:
-- templates that carry one are refused (email_messages_token_template). What it refuses, it names by
-- constraint or column, and never repeats. A send_at in the past means now.
CREATE OR REPLACE FUNCTION postlease.enqueue_email(
    template text,
    to_addresses text[],
    parameters jsonb DEFAULT '{}',
    cc_addresses text[] DEFAULT '{}',
    bcc_addresses text[] DEFAULT '{}',
    locale text DEFAULT 'en',
    priority integer DEFAULT 50,
    delivery text DEFAULT 'at_least_once',
    send_at timestamptz DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL,
    idempotency_key text DEFAULT NULL
) RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
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
$$;

REVOKE ALL ON FUNCTION postlease.enqueue_email(
    text, text[], jsonb, text[], text[], text, integer, text, timestamptz, timestamptz, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION postlease.enqueue_email(
    text, text[], jsonb, text[], text[], text, integer, text, timestamptz, timestamptz, text)
    TO postlease_application, postlease_producer;

SELECT postlease.drop_other_signatures(
    'postlease.enqueue_email(text, text[], jsonb, text[], text[], text, integer, text, timestamptz, timestamptz, text)'::regprocedure);
