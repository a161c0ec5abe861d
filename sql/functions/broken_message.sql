-- The first rule that a producer's message breaks, by its constraint's name, or NULL. Every way to
-- enqueue asks here: the table holds most of this too, but knows no message's place in its batch, and a
-- CHECK's error repeats the row. The shape of the recipients is left to postlease.broken_content.
CREATE OR REPLACE FUNCTION postlease.broken_message(
    producer text,
    template text,
    to_addresses text[],
    parameters jsonb,
    cc_addresses text[],
    bcc_addresses text[],
    names jsonb,
    locale text,
    priority numeric,
    delivery text,
    send_at timestamptz,
    expires_at timestamptz,
    idempotency_key text,
    cancel_scope text,
    from_address text,
    reply_to text,
    tags jsonb,
    attachments jsonb
) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $$
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
$$;

REVOKE ALL ON FUNCTION postlease.broken_message(
    text, text, text[], jsonb, text[], text[], jsonb, text, numeric, text, timestamptz, timestamptz,
    text, text, text, text, jsonb, jsonb) FROM PUBLIC;

SELECT postlease.drop_other_signatures(
    'postlease.broken_message(text, text, text[], jsonb, text[], text[], jsonb, text, numeric, text, timestamptz, timestamptz, text, text, text, text, jsonb, jsonb)'::regprocedure);
