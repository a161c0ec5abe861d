-- Many messages in one call: an array of objects whose members are the arguments of enqueue_email.
-- All or none are taken. A refusal names the place of the message, from 0, and the constraint.
CREATE OR REPLACE FUNCTION postlease.enqueue_emails(messages jsonb)
    RETURNS TABLE ("position" integer, id uuid)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on
    AS $$
BEGIN
    RETURN QUERY
    SELECT f."position", f.id FROM postlease.enqueue_for(session_user::text, messages) AS f;
END
$$;

REVOKE ALL ON FUNCTION postlease.enqueue_emails(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION postlease.enqueue_emails(jsonb) TO postlease_application, postlease_producer;

SELECT postlease.drop_other_signatures(
    'postlease.enqueue_emails(jsonb)'::regprocedure);
