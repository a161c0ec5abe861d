-- What an idempotency key stands for: SHA-256 of all that its message says. What is not said leaves no
-- trace, so that a release that knows one argument more finds the keys of the one before.
CREATE OR REPLACE FUNCTION postlease.message_digest(
    template text,
    to_addresses text[],
    parameters jsonb,
    cc_addresses text[],
    bcc_addresses text[],
    names jsonb,
    locale text,
    priority integer,
    delivery text,
    send_at timestamptz,
    expires_at timestamptz,
    cancel_scope text,
    from_address text,
    reply_to text,
    tags jsonb,
    attachments jsonb
) RETURNS bytea
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

REVOKE ALL ON FUNCTION postlease.message_digest(
    text, text[], jsonb, text[], text[], jsonb, text, integer, text, timestamptz, timestamptz,
    text, text, text, jsonb, jsonb) FROM PUBLIC;

SELECT postlease.drop_other_signatures(
    'postlease.message_digest(text, text[], jsonb, text[], text[], jsonb, text, integer, text, timestamptz, timestamptz, text, text, text, jsonb, jsonb)'::regprocedure);
