-- Auth mail, for the application alone: the recipient and the language come from the user's row, and
-- a token, where the template carries one, must be that user's. Ahead of all other mail. Without a
-- token the mail is good for lifetime. A note that an account exists has a scope, by which the next one
-- finds it while it is pending.
CREATE OR REPLACE FUNCTION postlease.enqueue_auth_email(
    template text,
    user_id uuid,
    token_id uuid DEFAULT NULL,
    parameters jsonb DEFAULT '{}',
    locale text DEFAULT NULL,
    lifetime interval DEFAULT NULL
) RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on
    AS $$
#variable_conflict use_column
DECLARE
    new_id uuid;
BEGIN
    INSERT INTO postlease.email_messages (
        template, parameters, locale, to_addresses, token_id, producer, priority, expires_at,
        cancel_scope)
    SELECT enqueue_auth_email.template, enqueue_auth_email.parameters,
           coalesce(enqueue_auth_email.locale, u.locale), ARRAY[u.email], t.id, session_user, 0,
           coalesce(t.expires_at, now() + enqueue_auth_email.lifetime),
           CASE WHEN enqueue_auth_email.template = 'account_exists' THEN 'account_exists:' || u.id END
    FROM postlease.users AS u
    LEFT JOIN postlease.verification_tokens AS t
        ON t.id = enqueue_auth_email.token_id AND t.user_id = u.id AND t.purpose = enqueue_auth_email.template
    WHERE u.id = enqueue_auth_email.user_id
      AND (t.id IS NOT NULL OR enqueue_auth_email.token_id IS NULL)
    RETURNING id INTO new_id;
    IF new_id IS NULL THEN
        RAISE EXCEPTION 'no such user, or the token is not this user''s for this purpose'
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'email_messages_token_fkey';
    END IF;
    RETURN new_id;
END
$$;

REVOKE ALL ON FUNCTION postlease.enqueue_auth_email(text, uuid, uuid, jsonb, text, interval) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION postlease.enqueue_auth_email(text, uuid, uuid, jsonb, text, interval)
    TO postlease_application;

SELECT postlease.drop_other_signatures(
    'postlease.enqueue_auth_email(text, uuid, uuid, jsonb, text, interval)'::regprocedure);
