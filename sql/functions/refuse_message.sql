-- Raises the error that names the broken rule, without a word of what was asked. at is the message's
-- place in its batch, from 0; NULL where it stands alone. Behind a colon broken may say which member: it
-- is told if it is one that there is.
CREATE OR REPLACE FUNCTION postlease.refuse_message(broken text, at integer DEFAULT NULL) RETURNS boolean
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

REVOKE ALL ON FUNCTION postlease.refuse_message(text, integer) FROM PUBLIC;

SELECT postlease.drop_other_signatures(
    'postlease.refuse_message(text, integer)'::regprocedure);
