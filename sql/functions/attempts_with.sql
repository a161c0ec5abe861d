-- A message's attempts with the entry of the claim that ends now; twenty are kept.
-- A plain expression, so that the planner inlines it into the UPDATE that ends the claim.
CREATE OR REPLACE FUNCTION postlease.attempts_with(
    message postlease.email_messages, outcome text, code text, provider_message_id text, refunded boolean
) RETURNS jsonb
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT postlease.attempts_kept(message.attempts)
        || jsonb_build_object(
            'attempt', message.attempt_count,
            'owner', message.lease_owner,
            'claimed_at', message.claimed_at,
            'lease_expires_at', message.lease_expires_at,
            'dispatched_at', message.dispatched_at,
            'ended_at', now(),
            'outcome', outcome,
            'code', code,
            'provider', CASE WHEN message.dispatched_at IS NOT NULL THEN message.provider END,
            'provider_message_id', provider_message_id,
            'refunded', refunded)
    $$;

REVOKE ALL ON FUNCTION postlease.attempts_with(postlease.email_messages, text, text, text, boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION postlease.attempts_with(postlease.email_messages, text, text, text, boolean)
    TO postlease_application;

SELECT postlease.drop_other_signatures(
    'postlease.attempts_with(postlease.email_messages, text, text, text, boolean)'::regprocedure);
