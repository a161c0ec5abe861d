-- The schema, the roles that use it, and the order of ids.
-- The role that runs the migrations is the owner. The application logs in; a producer's own login
-- role is granted membership of postlease_producer.

REVOKE ALL ON SCHEMA postlease FROM PUBLIC;

DO $$
BEGIN
    -- Roles belong to the cluster, so another database's migration may have made them already.
    BEGIN
        CREATE ROLE postlease_application LOGIN;
    EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
    END;
    BEGIN
        CREATE ROLE postlease_producer NOLOGIN;
    EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
    END;
END
$$;

GRANT USAGE ON SCHEMA postlease TO postlease_application, postlease_producer;

-- Session settings ride on the role: a connection pooler such as RDS Proxy refuses `options=`.
DO $$
DECLARE
    setting text;
BEGIN
    FOREACH setting IN ARRAY ARRAY[
        'jit = off',
        'statement_timeout = ''10s''',
        'lock_timeout = ''3s''',
        'idle_in_transaction_session_timeout = ''15s''',
        'idle_session_timeout = ''15min''',
        'timezone = ''UTC''',
        -- Others may own objects in public: a better match there must not run as the application.
        'search_path = pg_catalog, pg_temp'
    ] LOOP
        EXECUTE format('ALTER ROLE postlease_application IN DATABASE %I SET %s',
                       current_database(), setting);
    END LOOP;
    -- The server's log would repeat the row of a failed statement, and rows hold addresses. Only a
    -- superuser may turn that off; elsewhere the operator does it in the parameter group.
    BEGIN
        EXECUTE format('ALTER ROLE postlease_application IN DATABASE %I SET log_error_verbosity = terse',
                       current_database());
        EXECUTE format('ALTER ROLE postlease_application IN DATABASE %I SET log_min_error_statement = panic',
                       current_database());
    EXCEPTION WHEN insufficient_privilege THEN
        RAISE NOTICE 'set log_error_verbosity = terse for postlease_application in the server''s configuration';
    END;
END
$$;

-- Time-ordered ids (RFC 9562, version 7) on every supported server; uuidv7() exists only from 18 on.
-- gen_random_uuid() brings the variant and version 4; two bits make the 4 a 7.
CREATE FUNCTION postlease.uuid_v7() RETURNS uuid
    LANGUAGE sql VOLATILE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT encode(
        set_bit(set_bit(
            overlay(uuid_send(gen_random_uuid())
                    PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
                    FROM 1 FOR 6),
            52, 1), 53, 1),
        'hex')::uuid
    $$;

REVOKE ALL ON FUNCTION postlease.uuid_v7() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION postlease.uuid_v7() TO postlease_application;

-- Every repeatable file in sql/functions ends with this: a changed signature would otherwise leave the
-- older one callable beside it. The one that stays is replaced in place, never dropped: statements
-- that are running still find it.
CREATE FUNCTION postlease.drop_other_signatures(kept regprocedure) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    older regprocedure;
BEGIN
    FOR older IN SELECT other.oid::regprocedure
                 FROM pg_proc AS p JOIN pg_proc AS other USING (proname, pronamespace)
                 WHERE p.oid = kept AND other.oid <> kept LOOP
        EXECUTE format('DROP FUNCTION %s', older);
    END LOOP;
END
$$;

REVOKE ALL ON FUNCTION postlease.drop_other_signatures(regprocedure) FROM PUBLIC;
