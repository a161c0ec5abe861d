-- The moment that an RFC 3339 text names; infinity, which no message may have, for any other text. One
-- without an offset would mean another moment in every session.
CREATE OR REPLACE FUNCTION postlease.moment_of(written text) RETURNS timestamptz
    LANGUAGE plpgsql STABLE PARALLEL SAFE
    AS $$
BEGIN
    IF written !~* ('^[0-9]{4,6}-[0-9]{2}-[0-9]{2}[t ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?'
                    || '(z|[+-][0-9]{2}(:?[0-9]{2}){0,2})$') THEN
        RETURN 'infinity';
    END IF;
    RETURN written::timestamptz;
EXCEPTION WHEN data_exception THEN
    RETURN 'infinity';
END
$$;

REVOKE ALL ON FUNCTION postlease.moment_of(text) FROM PUBLIC;

SELECT postlease.drop_other_signatures(
    'postlease.moment_of(text)'::regprocedure);
