-- The rule that is broken by the display names of a message to recipients, or NULL.
CREATE OR REPLACE FUNCTION postlease.broken_names(names jsonb, recipients text[]) RETURNS text
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

REVOKE ALL ON FUNCTION postlease.broken_names(jsonb, text[]) FROM PUBLIC;

SELECT postlease.drop_other_signatures(
    'postlease.broken_names(jsonb, text[])'::regprocedure);
