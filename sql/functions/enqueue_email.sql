-- The producers' contract: ask for an email inside your own transaction, on your own connection.
--
-- Returns the message's id. Never commits. The same idempotency key with the same content returns
-- the id that exists; with other content it raises email_messages_idempotency. Takes no token:
-- templates that carry one are refused (email_messages_token_template).
SELECT postlease.drop_signatures('enqueue_email');

CREATE FUNCTION postlease.enqueue_email(
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
    hash bytea;
    found_id uuid;
    found_hash bytea;
BEGIN
    IF enqueue_email.priority = 0 THEN
        RAISE EXCEPTION 'priority 0 is for auth mail; choose 50 or 100'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'email_messages_priority';
    END IF;
    IF enqueue_email.idempotency_key IS NOT NULL THEN
        hash := sha256(convert_to(jsonb_build_array(
            enqueue_email.template, enqueue_email.to_addresses, enqueue_email.parameters,
            enqueue_email.cc_addresses, enqueue_email.bcc_addresses, enqueue_email.locale,
            enqueue_email.priority, enqueue_email.delivery, enqueue_email.send_at,
            enqueue_email.expires_at)::text, 'UTF8'));
    END IF;
    INSERT INTO postlease.email_messages (
        template, parameters, locale, to_addresses, cc_addresses, bcc_addresses,
        producer, idempotency_key, content_hash, priority, delivery, available_at, expires_at)
    VALUES (
        enqueue_email.template, enqueue_email.parameters, enqueue_email.locale,
        enqueue_email.to_addresses, enqueue_email.cc_addresses, enqueue_email.bcc_addresses,
        session_user, enqueue_email.idempotency_key, hash, enqueue_email.priority,
        enqueue_email.delivery, coalesce(enqueue_email.send_at, now()), enqueue_email.expires_at)
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
