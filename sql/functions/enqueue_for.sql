-- What enqueue_emails does, in the name of a producer that the caller vouches for: of the API's signed
-- callers none has a login of its own. For the application alone. is_new: not a repeated key.
CREATE OR REPLACE FUNCTION postlease.enqueue_for(producer text, messages jsonb)
    RETURNS TABLE ("position" integer, id uuid, is_new boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on
    AS $$
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
$$;

REVOKE ALL ON FUNCTION postlease.enqueue_for(text, jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION postlease.enqueue_for(text, jsonb) TO postlease_application;

SELECT postlease.drop_other_signatures(
    'postlease.enqueue_for(text, jsonb)'::regprocedure);
