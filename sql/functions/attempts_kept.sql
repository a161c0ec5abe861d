-- What is kept of a message's attempts when one more is to stand behind them: all below twenty, else
-- nineteen. An unknown attempt may still turn out to have been accepted, so the oldest of the others
-- goes; only where all but the last are unknown, the oldest of those. The last entry stays last: who
-- counts what happened twice in a row reads it.
-- A plain expression, so that the planner inlines it.
CREATE OR REPLACE FUNCTION postlease.attempts_kept(attempts jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT CASE WHEN jsonb_array_length(attempts) < 20 THEN attempts ELSE
        (jsonb_path_query_array(attempts, '$[0 to 18] ? (@.outcome == "unknown")')
            || jsonb_path_query_array(attempts, '$[0 to 18] ? (!(@.outcome == "unknown"))'))
        - jsonb_array_length(
            jsonb_path_query_array(attempts, '$[0 to 18] ? (@.outcome == "unknown")')) % 19
        || (attempts -> -1) END
    $$;

REVOKE ALL ON FUNCTION postlease.attempts_kept(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION postlease.attempts_kept(jsonb) TO postlease_application;

SELECT postlease.drop_other_signatures(
    'postlease.attempts_kept(jsonb)'::regprocedure);
