-- What a message says does not change while it is sent: it is checked when it is written. A CHECK is
-- evaluated at each UPDATE of a row, whatever changed, and read anew by each statement.

-- All rules about the content of a message, by the names that they had as constraints.
CREATE OR REPLACE FUNCTION postlease.check_message_content() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
    -- In a session without it a pattern's `\.` would be any character.
    SET standard_conforming_strings = on
    AS $$
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
$$;

DROP TRIGGER email_messages_content ON postlease.email_messages;
CREATE TRIGGER email_messages_content
    BEFORE INSERT ON postlease.email_messages
    FOR EACH ROW EXECUTE FUNCTION postlease.check_message_content();
-- Not BEFORE: that would lock each row once more at every UPDATE, of whatever column.
CREATE TRIGGER email_messages_content_changed
    AFTER UPDATE OF
        template, locale, parameters, tags, recipient_names, to_addresses, cc_addresses,
        bcc_addresses, token_id, priority, delivery, idempotency_key, content_hash, cancel_scope,
        attachment_bytes
    ON postlease.email_messages
    FOR EACH ROW EXECUTE FUNCTION postlease.check_message_content();

ALTER TABLE postlease.email_messages
    DROP CONSTRAINT email_messages_template_shape,
    DROP CONSTRAINT email_messages_locale_shape,
    DROP CONSTRAINT email_messages_parameters_object,
    DROP CONSTRAINT email_messages_tags_object,
    DROP CONSTRAINT email_messages_names_object,
    DROP CONSTRAINT email_messages_recipient_count,
    DROP CONSTRAINT email_messages_recipients_flat,
    DROP CONSTRAINT email_messages_token_alone,
    DROP CONSTRAINT email_messages_token_template,
    DROP CONSTRAINT email_messages_priority,
    DROP CONSTRAINT email_messages_delivery,
    DROP CONSTRAINT email_messages_key_length,
    DROP CONSTRAINT email_messages_key_hashed,
    DROP CONSTRAINT email_messages_scope_length,
    DROP CONSTRAINT email_messages_attachment_bytes;

-- A claim changes all rows of a page in one transaction: only where half of the page is free do the new
-- versions stay on it, and write no index.
ALTER TABLE postlease.email_messages SET (fillfactor = 50);
