-- The rule that is broken by a message's tags, or NULL. They are message tags as SES takes them, some
-- of which are ours.
CREATE OR REPLACE FUNCTION postlease.broken_tags(tags jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $$
BEGIN
    IF jsonb_typeof(tags) <> 'object' THEN
        RETURN 'email_messages_tags_object';
    END IF;
    RETURN (
        SELECT CASE
            WHEN count(*) > 10 THEN 'email_messages_tags_count'
            WHEN NOT bool_and(
                t.name ~ '^[A-Za-z0-9_-]+$' AND length(t.name) <= 256
                AND lower(t.name) NOT LIKE 'postlease-%' AND jsonb_typeof(t.value) = 'string'
                AND t.value #>> '{}' ~ '^[A-Za-z0-9_-]+$' AND length(t.value #>> '{}') <= 256)
                THEN 'email_messages_tags_shape'
        END
        FROM jsonb_each(tags) AS t (name, value));
END
$$;

REVOKE ALL ON FUNCTION postlease.broken_tags(jsonb) FROM PUBLIC;

SELECT postlease.drop_other_signatures(
    'postlease.broken_tags(jsonb)'::regprocedure);
