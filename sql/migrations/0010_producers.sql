-- What producers may say of a message: names beside addresses, inline images. The raw size of its
-- attachments stands on the row, so that a claim need not add it up.

ALTER TABLE postlease.email_messages
    ADD COLUMN recipient_names jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN attachment_bytes bigint NOT NULL DEFAULT 0,
    ADD CONSTRAINT email_messages_names_object CHECK (jsonb_typeof(recipient_names) = 'object'),
    ADD CONSTRAINT email_messages_attachment_bytes CHECK (attachment_bytes >= 0);

ALTER TABLE postlease.email_attachments
    ADD COLUMN content_id text,
    ADD CONSTRAINT email_attachments_content_id CHECK (content_id ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$');

-- What SES takes in one call, with room for text and headers: 38 MB of base64.
ALTER TABLE postlease.email_messages
    ADD CONSTRAINT email_attachments_total_size CHECK (attachment_bytes <= 28500000),
    ADD CONSTRAINT email_messages_scope_length CHECK (length(cancel_scope) BETWEEN 1 AND 255);

-- Whether a newer message took the place of one that failed: whoever retries it asks.
CREATE INDEX email_messages_of_scope ON postlease.email_messages (producer, cancel_scope, id)
    WHERE cancel_scope IS NOT NULL AND finished_at IS NOT NULL;

ALTER TABLE postlease.email_attachments
    DROP CONSTRAINT email_attachments_key_shape,
    -- Who asks for a key over HTTP resolves the parts . and .. of it, and reaches another one.
    ADD CONSTRAINT email_attachments_key_shape CHECK (
        octet_length(storage_ref) <= 1024 AND storage_ref !~ '[\u0001-\u001f\u007f]'
        AND storage_ref !~ '(^|/)[.]{1,2}(/|$)'),
    DROP CONSTRAINT email_attachments_filename,
    ADD CONSTRAINT email_attachments_filename CHECK (
        length(filename) >= 1 AND length(filename) <= 255
        AND filename !~ '[\u0001-\u001f\u007f-\u009f\u2028\u2029]'),
    ADD CONSTRAINT email_attachments_content_type CHECK (
        content_type ~ '^[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,63}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}$');

-- Of the rules about the whole content, the name of the first that is broken. The trigger holds every
-- row to them; a batch asks them for each message first, because a trigger knows no position.
CREATE FUNCTION postlease.broken_content(parameters jsonb, addresses text[]) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $$
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
$$;
REVOKE ALL ON FUNCTION postlease.broken_content(jsonb, text[]) FROM PUBLIC;
-- The trigger runs as whoever writes.
GRANT EXECUTE ON FUNCTION postlease.broken_content(jsonb, text[]) TO postlease_application;

-- In a session without standard_conforming_strings a pattern's `\.` would be any character.
CREATE OR REPLACE FUNCTION postlease.check_message_content() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on
    AS $$
DECLARE
    broken text := postlease.broken_content(
        NEW.parameters, NEW.to_addresses || NEW.cc_addresses || NEW.bcc_addresses);
BEGIN
    IF broken IS NOT NULL THEN
        RAISE EXCEPTION '%', CASE broken
                WHEN 'email_messages_parameters_size' THEN 'parameters are larger than 64 kB'
                WHEN 'email_messages_recipient_shape' THEN 'a recipient is not one plain address'
                ELSE 'an address stands twice among the recipients' END
            USING ERRCODE = 'check_violation', CONSTRAINT = broken;
    END IF;
    RETURN NEW;
END
$$;
