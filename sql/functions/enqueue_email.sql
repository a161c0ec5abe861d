-- The producers' contract: ask for an email inside your own transaction, on your own connection.
--
-- Returns the message's id. Never commits. The same idempotency key with the same content returns
-- the id that exists; with other content it raises email_messages_idempotency. Takes no token:
-- templates that carry one are refused (email_messages_token_template). What it refuses, it names by
-- constraint or column, and never repeats. A send_at in the past means now. A newer message of the
-- same cancel scope takes the place of those that are pending.
CREATE OR REPLACE FUNCTION postlease.enqueue_email(
    template text,
    to_addresses text[],
    parameters jsonb DEFAULT '{}',
    cc_addresses text[] DEFAULT '{}',
    bcc_addresses text[] DEFAULT '{}',
    names jsonb DEFAULT '{}',
    locale text DEFAULT 'en',
    priority integer DEFAULT 50,
    delivery text DEFAULT 'at_least_once',
    send_at timestamptz DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL,
    idempotency_key text DEFAULT NULL,
    cancel_scope text DEFAULT NULL,
    from_address text DEFAULT NULL,
    reply_to text DEFAULT NULL,
    tags jsonb DEFAULT '{}',
    attachments jsonb DEFAULT '[]'
) RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on
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

REVOKE ALL ON FUNCTION postlease.enqueue_email(
    text, text[], jsonb, text[], text[], jsonb, text, integer, text, timestamptz, timestamptz, text,
    text, text, text, jsonb, jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION postlease.enqueue_email(
    text, text[], jsonb, text[], text[], jsonb, text, integer, text, timestamptz, timestamptz, text,
    text, text, text, jsonb, jsonb)
    TO postlease_application, postlease_producer;

SELECT postlease.drop_other_signatures(
    'postlease.enqueue_email(text, text[], jsonb, text[], text[], jsonb, text, integer, text, timestamptz, timestamptz, text, text, text, text, jsonb, jsonb)'::regprocedure);
