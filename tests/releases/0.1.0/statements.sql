--- accounts.close
-- accounts.close
DELETE FROM postlease.users WHERE id = %(id)s

--- accounts.end_live
-- accounts.end_live
UPDATE postlease.verification_tokens SET superseded_at = now()
WHERE user_id = %(user_id)s AND purpose = ANY (%(purposes)s::text[])
  AND redeemed_at IS NULL AND superseded_at IS NULL
RETURNING id

--- accounts.find_code
-- accounts.find_code
SELECT t.id, t.user_id, t.version, t.key_id, u.verified_at
FROM postlease.users AS u
JOIN postlease.verification_tokens AS t ON t.user_id = u.id
WHERE u.email_canonical = %(canonical)s AND t.purpose = 'verify_email' AND t.superseded_at IS NULL
ORDER BY t.version DESC
LIMIT 1

--- accounts.find_token
-- accounts.find_token
SELECT t.id, t.user_id, t.token_hash, t.redeemed_at, t.superseded_at, u.verified_at,
       u.email_canonical
FROM postlease.verification_tokens AS t
JOIN postlease.users AS u ON u.id = t.user_id
WHERE t.id = %(id)s AND t.purpose = %(purpose)s

--- accounts.is_past_retention
-- accounts.is_past_retention
SELECT to_timestamp(%(milliseconds)s::float8 / 1000) < now() - %(retention)s AS is_past

--- accounts.issue
-- accounts.issue
INSERT INTO postlease.verification_tokens
    (id, user_id, purpose, version, token_hash, key_id, expires_at)
VALUES (%(id)s, %(user_id)s, %(purpose)s, %(version)s, %(token_hash)s, %(key_id)s,
        now() + %(lifetime)s)

--- accounts.lock
-- accounts.lock
SELECT email, email_canonical FROM postlease.users WHERE id = %(id)s FOR UPDATE

--- accounts.lock_user
-- accounts.lock_user
SELECT FROM postlease.users WHERE id = %(user_id)s FOR NO KEY UPDATE

--- accounts.look
-- accounts.look
SELECT email, email_canonical FROM postlease.users WHERE id = %(id)s

--- accounts.mark_asking
-- accounts.mark_asking
SAVEPOINT asking

--- accounts.mark_rehearsal
-- accounts.mark_rehearsal
SAVEPOINT rehearsal

--- accounts.meet
-- accounts.meet
INSERT INTO postlease.users AS known (id, email, email_canonical, locale)
VALUES (%(id)s, %(email)s, %(canonical)s, %(locale)s)
ON CONFLICT (email_canonical) DO UPDATE SET email = known.email
RETURNING id, verified_at

--- accounts.move
-- accounts.move
UPDATE postlease.users
SET email = %(email)s, email_canonical = %(canonical)s, verified_at = NULL
WHERE id = %(id)s

--- accounts.next_version
-- accounts.next_version
SELECT coalesce(max(version), 0) + 1 AS version FROM postlease.verification_tokens
WHERE user_id = %(user_id)s AND purpose = %(purpose)s

--- accounts.redeem
-- accounts.redeem
WITH redeemed AS (
    UPDATE postlease.verification_tokens SET redeemed_at = now()
    WHERE id = %(id)s AND redeemed_at IS NULL AND superseded_at IS NULL AND expires_at > now()
    RETURNING user_id
)
UPDATE postlease.users AS u SET verified_at = coalesce(u.verified_at, now())
FROM redeemed WHERE u.id = redeemed.user_id
RETURNING u.verified_at

--- accounts.redeem_reset
-- accounts.redeem_reset
UPDATE postlease.verification_tokens SET redeemed_at = now()
WHERE id = %(id)s AND redeemed_at IS NULL AND superseded_at IS NULL AND expires_at > now()

--- accounts.settle_asking
-- accounts.settle_asking
ROLLBACK TO SAVEPOINT asking

--- accounts.settle_asking 2
-- accounts.settle_asking
RELEASE SAVEPOINT asking

--- accounts.sign_up
-- accounts.sign_up
INSERT INTO postlease.users AS known (email, email_canonical, locale)
VALUES (%(email)s, %(canonical)s, coalesce(%(locale)s, %(default_locale)s))
ON CONFLICT (email_canonical) DO UPDATE SET
    locale = CASE WHEN known.verified_at IS NULL
        THEN coalesce(%(locale)s, known.locale) ELSE known.locale END
RETURNING id, verified_at

--- accounts.spell
-- accounts.spell
UPDATE postlease.users SET email = %(email)s WHERE id = %(id)s

--- accounts.try_code
-- accounts.try_code
UPDATE postlease.verification_tokens AS t SET code_attempts = t.code_attempts + 1
WHERE t.id = %(id)s AND t.code_attempts < %(tries)s
  AND t.expires_at > now()
  AND (
      SELECT min(least(m.dispatched_at, u.dispatched_at))
      FROM postlease.email_messages AS m
      LEFT JOIN LATERAL (
          SELECT min((a.attempt->>'dispatched_at')::timestamptz) AS dispatched_at
          FROM jsonb_array_elements(m.attempts) AS a (attempt)
          WHERE a.attempt->>'outcome' = 'unknown'
      ) AS u ON true
      WHERE m.token_id = t.id
  ) > now() - %(lifetime)s
RETURNING t.redeemed_at

--- accounts.undo_rehearsal
-- accounts.undo_rehearsal
ROLLBACK TO SAVEPOINT rehearsal

--- accounts.unfinished
-- accounts.unfinished
SELECT m.is_note, m.available_at, m.unknown_count = 0 AND m.keyed_since IS NULL AS is_known
FROM (
    SELECT false AS is_note, link.*
    FROM postlease.email_messages AS link
    WHERE link.token_id = ANY (ARRAY(
        SELECT t.id FROM postlease.verification_tokens AS t
        WHERE t.user_id = %(user_id)s AND t.purpose = %(purpose)s
          AND t.redeemed_at IS NULL AND t.superseded_at IS NULL))
    UNION ALL
    SELECT true, note.*
    FROM postlease.email_messages AS note
    WHERE note.producer = session_user
      AND note.cancel_scope = 'account_exists:' || %(user_id)s::text
) AS m
WHERE m.finished_at IS NULL

--- accounts.wait
-- accounts.wait
SELECT set_config('lock_timeout', '2s', true)

--- attachments.forget
-- attachments.forget
DELETE FROM postlease.attachment_deletions AS d WHERE d.id = ANY (%(ids)s::bigint[])

--- attachments.noted
-- attachments.noted
SELECT d.id, d.storage_ref, d.version_id
FROM postlease.attachment_deletions AS d
WHERE d.id > %(after)s
ORDER BY d.id
LIMIT %(limit)s

--- attachments.orphans
-- attachments.orphans
SELECT s.key, s.version
FROM unnest(%(keys)s::text[], %(versions)s::text[], %(moments)s::timestamptz[])
    AS s (key, version, modified_at)
WHERE s.modified_at < now() - %(age)s::interval
  AND NOT EXISTS (
    SELECT FROM postlease.email_attachments AS a
    WHERE a.owned AND a.storage_ref = s.key AND a.version_id = s.version)

--- gate.close
-- gate.close
INSERT INTO postlease.provider_gates AS g (provider, closed_at, close_reason, closed_by, probe_at)
VALUES (%(provider)s, now(), %(reason)s, %(message_id)s, now() + %(pause)s::interval)
ON CONFLICT (provider) DO UPDATE
SET closed_at = now(),
    close_reason = EXCLUDED.close_reason,
    closed_by = EXCLUDED.closed_by,
    probe_at = EXCLUDED.probe_at,
    updated_at = now()
WHERE g.closed_at IS NULL
RETURNING coalesce(g.accepted_at > (
    SELECT m.blocked_at FROM postlease.email_messages AS m
    WHERE m.id = %(message_id)s AND m.blocked_as = %(provider)s || ' ' || %(reason)s
), false) AS others_pass

--- gate.count_failure
-- gate.count_failure
INSERT INTO postlease.provider_gates AS g (provider, failures_in_a_row)
VALUES (%(provider)s, 1)
ON CONFLICT (provider) DO UPDATE
SET failures_in_a_row = g.failures_in_a_row + 1,
    (closed_at, close_reason, probe_at) = (
        SELECT now(), %(reason)s, now() + %(pause)s::interval
        WHERE g.failures_in_a_row + 1 >= %(limit)s),
    updated_at = now()
WHERE g.closed_at IS NULL
RETURNING g.closed_at IS NOT NULL AS closed

--- gate.halve_rate
-- gate.halve_rate
UPDATE postlease.provider_gates AS g
SET rate_per_second = greatest(g.rate_per_second / 2, least(g.limit_per_second, 1)),
    rate_changed_at = now(),
    throttled_by = %(message_id)s,
    updated_at = now()
WHERE g.provider = %(provider)s
  AND g.rate_per_second IS NOT NULL
  -- One message that is refused whenever it comes says nothing of the speed of the others.
  AND g.throttled_by IS DISTINCT FROM %(message_id)s
  AND g.rate_changed_at <= now() - %(burst)s::interval

--- gate.look
-- gate.look
SELECT g.closed_at IS NOT NULL AS closed, g.close_reason AS reason, g.closed_by,
       g.closed_at IS NOT NULL AND g.probe_at <= now() AS probe_is_due,
       g.failures_in_a_row, g.rate_per_second
FROM postlease.provider_gates AS g
WHERE g.provider = %(provider)s

--- gate.open
-- gate.open
UPDATE postlease.provider_gates AS g
SET closed_at = NULL,
    close_reason = NULL,
    closed_by = NULL,
    probe_at = NULL,
    pause = %(pause)s::interval,
    failures_in_a_row = 0,
    accepted_at = CASE WHEN %(accepted)s
        THEN greatest(g.accepted_at, c.began_at) ELSE g.accepted_at END,
    updated_at = now()
FROM (SELECT now() - %(age)s::interval) AS c (began_at)
WHERE g.provider = %(provider)s
  AND NOT g.is_paused
  -- What was on its way when the gate was closed says nothing about the time since.
  AND (g.closed_at <= c.began_at
       OR g.closed_at IS NULL
          AND (g.failures_in_a_row > 0
               OR %(accepted)s AND coalesce(g.accepted_at, '-infinity')
                  <= c.began_at - %(often)s::interval))
RETURNING g.provider

--- gate.pause
-- gate.pause
INSERT INTO postlease.provider_gates AS g (
    provider, is_paused, closed_at, close_reason, probe_at, ruled_at, ruled_by, ruled_because)
VALUES (%(provider)s, true, now(), %(operator)s, 'infinity', now(), %(by)s, %(because)s)
ON CONFLICT (provider) DO UPDATE
SET is_paused = true,
    -- Anew: the answer to a call from before says nothing of the pause.
    closed_at = now(),
    close_reason = EXCLUDED.close_reason,
    closed_by = NULL,
    probe_at = EXCLUDED.probe_at,
    ruled_at = EXCLUDED.ruled_at,
    ruled_by = EXCLUDED.ruled_by,
    ruled_because = EXCLUDED.ruled_because,
    updated_at = now()

--- gate.read
-- gate.read
SELECT g.provider,
       CASE WHEN g.is_paused THEN 'paused' WHEN g.closed_at IS NOT NULL THEN 'closed'
            ELSE 'open' END AS state,
       g.close_reason, g.closed_at, g.closed_by,
       CASE WHEN NOT g.is_paused THEN g.probe_at END AS probe_at,
       g.failures_in_a_row, g.limit_per_second,
       g.rate_per_second, g.accepted_at, g.ruled_at, g.ruled_by, g.ruled_because
FROM postlease.provider_gates AS g

--- gate.release
-- gate.release
INSERT INTO postlease.provider_gates AS g (provider, ruled_at, ruled_by, ruled_because)
VALUES (%(provider)s, now(), %(by)s, %(because)s)
ON CONFLICT (provider) DO UPDATE
SET is_paused = false,
    closed_at = NULL,
    close_reason = NULL,
    closed_by = NULL,
    probe_at = NULL,
    pause = %(pause)s::interval,
    failures_in_a_row = 0,
    ruled_at = EXCLUDED.ruled_at,
    ruled_by = EXCLUDED.ruled_by,
    ruled_because = EXCLUDED.ruled_because,
    updated_at = now()

--- gate.reserve
-- gate.reserve
WITH held AS MATERIALIZED (
    SELECT g.provider, g.next_slot_at, g.rate_per_second AS old_rate,
           least(g.limit_per_second, g.rate_per_second * power(1.1, least(100, greatest(0,
               floor(extract(epoch FROM now() - g.rate_changed_at) / 60)))::float8)) AS rate
    FROM postlease.provider_gates AS g
    WHERE g.provider = %(provider)s AND g.rate_per_second IS NOT NULL
    FOR NO KEY UPDATE
), slot AS MATERIALIZED (
    SELECT h.provider, h.old_rate, h.rate,
           greatest(h.next_slot_at, now() - make_interval(
               secs => (greatest(h.rate / 10, 1) - 1) / h.rate)) AS at,
           1 / (h.rate * %(share)s) AS spacing
    FROM held AS h
), moved AS (
    UPDATE postlease.provider_gates AS g
    SET next_slot_at = s.at + make_interval(secs => %(recipients)s * s.spacing),
        rate_per_second = s.rate,
        rate_changed_at = CASE WHEN s.rate > s.old_rate THEN now() ELSE g.rate_changed_at END,
        updated_at = now()
    FROM slot AS s
    WHERE g.provider = s.provider AND s.at <= now() + %(within)s::interval
    RETURNING g.provider
)
SELECT EXISTS (SELECT FROM moved) AS taken,
       greatest(extract(epoch FROM s.at - now()), 0)::float8 AS wait, s.spacing
FROM slot AS s

--- gate.set_limit
-- gate.set_limit
INSERT INTO postlease.provider_gates AS g (provider, limit_per_second, rate_per_second)
VALUES (%(provider)s, %(limit)s, %(limit)s)
ON CONFLICT (provider) DO UPDATE
SET limit_per_second = EXCLUDED.limit_per_second,
    rate_per_second = CASE
        WHEN g.rate_per_second < g.limit_per_second AND EXCLUDED.limit_per_second IS NOT NULL
        THEN least(g.rate_per_second, EXCLUDED.limit_per_second)
        ELSE EXCLUDED.limit_per_second END,
    updated_at = now()
WHERE g.limit_per_second IS DISTINCT FROM EXCLUDED.limit_per_second

--- gate.take_probe
-- gate.take_probe
UPDATE postlease.provider_gates AS g
SET probe_at = now() + least(g.pause * 2, %(longest)s::interval),
    pause = least(g.pause * 2, %(longest)s::interval),
    updated_at = now()
WHERE g.provider = %(provider)s AND g.closed_at IS NOT NULL AND g.probe_at <= now()
RETURNING g.closed_by

--- idempotency.answered
-- idempotency.answered
SELECT request_digest, status_code, response FROM postlease.idempotency_keys
WHERE key_digest = %(key)s AND status_code IS NOT NULL AND expires_at > now()

--- idempotency.begin
-- idempotency.begin
INSERT INTO postlease.idempotency_keys AS held (key_digest, request_digest, expires_at)
VALUES (%(key)s, %(request)s, now() + %(lifetime)s)
ON CONFLICT (key_digest) DO UPDATE
    SET request_digest = excluded.request_digest, status_code = NULL, response = NULL,
        created_at = excluded.created_at, expires_at = excluded.expires_at
    WHERE held.expires_at <= now()

--- idempotency.finish
-- idempotency.finish
UPDATE postlease.idempotency_keys SET status_code = %(status_code)s, response = %(response)s
WHERE key_digest = %(key)s AND status_code IS NULL

--- idempotency.stored
-- idempotency.stored
SELECT request_digest, status_code, response FROM postlease.idempotency_keys
WHERE key_digest = %(key)s

--- limits.clear
-- limits.clear
DELETE FROM postlease.rate_limits WHERE limit_digest = %(digest)s

--- limits.count
-- limits.count
INSERT INTO postlease.rate_limits AS held
    (limit_digest, window_started_at, window_ends_at, used, message_id)
SELECT w.digest, now(), now() + w.length, %(times)s, %(message_id)s::uuid
FROM unnest(%(digests)s::bytea[], %(lengths)s::interval[]) AS w (digest, length)
ORDER BY w.digest
ON CONFLICT (limit_digest) DO UPDATE SET
    window_started_at = CASE WHEN held.window_ends_at > now() AND held.used > 0
        THEN held.window_started_at ELSE excluded.window_started_at END,
    window_ends_at = CASE WHEN held.window_ends_at > now() AND held.used > 0
        THEN held.window_ends_at ELSE excluded.window_ends_at END,
    used = CASE WHEN held.window_ends_at > now() THEN held.used ELSE 0 END + excluded.used,
    message_id = coalesce(excluded.message_id, held.message_id)
RETURNING held.limit_digest, held.used,
    extract(epoch FROM held.window_ends_at - now())::float8 AS seconds_left

--- limits.note
-- limits.note
UPDATE postlease.rate_limits AS held SET
    message_id = coalesce(%(message_id)s::uuid, held.message_id),
    window_started_at = CASE WHEN %(message_id)s::uuid IS NULL
        THEN held.window_started_at ELSE now() END,
    window_ends_at = CASE WHEN %(message_id)s::uuid IS NULL
        THEN held.window_ends_at ELSE now() + greatest(%(window)s, interval '1 microsecond') END
WHERE held.limit_digest = %(digest)s

--- limits.spent
-- limits.spent
SELECT held.message_id FROM postlease.rate_limits AS held
JOIN unnest(%(digests)s::bytea[], %(most)s::integer[]) AS w (digest, most)
    ON w.digest = held.limit_digest
WHERE held.window_ends_at > now() AND held.used >= w.most
ORDER BY held.message_id DESC NULLS LAST
LIMIT 1

--- limits.take
-- limits.take
INSERT INTO postlease.rate_limits AS held (limit_digest, window_started_at, window_ends_at, used)
VALUES (%(digest)s, now(), now() + greatest(%(window)s, interval '1 microsecond'), 1)
ON CONFLICT (limit_digest) DO UPDATE SET
    window_started_at = CASE WHEN held.window_ends_at > now()
        THEN held.window_started_at ELSE excluded.window_started_at END,
    window_ends_at = CASE WHEN held.window_ends_at > now()
        THEN held.window_ends_at ELSE excluded.window_ends_at END,
    used = CASE WHEN held.window_ends_at > now() THEN held.used + 1 ELSE 1 END,
    message_id = CASE WHEN held.window_ends_at > now() THEN held.message_id END
RETURNING message_id

--- messages.wait
-- messages.wait
SELECT set_config('lock_timeout', '2s', true)

--- migrations.bootstrap
-- migrations.bootstrap
CREATE SCHEMA IF NOT EXISTS postlease;
CREATE TABLE IF NOT EXISTS postlease.schema_migrations (
    name text NOT NULL,
    sha256 bytea NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT schema_migrations_pkey PRIMARY KEY (name),
    CONSTRAINT schema_migrations_sha256_length CHECK (octet_length(sha256) = 32)
);

--- migrations.ledger
-- migrations.ledger
SELECT name, sha256 FROM postlease.schema_migrations

--- migrations.lock
-- migrations.lock
SELECT pg_try_advisory_lock(%(key)s) AS held

--- migrations.note
-- migrations.note
INSERT INTO postlease.schema_migrations (name, sha256) VALUES (%(name)s, %(sha256)s)
ON CONFLICT (name) DO UPDATE SET sha256 = excluded.sha256, applied_at = now()

--- migrations.session
-- migrations.session
SELECT set_config('search_path', 'pg_catalog, pg_temp', false),
       set_config('lock_timeout', %(patience)s, false)

--- migrations.unlock
-- migrations.unlock
SELECT pg_advisory_unlock(%(key)s)

--- outbox.authorize
-- outbox.authorize
WITH held AS MATERIALIZED (
    SELECT h.*
    FROM (
        SELECT * FROM unnest(%(ids)s::uuid[], %(owners)s::text[], %(attempts)s::integer[])
            AS a (id, owner, attempt)
        ORDER BY a.id
    ) AS asked
    CROSS JOIN LATERAL (
        SELECT m.id, m.token_id, m.priority, m.expires_at, m.lease_expires_at,
               cardinality(m.to_addresses) AS to_count,
               -- The account that a note tells of was closed, or has another address. Not an
               -- EXISTS, which the planner may answer by reading all users.
               m.priority = 0 AND m.template = 'account_exists' AND (
                   SELECT u.id FROM postlease.users AS u
                   WHERE u.email_canonical = lower(m.to_addresses[1] COLLATE "C") COLLATE "default"
               ) IS NULL AS is_baseless,
               -- An outcome that nobody learned may be asked for again under its key, or not at
               -- all.
               m.keyed_since IS NOT NULL AND (
                   NOT %(keeps_keys)s OR m.provider <> %(provider)s
                   OR m.keyed_since <= now() - %(key_lifetime)s::interval) AS key_is_lost,
               m.delivery = 'at_least_once' AND m.unknown_count = 0 AS may_repeat,
               m.attempt_count - m.refunded_count > coalesce(m.max_attempts, %(max_attempts)s)
                   AS is_used_up,
               -- Twice it took too long before: the third time it is the message's own doing.
               m.attempts->-1->>'outcome' = 'no_room' AND m.attempts->-2->>'outcome' = 'no_room'
                   AS is_slow
        FROM postlease.email_messages AS m
        WHERE m.id = asked.id
          AND m.status = 'sending'
          AND m.lease_owner = asked.owner
          AND m.attempt_count = asked.attempt
        FOR NO KEY UPDATE
    ) AS h
), struck AS (
    SELECT h.id, array_agg(a.digest) AS digests, count(*) FILTER (WHERE a.is_to) AS to_count
    FROM unnest(%(addressee_ids)s::uuid[], %(digests)s::bytea[], %(is_to)s::boolean[])
        AS a (id, digest, is_to)
    JOIN held AS h ON h.id = a.id
    -- An address may be listed for several reasons and is struck once.
    WHERE EXISTS (
        SELECT FROM postlease.suppressions AS s
        WHERE s.address_digest = a.digest
          AND (s.expires_at IS NULL OR s.expires_at > now())
          AND NOT (s.reason = 'complaint' AND h.priority = 0))
    GROUP BY h.id
), judged AS (
    SELECT h.id, h.key_is_lost, h.is_slow, coalesce(s.digests, '{}') AS struck, CASE
        WHEN t.superseded_at IS NOT NULL OR t.redeemed_at IS NOT NULL THEN 'superseded'
        WHEN h.is_baseless THEN 'superseded'
        WHEN h.expires_at <= now() THEN 'expired'
        WHEN t.expires_at <= now() + %(token_life_left)s::interval THEN 'expired'
        WHEN s.to_count = h.to_count THEN 'suppressed'
        WHEN h.key_is_lost AND NOT h.may_repeat THEN 'outcome_unknown'
        WHEN h.is_used_up THEN 'attempts_exhausted'
        WHEN h.lease_expires_at < now() + %(needed)s::interval THEN 'no_room'
        ELSE 'go' END AS verdict
    FROM held AS h
    LEFT JOIN struck AS s ON s.id = h.id
    LEFT JOIN postlease.verification_tokens AS t ON t.id = h.token_id
)
UPDATE postlease.email_messages AS m
SET status = CASE j.verdict
        WHEN 'go' THEN 'sending' WHEN 'no_room' THEN 'pending' ELSE 'failed' END,
    failure_reason = CASE WHEN j.verdict NOT IN ('go', 'no_room') THEN j.verdict END,
    refunded_count = m.refunded_count
        + CASE WHEN j.verdict = 'no_room' AND NOT coalesce(j.is_slow, false) THEN 1 ELSE 0 END,
    available_at = CASE j.verdict
        WHEN 'no_room' THEN now() + %(no_room_wait)s::interval ELSE m.available_at END,
    attempts = CASE j.verdict
        WHEN 'go' THEN m.attempts
        ELSE postlease.attempts_with(m, j.verdict, NULL, NULL,
            j.verdict = 'no_room' AND NOT coalesce(j.is_slow, false)) END,
    dispatched_at = CASE j.verdict WHEN 'go' THEN now() END,
    unknown_count = m.unknown_count
        + CASE WHEN j.verdict = 'go' AND j.key_is_lost THEN 1 ELSE 0 END,
    keyed_since = CASE WHEN j.verdict = 'go' AND j.key_is_lost THEN NULL ELSE m.keyed_since END,
    provider = CASE j.verdict WHEN 'go' THEN %(provider)s ELSE m.provider END,
    lease_owner = CASE j.verdict WHEN 'go' THEN m.lease_owner END,
    claimed_at = CASE j.verdict WHEN 'go' THEN m.claimed_at END,
    lease_expires_at = CASE j.verdict WHEN 'go' THEN m.lease_expires_at END,
    finished_at = CASE WHEN j.verdict NOT IN ('go', 'no_room') THEN now() END
FROM judged AS j
WHERE m.id = j.id AND m.id = ANY (%(ids)s::uuid[])
RETURNING m.id, j.verdict, j.struck

--- outbox.backlog
-- outbox.backlog
SELECT count(*) FILTER (WHERE m.status = 'pending') AS queued,
       count(*) FILTER (WHERE m.status = 'sending') AS sending,
       count(*) FILTER (WHERE m.status = 'sending' AND m.lease_expires_at < now())
           AS expired_leases,
       count(*) FILTER (WHERE m.status = 'sending' AND m.lease_expires_at < now()
                          AND m.dispatched_at IS NOT NULL) AS unknown,
       coalesce(extract(epoch FROM now() - min(m.available_at)
           FILTER (WHERE m.status = 'pending' AND m.available_at <= now())), 0)::float8
           AS oldest_due_seconds
FROM postlease.email_messages AS m
WHERE m.finished_at IS NULL

--- outbox.backlog_by_class
-- outbox.backlog_by_class
SELECT m.priority,
       count(*) FILTER (WHERE m.status = 'pending') AS pending,
       count(*) FILTER (WHERE m.status = 'sending') AS sending,
       count(*) FILTER (WHERE m.status = 'sending' AND m.lease_expires_at < now()
                          AND m.dispatched_at IS NOT NULL) AS unknown,
       coalesce(extract(epoch FROM now() - min(m.available_at)
           FILTER (WHERE m.status = 'pending' AND m.available_at <= now())), 0)::float8
           AS oldest_due_seconds
FROM postlease.email_messages AS m
WHERE m.finished_at IS NULL
GROUP BY m.priority

--- outbox.cancel
-- outbox.cancel
WITH held AS MATERIALIZED (
    SELECT m.id, CASE WHEN m.status = 'pending' THEN 'cancelled' ELSE 'not_pending' END AS word
    FROM postlease.email_messages AS m
    WHERE m.id = %(id)s
    FOR NO KEY UPDATE
), cancelled AS (
    UPDATE postlease.email_messages AS m
    SET status = 'failed', failure_reason = 'cancelled', finished_at = now()
    FROM held
    WHERE m.id = held.id AND held.word = 'cancelled'
)
SELECT held.word FROM held

--- outbox.choose_chunk
-- outbox.choose_chunk
WITH old AS MATERIALIZED (
    SELECT m.id
    FROM postlease.email_messages AS m
    WHERE m.status IN ('sent', 'failed')
      AND m.finished_at < now() - %(age)s::interval
      AND m.created_at < now() - %(age)s::interval
    ORDER BY m.id
    LIMIT %(chunk)s
    FOR UPDATE SKIP LOCKED
)
INSERT INTO postlease.archive_chunks (message_ids)
SELECT array_agg(old.id ORDER BY old.id)
FROM old
HAVING count(*) > 0
RETURNING id, message_ids, created_at

--- outbox.claim
-- outbox.claim
WITH due AS MATERIALIZED (
    SELECT picked.*
    FROM (VALUES
        (0::smallint, '-infinity'::timestamptz, '00000000-0000-0000-0000-000000000000'::uuid),
        (50::smallint, %(floor_50_at)s::timestamptz, %(floor_50_id)s::uuid),
        (100::smallint, %(floor_100_at)s::timestamptz, %(floor_100_id)s::uuid)
    ) AS class (priority, floor_at, floor_id)
    CROSS JOIN LATERAL (
        SELECT m.ctid AS tid, m.priority, m.available_at, m.id, m.attachment_bytes AS bytes
        FROM postlease.email_messages AS m
        WHERE m.finished_at IS NULL
          AND m.priority = class.priority
          AND (m.available_at, m.id) > (class.floor_at, class.floor_id)
          AND m.available_at <= now()
          AND m.status = 'pending'
          AND (m.reaped_count > 0) = %(suspects)s
          AND (m.attachment_bytes = 0 OR NOT %(plain)s)
        ORDER BY m.available_at, m.id
        LIMIT %(slots)s
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS picked
    WHERE NOT EXISTS (
        SELECT FROM postlease.provider_gates AS g
        WHERE g.provider = %(provider)s AND g.closed_at IS NOT NULL)
    LIMIT %(slots)s
), claimed AS (
    UPDATE postlease.email_messages AS m
    SET status = 'sending',
        lease_owner = %(owner)s,
        claimed_at = now(),
        lease_expires_at = now() + %(lease)s::interval,
        attempt_count = m.attempt_count + 1
    WHERE m.ctid = ANY (ARRAY(
        SELECT summed.tid
        FROM (
            SELECT due.tid, due.bytes,
                   sum(due.bytes) OVER (ORDER BY due.priority, due.available_at, due.id) AS total
            FROM due
        ) AS summed
        WHERE summed.total <= %(room)s::bigint
           OR (summed.total = summed.bytes AND %(alone)s)
    )) AND m.status = 'pending'
    RETURNING m.*
)
SELECT c.id, c.attempt_count, c.priority, c.available_at, c.created_at, c.lease_expires_at,
       c.template, c.locale, c.delivery,
       coalesce(c.max_attempts, %(max_attempts)s) - (c.attempt_count - c.refunded_count)
           AS attempts_left,
       c.attempt_count - c.refunded_count AS counted_attempts, c.retry_count,
       c.parameters::text AS parameters,
       c.to_addresses, c.cc_addresses, c.bcc_addresses,
       nullif(c.recipient_names, '{}')::text AS recipient_names, c.from_address, c.reply_to,
       nullif(c.tags, '{}')::text AS tags,
       t.id AS token_id, t.user_id, t.purpose, t.version, t.key_id, t.token_hash,
       (SELECT jsonb_agg(jsonb_build_object(
            'filename', a.filename, 'content_type', a.content_type, 'storage_ref', a.storage_ref,
            'version_id', a.version_id, 'size', a.size, 'sha256', encode(a.sha256, 'hex'),
            'content_id', a.content_id)
            ORDER BY a.position)
        FROM postlease.email_attachments AS a WHERE a.message_id = c.id) AS attachments
FROM claimed AS c
LEFT JOIN postlease.verification_tokens AS t ON t.id = c.token_id

--- outbox.claim_named
-- outbox.claim_named
WITH due AS MATERIALIZED (
    SELECT m.ctid AS tid, m.priority, m.available_at, m.id, m.attachment_bytes AS bytes
    FROM postlease.email_messages AS m
    WHERE m.id = ANY (%(ids)s::uuid[])
      AND m.available_at <= now()
      AND m.status = 'pending'
      AND m.reaped_count = 0
      AND NOT EXISTS (
        SELECT FROM postlease.provider_gates AS g
        WHERE g.provider = %(provider)s AND g.closed_at IS NOT NULL)
    ORDER BY m.id
    LIMIT %(slots)s
    FOR NO KEY UPDATE SKIP LOCKED
), claimed AS (
    UPDATE postlease.email_messages AS m
    SET status = 'sending',
        lease_owner = %(owner)s,
        claimed_at = now(),
        lease_expires_at = now() + %(lease)s::interval,
        attempt_count = m.attempt_count + 1
    WHERE m.ctid = ANY (ARRAY(
        SELECT summed.tid
        FROM (
            SELECT due.tid, due.bytes,
                   sum(due.bytes) OVER (ORDER BY due.priority, due.available_at, due.id) AS total
            FROM due
        ) AS summed
        WHERE summed.total <= %(room)s::bigint
           OR (summed.total = summed.bytes AND %(alone)s)
    )) AND m.status = 'pending'
    RETURNING m.*
)
SELECT c.id, c.attempt_count, c.priority, c.available_at, c.created_at, c.lease_expires_at,
       c.template, c.locale, c.delivery,
       coalesce(c.max_attempts, %(max_attempts)s) - (c.attempt_count - c.refunded_count)
           AS attempts_left,
       c.attempt_count - c.refunded_count AS counted_attempts, c.retry_count,
       c.parameters::text AS parameters,
       c.to_addresses, c.cc_addresses, c.bcc_addresses,
       nullif(c.recipient_names, '{}')::text AS recipient_names, c.from_address, c.reply_to,
       nullif(c.tags, '{}')::text AS tags,
       t.id AS token_id, t.user_id, t.purpose, t.version, t.key_id, t.token_hash,
       (SELECT jsonb_agg(jsonb_build_object(
            'filename', a.filename, 'content_type', a.content_type, 'storage_ref', a.storage_ref,
            'version_id', a.version_id, 'size', a.size, 'sha256', encode(a.sha256, 'hex'),
            'content_id', a.content_id)
            ORDER BY a.position)
        FROM postlease.email_attachments AS a WHERE a.message_id = c.id) AS attachments
FROM claimed AS c
LEFT JOIN postlease.verification_tokens AS t ON t.id = c.token_id

--- outbox.claim_probe
-- outbox.claim_probe
WITH due AS MATERIALIZED (
    SELECT picked.*
    FROM (VALUES (0::smallint), (50::smallint), (100::smallint)) AS class (priority)
    CROSS JOIN LATERAL (
        SELECT m.ctid AS tid, m.priority, m.available_at, m.id, m.attachment_bytes AS bytes
        FROM postlease.email_messages AS m
        WHERE m.finished_at IS NULL
          AND m.priority = class.priority
          AND m.available_at <= now()
          AND m.status = 'pending'
          AND (m.reaped_count > 0) = %(suspects)s
          AND m.id IS DISTINCT FROM %(avoid)s::uuid
        ORDER BY m.available_at, m.id
        LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS picked
    ORDER BY picked.available_at, picked.id
    LIMIT 1
), claimed AS (
    UPDATE postlease.email_messages AS m
    SET status = 'sending',
        lease_owner = %(owner)s,
        claimed_at = now(),
        lease_expires_at = now() + %(lease)s::interval,
        attempt_count = m.attempt_count + 1
    WHERE m.ctid = ANY (ARRAY(
        SELECT summed.tid
        FROM (
            SELECT due.tid, due.bytes,
                   sum(due.bytes) OVER (ORDER BY due.priority, due.available_at, due.id) AS total
            FROM due
        ) AS summed
        WHERE summed.total <= %(room)s::bigint
           OR (summed.total = summed.bytes AND %(alone)s)
    )) AND m.status = 'pending'
    RETURNING m.*
)
SELECT c.id, c.attempt_count, c.priority, c.available_at, c.created_at, c.lease_expires_at,
       c.template, c.locale, c.delivery,
       coalesce(c.max_attempts, %(max_attempts)s) - (c.attempt_count - c.refunded_count)
           AS attempts_left,
       c.attempt_count - c.refunded_count AS counted_attempts, c.retry_count,
       c.parameters::text AS parameters,
       c.to_addresses, c.cc_addresses, c.bcc_addresses,
       nullif(c.recipient_names, '{}')::text AS recipient_names, c.from_address, c.reply_to,
       nullif(c.tags, '{}')::text AS tags,
       t.id AS token_id, t.user_id, t.purpose, t.version, t.key_id, t.token_hash,
       (SELECT jsonb_agg(jsonb_build_object(
            'filename', a.filename, 'content_type', a.content_type, 'storage_ref', a.storage_ref,
            'version_id', a.version_id, 'size', a.size, 'sha256', encode(a.sha256, 'hex'),
            'content_id', a.content_id)
            ORDER BY a.position)
        FROM postlease.email_attachments AS a WHERE a.message_id = c.id) AS attachments
FROM claimed AS c
LEFT JOIN postlease.verification_tokens AS t ON t.id = c.token_id

--- outbox.close_chunk
-- outbox.close_chunk
DELETE FROM postlease.archive_chunks AS c WHERE c.id = %(id)s

--- outbox.count_retriable
-- outbox.count_retriable
SELECT count(*) AS found
FROM postlease.email_messages AS m
WHERE m.id >= %(lowest_id)s
  AND m.id < %(below)s
  AND m.created_at >= %(created_from)s::timestamptz
  AND m.created_at < %(created_before)s::timestamptz
  AND (%(status)s::text IS NULL OR m.status = %(status)s)
  AND (%(reason)s::text IS NULL OR m.failure_reason = %(reason)s)
  AND (%(template)s::text IS NULL OR m.template = %(template)s)
  AND m.status = 'failed'
  AND m.redacted_at IS NULL
  AND m.failure_reason <> 'superseded'
  AND (m.expires_at IS NULL OR m.expires_at > now())
  AND NOT EXISTS (
      SELECT FROM postlease.verification_tokens AS t
      WHERE t.id = m.token_id
        AND (t.superseded_at IS NOT NULL OR t.redeemed_at IS NOT NULL
             OR t.expires_at <= now() + %(token_life_left)s::interval))
  AND NOT (EXISTS (
      SELECT FROM postlease.email_messages AS n
      WHERE n.producer = m.producer AND n.cancel_scope = m.cancel_scope AND n.id > m.id
        AND n.finished_at IS NULL) OR EXISTS (
      SELECT FROM postlease.email_messages AS n
      WHERE n.producer = m.producer AND n.cancel_scope = m.cancel_scope AND n.id > m.id
        AND n.finished_at IS NOT NULL AND n.failure_reason IS DISTINCT FROM 'superseded'))

--- outbox.enqueue
-- outbox.enqueue
SELECT postlease.enqueue_email(
    template => %(template)s, to_addresses => %(to)s::text[], parameters => %(parameters)s::jsonb,
    cc_addresses => %(cc)s::text[], bcc_addresses => %(bcc)s::text[], names => %(names)s::jsonb,
    locale => %(locale)s, priority => %(priority)s, delivery => %(delivery)s,
    send_at => %(send_at)s::timestamptz, expires_at => %(expires_at)s::timestamptz,
    idempotency_key => %(idempotency_key)s, cancel_scope => %(cancel_scope)s,
    from_address => %(from_address)s, reply_to => %(reply_to)s, tags => %(tags)s::jsonb,
    attachments => %(attachments)s::jsonb)

--- outbox.enqueue_auth
-- outbox.enqueue_auth
SELECT postlease.enqueue_auth_email(
    template => %(template)s, user_id => %(user_id)s, token_id => %(token_id)s,
    locale => %(locale)s, lifetime => %(lifetime)s)

--- outbox.enqueue_for
-- outbox.enqueue_for
SELECT f.id, f.is_new FROM postlease.enqueue_for(%(producer)s, %(messages)s) AS f
ORDER BY f."position"

--- outbox.erase
-- outbox.erase
WITH theirs AS MATERIALIZED (
    SELECT m.id
    FROM postlease.email_messages AS m
    WHERE m.id = ANY (%(ids)s) AND m.status <> 'sending'
), noted AS (
    INSERT INTO postlease.attachment_deletions (storage_ref, version_id)
    SELECT a.storage_ref, a.version_id
    FROM postlease.email_attachments AS a
    JOIN theirs ON theirs.id = a.message_id
    WHERE a.owned
    RETURNING 1
), detached AS (
    DELETE FROM postlease.email_attachments AS a
    USING theirs
    WHERE a.message_id = theirs.id
), erased AS (
    UPDATE postlease.email_messages AS m
    SET status = CASE m.status WHEN 'pending' THEN 'failed' ELSE m.status END,
        failure_reason = CASE m.status WHEN 'pending' THEN 'cancelled' ELSE m.failure_reason END,
        finished_at = coalesce(m.finished_at, now()),
        parameters = '{}', recipient_names = '{}', reply_to = NULL,
        to_addresses = ARRAY[%(nobody)s], cc_addresses = '{}', bcc_addresses = '{}',
        idempotency_key = CASE
            WHEN lower(m.idempotency_key COLLATE "C") ~ %(spelling)s
            THEN 'erased:' || m.id
            ELSE m.idempotency_key END,
        cancel_scope = CASE WHEN lower(m.cancel_scope COLLATE "C") ~ %(spelling)s
            THEN NULL ELSE m.cancel_scope END,
        redacted_at = coalesce(m.redacted_at, now())
    FROM theirs
    WHERE m.id = theirs.id
)
SELECT count(*)::int AS objects FROM noted

--- outbox.event_state
-- outbox.event_state
SELECT m.status, m.failure_reason, m.created_at, m.sent_at, m.finished_at
FROM postlease.email_messages AS m
WHERE m.id = %(id)s AND m.priority = 0

--- outbox.expire_waiting
-- outbox.expire_waiting
WITH late AS MATERIALIZED (
    SELECT m.id
    FROM postlease.email_messages AS m
    WHERE m.finished_at IS NULL
      AND m.status = 'pending'
      AND m.expires_at <= now()
    ORDER BY m.id
    LIMIT %(batch)s
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE postlease.email_messages AS m
SET status = 'failed', failure_reason = 'expired', finished_at = now()
FROM late
WHERE m.id = late.id
RETURNING m.status

--- outbox.find
-- outbox.find

SELECT m.id, m.template, m.locale, m.status, m.failure_reason, m.priority, m.delivery,
       m.status = 'sending' AND m.dispatched_at IS NOT NULL AND m.lease_expires_at < now()
           AS is_unknown,
       m.attempt_count, m.refunded_count, m.retry_count, m.provider, m.provider_message_id,
       m.to_addresses, m.cc_addresses, m.bcc_addresses,
       m.created_at, m.available_at, m.expires_at, m.lease_expires_at, m.sent_at, m.finished_at
, m.attempts, m.lease_owner, m.claimed_at, m.dispatched_at,
       m.max_attempts, m.template_version, m.redacted_at,
       m.tags, m.cancel_scope, m.from_address, m.reply_to,
       m.recipient_names,
       coalesce((
           SELECT jsonb_agg(jsonb_build_object(
               'position', a.position, 'content_type', a.content_type, 'size', a.size,
               'filename', a.filename) ORDER BY a.position)
           FROM postlease.email_attachments AS a WHERE a.message_id = m.id), '[]') AS attachments
FROM postlease.email_messages AS m
WHERE m.id = %(id)s

--- outbox.finished_lately
-- outbox.finished_lately
SELECT m.failure_reason, count(*) AS found
FROM postlease.email_messages AS m
WHERE m.created_at > now() - %(window)s::interval
  AND m.finished_at IS NOT NULL
GROUP BY m.failure_reason

--- outbox.held_up
-- outbox.held_up
SELECT m.id, m.attachment_bytes
FROM postlease.email_messages AS m
WHERE m.finished_at IS NULL
  AND m.attachment_bytes > %(room)s
  AND m.status = 'pending'
  AND m.available_at <= now()
  AND m.reaped_count = 0
ORDER BY m.available_at, m.id
LIMIT 1

--- outbox.hold_many
-- outbox.hold_many
WITH wanted AS MATERIALIZED (
    SELECT m.id, m.producer, m.cancel_scope
FROM postlease.email_messages AS m
WHERE m.id >= %(lowest_id)s
  AND m.id < %(below)s
  AND m.created_at >= %(created_from)s::timestamptz
  AND m.created_at < %(created_before)s::timestamptz
  AND (%(status)s::text IS NULL OR m.status = %(status)s)
  AND (%(reason)s::text IS NULL OR m.failure_reason = %(reason)s)
  AND (%(template)s::text IS NULL OR m.template = %(template)s)
  AND m.status = 'failed'
  AND m.redacted_at IS NULL
  AND m.failure_reason <> 'superseded'
  AND (m.expires_at IS NULL OR m.expires_at > now())
  AND NOT EXISTS (
      SELECT FROM postlease.verification_tokens AS t
      WHERE t.id = m.token_id
        AND (t.superseded_at IS NOT NULL OR t.redeemed_at IS NOT NULL
             OR t.expires_at <= now() + %(token_life_left)s::interval))
  AND NOT (EXISTS (
      SELECT FROM postlease.email_messages AS n
      WHERE n.producer = m.producer AND n.cancel_scope = m.cancel_scope AND n.id > m.id
        AND n.finished_at IS NULL) OR EXISTS (
      SELECT FROM postlease.email_messages AS n
      WHERE n.producer = m.producer AND n.cancel_scope = m.cancel_scope AND n.id > m.id
        AND n.finished_at IS NOT NULL AND n.failure_reason IS DISTINCT FROM 'superseded'))
ORDER BY m.id
    LIMIT %(limit)s
    FOR NO KEY UPDATE
), held AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(l.key)
    FROM (
        SELECT DISTINCT
            hashtextextended(jsonb_build_array(w.producer, w.cancel_scope)::text, 0) AS key
        FROM wanted AS w
        WHERE w.cancel_scope IS NOT NULL
        ORDER BY key) AS l
)
SELECT w.id FROM wanted AS w WHERE (SELECT count(*) FROM held) >= 0

--- outbox.hold_scope
-- outbox.hold_scope
SELECT pg_advisory_xact_lock(
    hashtextextended(jsonb_build_array(m.producer, m.cancel_scope)::text, 0))
FROM postlease.email_messages AS m
WHERE m.id = %(id)s AND m.cancel_scope IS NOT NULL

--- outbox.lock_theirs
-- outbox.lock_theirs
WITH page AS MATERIALIZED (
    SELECT m.id FROM postlease.email_messages AS m
    WHERE m.id > %(after)s
    ORDER BY m.id
    LIMIT %(page)s
), theirs AS MATERIALIZED (
    SELECT m.id, m.status
    FROM postlease.email_messages AS m
    JOIN page ON page.id = m.id
    WHERE EXISTS (
        SELECT FROM unnest(m.to_addresses || m.cc_addresses || m.bcc_addresses) AS a (address)
        WHERE lower(a.address COLLATE "C") = %(address)s)
       OR lower(m.reply_to COLLATE "C") ~ %(mention)s
    ORDER BY m.id
    FOR NO KEY UPDATE OF m
)
SELECT (SELECT p.id FROM page AS p ORDER BY p.id DESC LIMIT 1) AS last,
       coalesce(array_agg(t.id), '{}') AS ids,
       count(*) FILTER (WHERE t.status = 'pending')::int AS cancelled,
       count(*) FILTER (WHERE t.status IN ('sent', 'failed'))::int AS redacted,
       count(*) FILTER (WHERE t.status = 'sending')::int AS sending
FROM theirs AS t

--- outbox.old_pending
-- outbox.old_pending
SELECT count(*) AS found
FROM postlease.email_messages AS m
WHERE m.finished_at IS NULL
  AND m.status = 'pending'
  AND m.available_at < now() - %(age)s::interval

--- outbox.open_chunk
-- outbox.open_chunk
SELECT c.id, c.message_ids, c.created_at
FROM postlease.archive_chunks AS c
ORDER BY c.id
LIMIT 1

--- outbox.purge
-- outbox.purge
WITH old AS MATERIALIZED (
    SELECT m.id
    FROM postlease.email_messages AS m
    WHERE m.status IN ('sent', 'failed')
      AND m.finished_at < now() - %(age)s::interval
      AND m.created_at < now() - %(age)s::interval
    ORDER BY m.id
    LIMIT %(chunk)s
    FOR UPDATE SKIP LOCKED
), noted AS (
    INSERT INTO postlease.attachment_deletions (storage_ref, version_id)
    SELECT a.storage_ref, a.version_id
    FROM postlease.email_attachments AS a
    JOIN old ON old.id = a.message_id
    WHERE a.owned
)
DELETE FROM postlease.email_messages AS m
USING old
WHERE m.id = old.id

--- outbox.purge_chunk
-- outbox.purge_chunk
WITH kept AS MATERIALIZED (
    SELECT m.id
    FROM postlease.email_messages AS m
    JOIN unnest(%(ids)s::uuid[], %(versions)s::text[]) AS r (id, version) ON r.id = m.id
    WHERE m.xmin::text = r.version
      AND m.status IN ('sent', 'failed')
    ORDER BY m.id
    FOR UPDATE OF m
), noted AS (
    INSERT INTO postlease.attachment_deletions (storage_ref, version_id)
    SELECT a.storage_ref, a.version_id
    FROM postlease.email_attachments AS a
    JOIN kept ON kept.id = a.message_id
    WHERE a.owned
)
DELETE FROM postlease.email_messages AS m
USING kept
WHERE m.id = kept.id

--- outbox.read_chunk
-- outbox.read_chunk
SELECT m.id, m.xmin::text AS version,
       jsonb_build_object(
           'message', to_jsonb(m),
           'attachments', coalesce((
               SELECT jsonb_agg(to_jsonb(a) - 'owned' ORDER BY a.position)
               FROM postlease.email_attachments AS a
               WHERE a.message_id = m.id), '[]'))::text AS line
FROM postlease.email_messages AS m
WHERE m.id = ANY (%(ids)s::uuid[])
  AND m.status IN ('sent', 'failed')
  AND m.finished_at < now() - %(age)s::interval
ORDER BY m.id

--- outbox.reap_dispatched
-- outbox.reap_dispatched
WITH unknown AS MATERIALIZED (
    SELECT m.id,
           m.delivery = 'at_least_once'
           AND m.unknown_count = 0
           AND m.attempt_count - m.refunded_count < coalesce(m.max_attempts, %(max_attempts)s)
               AS once_more
    FROM postlease.email_messages AS m
    WHERE m.finished_at IS NULL
      AND m.status = 'sending'
      AND m.dispatched_at IS NOT NULL
      AND m.lease_expires_at + %(grace)s::interval < now()
    ORDER BY m.id
    LIMIT %(batch)s
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE postlease.email_messages AS m
SET status = CASE WHEN unknown.once_more THEN 'pending' ELSE 'failed' END,
    failure_reason = CASE WHEN NOT unknown.once_more THEN 'outcome_unknown' END,
    finished_at = CASE WHEN NOT unknown.once_more THEN now() END,
    attempts = postlease.attempts_with(m, 'unknown', NULL, NULL, false),
    unknown_count = m.unknown_count + 1,
    dispatched_at = CASE WHEN NOT unknown.once_more THEN m.dispatched_at END,
    lease_owner = NULL,
    claimed_at = NULL,
    lease_expires_at = NULL
FROM unknown
WHERE m.id = unknown.id
RETURNING m.status

--- outbox.reap_keyed
-- outbox.reap_keyed
WITH unknown AS MATERIALIZED (
    SELECT m.id
    FROM postlease.email_messages AS m
    WHERE m.finished_at IS NULL
      AND m.status = 'sending'
      AND m.dispatched_at IS NOT NULL
      AND m.provider = %(provider)s
      AND m.lease_expires_at < now()
      AND coalesce(m.keyed_since, m.dispatched_at) > now() - %(key_lifetime)s::interval
      AND m.attempt_count - m.refunded_count < coalesce(m.max_attempts, %(max_attempts)s)
    ORDER BY m.id
    LIMIT %(batch)s
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE postlease.email_messages AS m
SET status = 'pending',
    attempts = postlease.attempts_with(m, 'unknown', 'asked_again', NULL, false),
    keyed_since = coalesce(m.keyed_since, m.dispatched_at),
    dispatched_at = NULL,
    lease_owner = NULL,
    claimed_at = NULL,
    lease_expires_at = NULL
FROM unknown
WHERE m.id = unknown.id
RETURNING m.status

--- outbox.reap_undispatched
-- outbox.reap_undispatched
WITH lost AS MATERIALIZED (
    SELECT m.id
    FROM postlease.email_messages AS m
    WHERE m.finished_at IS NULL
      AND m.status = 'sending'
      AND m.dispatched_at IS NULL
      AND m.lease_expires_at < now()
    ORDER BY m.id
    LIMIT %(batch)s
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE postlease.email_messages AS m
SET status = CASE WHEN m.reaped_count + 1 >= %(limit)s THEN 'failed' ELSE 'pending' END,
    failure_reason = CASE WHEN m.reaped_count + 1 >= %(limit)s THEN 'worker_lost' END,
    finished_at = CASE WHEN m.reaped_count + 1 >= %(limit)s THEN now() END,
    attempts = postlease.attempts_with(m, 'worker_lost', NULL, NULL, true),
    refunded_count = m.refunded_count + 1,
    reaped_count = m.reaped_count + 1,
    lease_owner = NULL,
    claimed_at = NULL,
    lease_expires_at = NULL
FROM lost
WHERE m.id = lost.id
RETURNING m.status

--- outbox.record
-- outbox.record
WITH held AS MATERIALIZED (
    SELECT told.*
    FROM (
        SELECT * FROM unnest(
            %(ids)s::uuid[], %(owners)s::text[], %(attempts)s::integer[], %(statuses)s::text[],
            %(reasons)s::text[], %(refunds)s::integer[], %(closings)s::boolean[],
            %(outcomes)s::text[], %(codes)s::text[], %(provider_ids)s::text[], %(versions)s::text[],
            %(delays)s::interval[])
            AS t (id, owner, attempt, status, reason, refund, closing, outcome, code, provider_id,
                  version, delay)
        ORDER BY t.id
    ) AS told
    CROSS JOIN LATERAL (
        SELECT FROM postlease.email_messages AS m
        WHERE m.id = told.id
          AND m.status = 'sending'
          AND m.lease_owner = told.owner
          AND m.attempt_count = told.attempt
        FOR NO KEY UPDATE
    ) AS locked
)
UPDATE postlease.email_messages AS m
SET status = h.status,
    failure_reason = h.reason,
    refunded_count = m.refunded_count + h.refund,
    attempts = postlease.attempts_with(m, h.outcome, h.code, h.provider_id, h.refund = 1),
    available_at = CASE h.status WHEN 'pending' THEN now() + h.delay ELSE m.available_at END,
    dispatched_at = CASE h.status WHEN 'pending' THEN NULL ELSE m.dispatched_at END,
    provider_message_id = h.provider_id,
    keyed_since = CASE h.status WHEN 'pending' THEN m.keyed_since END,
    blocked_at = CASE WHEN h.closing THEN now() ELSE m.blocked_at END,
    blocked_as = CASE WHEN h.closing THEN m.provider || ' ' || h.code ELSE m.blocked_as END,
    template_version = coalesce(h.version, m.template_version),
    sent_at = CASE h.status WHEN 'sent' THEN now() END,
    finished_at = CASE h.status WHEN 'pending' THEN NULL ELSE now() END,
    lease_owner = NULL,
    claimed_at = NULL,
    lease_expires_at = NULL
FROM held AS h
WHERE m.id = h.id AND m.id = ANY (%(ids)s::uuid[])
RETURNING m.id

--- outbox.recorded_before
-- outbox.recorded_before
SELECT m.id
FROM postlease.email_messages AS m
WHERE m.id = ANY (%(ids)s::uuid[])
  AND m.attempts @> jsonb_build_array(jsonb_build_object(
      'owner', (%(owners)s::text[])[array_position(%(ids)s::uuid[], m.id)],
      'attempt', (%(attempts)s::integer[])[array_position(%(ids)s::uuid[], m.id)],
      'outcome', (%(outcomes)s::text[])[array_position(%(ids)s::uuid[], m.id)]))

--- outbox.redact
-- outbox.redact
WITH old AS MATERIALIZED (
    SELECT m.id
    FROM postlease.email_messages AS m
    WHERE m.priority = 0
      AND m.status IN ('sent', 'failed')
      AND m.finished_at IS NOT NULL
      AND m.redacted_at IS NULL
      AND m.finished_at < now() - %(age)s::interval
    ORDER BY m.finished_at
    LIMIT %(chunk)s
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE postlease.email_messages AS m
SET parameters = '{}', recipient_names = '{}', reply_to = NULL,
    to_addresses = ARRAY[%(nobody)s], cc_addresses = '{}', bcc_addresses = '{}',
    redacted_at = now()
FROM old
WHERE m.id = old.id

--- outbox.rehearse_supersede
-- outbox.rehearse_supersede
WITH older AS MATERIALIZED (
    SELECT m.id
    FROM postlease.email_messages AS m
    WHERE m.id = ANY (%(ids)s::uuid[])
      AND m.status = 'pending'
    ORDER BY m.id
    FOR NO KEY UPDATE
)
UPDATE postlease.email_messages AS m
SET status = 'failed', failure_reason = 'superseded', finished_at = now()
FROM older
WHERE m.id = older.id
RETURNING m.id

--- outbox.resolve
-- outbox.resolve
WITH held AS MATERIALIZED (
    SELECT m.id, CASE
        WHEN m.status = 'sending' AND m.dispatched_at IS NOT NULL AND m.lease_expires_at < now()
            THEN CASE WHEN %(as_sent)s OR m.lease_expires_at + %(grace)s::interval < now()
                THEN 'resolved' ELSE 'still_open' END
        WHEN m.status = 'failed' AND m.attempts @> '[{"outcome": "unknown"}]' THEN 'resolved'
        ELSE 'not_unknown'
    END AS word,
    jsonb_path_query_array(m.attempts, '$[*] ? (@.outcome == "unknown")') -> -1 AS newest_unknown
    FROM postlease.email_messages AS m
    WHERE m.id = %(id)s
    FOR NO KEY UPDATE
), resolved AS (
    UPDATE postlease.email_messages AS m
    SET status = CASE WHEN %(as_sent)s THEN 'sent' ELSE 'failed' END,
        failure_reason = CASE
            WHEN NOT %(as_sent)s THEN coalesce(m.failure_reason, 'outcome_unknown') END,
        attempts = CASE
            WHEN m.status = 'sending' AND %(as_sent)s
                THEN postlease.attempts_with(m, 'accepted', 'operator', %(sent_as)s, false)
            WHEN m.status = 'sending'
                THEN postlease.attempts_with(m, 'unknown', 'operator', NULL, false)
            WHEN %(as_sent)s
                THEN postlease.attempts_kept(m.attempts) || (
                    held.newest_unknown || jsonb_build_object(
                        'outcome', 'accepted', 'code', 'operator', 'ended_at', now(),
                        'provider_message_id', %(sent_as)s::text))
            ELSE m.attempts END,
        dispatched_at = CASE WHEN m.status = 'failed' AND %(as_sent)s
            THEN (held.newest_unknown ->> 'dispatched_at')::timestamptz ELSE m.dispatched_at END,
        provider = CASE WHEN m.status = 'failed' AND %(as_sent)s
            THEN held.newest_unknown ->> 'provider' ELSE m.provider END,
        unknown_count = m.unknown_count + CASE m.status WHEN 'sending' THEN 1 ELSE 0 END,
        provider_message_id = CASE WHEN %(as_sent)s THEN %(sent_as)s END,
        keyed_since = NULL,
        sent_at = CASE WHEN %(as_sent)s THEN now() END,
        finished_at = coalesce(m.finished_at, now()),
        lease_owner = NULL,
        claimed_at = NULL,
        lease_expires_at = NULL
    FROM held
    WHERE m.id = held.id AND held.word = 'resolved'
)
SELECT held.word FROM held

--- outbox.retry
-- outbox.retry
WITH held AS MATERIALIZED (
    SELECT m.id, CASE
        WHEN m.status <> 'failed' THEN 'not_failed'
        WHEN m.redacted_at IS NOT NULL THEN 'redacted'
        WHEN m.failure_reason = 'superseded' THEN 'superseded'
        WHEN (EXISTS (
      SELECT FROM postlease.email_messages AS n
      WHERE n.producer = m.producer AND n.cancel_scope = m.cancel_scope AND n.id > m.id
        AND n.finished_at IS NULL) OR EXISTS (
      SELECT FROM postlease.email_messages AS n
      WHERE n.producer = m.producer AND n.cancel_scope = m.cancel_scope AND n.id > m.id
        AND n.finished_at IS NOT NULL AND n.failure_reason IS DISTINCT FROM 'superseded')) THEN 'superseded'
        WHEN t.superseded_at IS NOT NULL OR t.redeemed_at IS NOT NULL THEN 'superseded'
        WHEN m.expires_at <= now() THEN 'expired'
        WHEN t.expires_at <= now() + %(token_life_left)s::interval THEN 'expired'
        ELSE 'retried'
    END AS word
    FROM postlease.email_messages AS m
    LEFT JOIN postlease.verification_tokens AS t ON t.id = m.token_id
    WHERE m.id = %(id)s
    FOR NO KEY UPDATE OF m
), retried AS (
    UPDATE postlease.email_messages AS m
    SET status = 'pending',
        failure_reason = NULL,
        retry_count = m.retry_count + 1,
        refunded_count = m.attempt_count,
        unknown_count = 0,
        reaped_count = 0,
        blocked_at = NULL,
        blocked_as = NULL,
        keyed_since = NULL,
        dispatched_at = NULL,
        available_at = now(),
        finished_at = NULL
    FROM held
    WHERE m.id = held.id AND held.word = 'retried'
)
SELECT held.word FROM held

--- outbox.retry_many
-- outbox.retry_many
UPDATE postlease.email_messages AS m
    SET status = 'pending',
        failure_reason = NULL,
        retry_count = m.retry_count + 1,
        refunded_count = m.attempt_count,
        unknown_count = 0,
        reaped_count = 0,
        blocked_at = NULL,
        blocked_as = NULL,
        keyed_since = NULL,
        dispatched_at = NULL,
        available_at = now(),
        finished_at = NULL
WHERE m.id = ANY (%(ids)s::uuid[])
  AND m.status = 'failed'
  AND NOT (EXISTS (
      SELECT FROM postlease.email_messages AS n
      WHERE n.producer = m.producer AND n.cancel_scope = m.cancel_scope AND n.id > m.id
        AND n.finished_at IS NULL) OR EXISTS (
      SELECT FROM postlease.email_messages AS n
      WHERE n.producer = m.producer AND n.cancel_scope = m.cancel_scope AND n.id > m.id
        AND n.finished_at IS NOT NULL AND n.failure_reason IS DISTINCT FROM 'superseded'))

--- outbox.search
-- outbox.search

SELECT m.id, m.template, m.locale, m.status, m.failure_reason, m.priority, m.delivery,
       m.status = 'sending' AND m.dispatched_at IS NOT NULL AND m.lease_expires_at < now()
           AS is_unknown,
       m.attempt_count, m.refunded_count, m.retry_count, m.provider, m.provider_message_id,
       m.to_addresses, m.cc_addresses, m.bcc_addresses,
       m.created_at, m.available_at, m.expires_at, m.lease_expires_at, m.sent_at, m.finished_at

FROM postlease.email_messages AS m
WHERE m.id >= %(lowest_id)s
  AND m.id < %(below)s
  AND m.created_at >= %(created_from)s::timestamptz
  AND m.created_at < %(created_before)s::timestamptz
  AND (%(status)s::text IS NULL OR m.status = %(status)s)
  AND (%(reason)s::text IS NULL OR m.failure_reason = %(reason)s)
  AND (%(template)s::text IS NULL OR m.template = %(template)s)

ORDER BY m.id DESC
LIMIT %(limit)s

--- outbox.search_unfinished
-- outbox.search_unfinished

SELECT m.id, m.template, m.locale, m.status, m.failure_reason, m.priority, m.delivery,
       m.status = 'sending' AND m.dispatched_at IS NOT NULL AND m.lease_expires_at < now()
           AS is_unknown,
       m.attempt_count, m.refunded_count, m.retry_count, m.provider, m.provider_message_id,
       m.to_addresses, m.cc_addresses, m.bcc_addresses,
       m.created_at, m.available_at, m.expires_at, m.lease_expires_at, m.sent_at, m.finished_at

FROM postlease.email_messages AS m
WHERE m.id >= %(lowest_id)s
  AND m.id < %(below)s
  AND m.created_at >= %(created_from)s::timestamptz
  AND m.created_at < %(created_before)s::timestamptz
  AND (%(status)s::text IS NULL OR m.status = %(status)s)
  AND (%(reason)s::text IS NULL OR m.failure_reason = %(reason)s)
  AND (%(template)s::text IS NULL OR m.template = %(template)s)
  AND m.finished_at IS NULL
  AND (NOT %(unknown)s OR m.status = 'sending'
       AND m.dispatched_at IS NOT NULL AND m.lease_expires_at < now())

ORDER BY m.id DESC
LIMIT %(limit)s

--- outbox.settle_accepted
-- outbox.settle_accepted
UPDATE postlease.email_messages AS m
SET status = 'sent',
    failure_reason = NULL,
    attempts = CASE
        WHEN m.status = 'sending' AND m.attempt_count = %(attempt)s
        THEN postlease.attempts_with(m, 'accepted', 'event', %(provider_message_id)s, false)
        ELSE postlease.attempts_kept(m.attempts)
            || CASE WHEN m.status = 'sending' AND m.dispatched_at IS NOT NULL
               THEN jsonb_build_array(
                   postlease.attempts_with(m, 'unknown', 'overtaken', NULL, false) -> -1)
               ELSE '[]' END
            || (jsonb_path_query_first(
                    m.attempts, '$[*] ? (@.attempt == $attempt && @.outcome == "unknown")',
                    jsonb_build_object('attempt', %(attempt)s::integer))
                || jsonb_build_object(
                    'outcome', 'accepted', 'code', 'event', 'ended_at', now(),
                    'provider_message_id', %(provider_message_id)s::text))
        END,
    dispatched_at = coalesce((jsonb_path_query_first(
        m.attempts, '$[*] ? (@.attempt == $attempt && @.outcome == "unknown").dispatched_at',
        jsonb_build_object('attempt', %(attempt)s::integer)) #>> '{}')::timestamptz,
        m.dispatched_at),
    provider = coalesce(jsonb_path_query_first(
        m.attempts, '$[*] ? (@.attempt == $attempt && @.outcome == "unknown").provider',
        jsonb_build_object('attempt', %(attempt)s::integer)) #>> '{}', m.provider),
    provider_message_id = %(provider_message_id)s,
    keyed_since = NULL,
    sent_at = now(),
    finished_at = now(),
    lease_owner = NULL,
    claimed_at = NULL,
    lease_expires_at = NULL
WHERE m.id = %(message_id)s
  AND (m.status = 'sending' AND m.attempt_count = %(attempt)s
       OR m.attempts @> jsonb_build_array(jsonb_build_object(
              'attempt', %(attempt)s::integer, 'outcome', 'unknown'))
          AND m.status <> 'sent')
RETURNING m.id

--- outbox.supersede
-- outbox.supersede
WITH older AS MATERIALIZED (
    SELECT m.id
    FROM postlease.email_messages AS m
    WHERE m.token_id = ANY (%(token_ids)s::uuid[])
      AND m.status = 'pending'
    ORDER BY m.id
    FOR NO KEY UPDATE
)
UPDATE postlease.email_messages AS m
SET status = 'failed', failure_reason = 'superseded', finished_at = now()
FROM older
WHERE m.id = older.id
RETURNING m.id

--- outbox.supersede_notes
-- outbox.supersede_notes
WITH older AS MATERIALIZED (
    SELECT m.id
    FROM postlease.email_messages AS m
    WHERE m.producer = session_user
      AND m.cancel_scope = 'account_exists:' || %(user_id)s::text
      AND m.finished_at IS NULL
      AND m.status = 'pending'
    ORDER BY m.id
    FOR NO KEY UPDATE
)
UPDATE postlease.email_messages AS m
SET status = 'failed', failure_reason = 'superseded', finished_at = now()
FROM older
WHERE m.id = older.id
RETURNING m.id

--- outbox.suspects_due
-- outbox.suspects_due
SELECT EXISTS (
    SELECT FROM postlease.email_messages AS m
    WHERE m.finished_at IS NULL
      AND m.reaped_count > 0
      AND m.status = 'pending'
      AND m.available_at <= now()
) AS due

--- outbox.take_place
-- outbox.take_place
UPDATE postlease.email_messages AS m
SET available_at = least(m.available_at - interval '1 microsecond', %(waits_since)s::timestamptz)
WHERE m.id = %(id)s

--- outbox.waiting
-- outbox.waiting
SELECT EXISTS (
    SELECT FROM postlease.email_messages AS m
    WHERE m.finished_at IS NULL
      AND m.status = 'pending'
      AND m.available_at <= now()
) AS waiting

--- producer.attachments_tag
-- producer.attachments_tag
SELECT length(postlease.attachments_tag()) AS characters

--- producer.enqueue_email
-- producer.enqueue_email
SELECT postlease.enqueue_email(
    template => 'receipt',
    to_addresses => ARRAY['grace@example.com'],
    parameters => '{"order_number": "A-1", "total": "12.00"}',
    cc_addresses => ARRAY['cc@example.com'],
    bcc_addresses => ARRAY['bcc@example.com'],
    names => '{"grace@example.com": "Grace"}',
    locale => 'de',
    priority => 100,
    delivery => 'at_most_once',
    send_at => '2026-01-01 00:00+00',
    expires_at => %(expires_at)s::timestamptz,
    idempotency_key => %(key)s,
    cancel_scope => 'order A-1',
    from_address => 'shop@example.com',
    reply_to => 'help@example.com',
    tags => '{"kind": "receipt"}',
    attachments => jsonb_build_array(%(pdf)s::jsonb || jsonb_build_object(
        'storage_ref', 'attachments/kept/' || postlease.attachments_tag() || '/terms.pdf'))
) AS id

--- producer.enqueue_email_in_places
-- producer.enqueue_email_in_places
SELECT postlease.enqueue_email('receipt', ARRAY['grace@example.com'], '{"total": "1.00"}') AS id

--- producer.enqueue_emails
-- producer.enqueue_emails
SELECT "position", id FROM postlease.enqueue_emails(%(messages)s) ORDER BY "position"

--- retention.account
-- retention.account
SELECT u.id FROM postlease.users AS u WHERE u.email_canonical = %(address)s

--- retention.end
-- retention.end
INSERT INTO postlease.retention_duties AS d (duty, ended_at)
VALUES ('run', now())
ON CONFLICT (duty) DO UPDATE SET ended_at = excluded.ended_at

--- retention.give_back
-- retention.give_back
UPDATE postlease.retention_duties AS d
SET lease_owner = NULL, lease_expires_at = NULL
WHERE d.duty = %(duty)s AND d.lease_owner = %(owner)s

--- retention.hold
-- retention.hold
UPDATE postlease.retention_duties AS d
SET lease_expires_at = now() + %(lease)s::interval
WHERE d.duty = %(duty)s AND d.lease_owner = %(owner)s
RETURNING d.duty

--- retention.last_day
-- retention.last_day
SELECT to_char(now() AT TIME ZONE 'UTC' - %(age)s::interval, 'YYYY-MM-DD') AS day

--- retention.lock
-- retention.lock
SELECT pg_try_advisory_xact_lock(%(key)s) AS held

--- retention.move
-- retention.move
INSERT INTO postlease.retention_duties AS d (duty, position)
VALUES (%(duty)s, %(position)s)
ON CONFLICT (duty) DO UPDATE SET position = excluded.position

--- retention.position
-- retention.position
SELECT d.position FROM postlease.retention_duties AS d WHERE d.duty = %(duty)s

--- retention.purge_keys
-- retention.purge_keys
DELETE FROM postlease.idempotency_keys AS k
WHERE k.ctid = ANY (ARRAY(
    SELECT old.ctid FROM postlease.idempotency_keys AS old
    WHERE old.expires_at < now()
    LIMIT %(chunk)s
    FOR UPDATE SKIP LOCKED))

--- retention.purge_tokens
-- retention.purge_tokens
DELETE FROM postlease.verification_tokens AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT old.ctid FROM postlease.verification_tokens AS old
    WHERE old.expires_at < now() - interval '30 days'
      AND NOT EXISTS (SELECT FROM postlease.email_messages AS m WHERE m.token_id = old.id)
    LIMIT %(chunk)s
    FOR UPDATE SKIP LOCKED))

--- retention.purge_windows
-- retention.purge_windows
DELETE FROM postlease.rate_limits AS r
WHERE r.ctid = ANY (ARRAY(
    SELECT old.ctid FROM postlease.rate_limits AS old
    WHERE old.window_ends_at < now()
    LIMIT %(chunk)s
    FOR UPDATE SKIP LOCKED))

--- retention.rehearse
-- retention.rehearse
SELECT
    (SELECT count(*) FROM postlease.email_messages AS m
     WHERE m.priority = 0 AND m.finished_at IS NOT NULL AND m.redacted_at IS NULL
       AND m.finished_at < now() - %(redact_after)s::interval)::int AS redacted,
    (SELECT count(*) FROM postlease.email_messages AS m
     WHERE m.status IN ('sent', 'failed')
       AND m.finished_at < now() - %(age)s::interval
       AND m.created_at < now() - %(age)s::interval)::int AS messages,
    (SELECT count(*) FROM postlease.attachment_deletions)::int
    + (SELECT count(*) FROM postlease.email_messages AS m
       JOIN postlease.email_attachments AS a ON a.message_id = m.id AND a.owned
       WHERE m.status IN ('sent', 'failed')
         AND m.finished_at < now() - %(age)s::interval
         AND m.created_at < now() - %(age)s::interval)::int AS objects,
    (SELECT count(*) FROM postlease.verification_tokens AS t
     WHERE t.expires_at < now() - interval '30 days'
       AND NOT EXISTS (
        SELECT FROM postlease.email_messages AS m
        WHERE m.token_id = t.id
          AND NOT (m.status IN ('sent', 'failed')
                   AND m.finished_at < now() - %(age)s::interval
                   AND m.created_at < now() - %(age)s::interval)))::int AS tokens,
    (SELECT count(*) FROM postlease.idempotency_keys AS k WHERE k.expires_at < now())::int AS keys,
    (SELECT count(*) FROM postlease.rate_limits AS r
     WHERE r.window_ends_at < now())::int AS windows,
    (SELECT count(*) FROM postlease.suppressions AS s WHERE s.expires_at <= now())::int
    + (SELECT count(*) FROM postlease.bounces AS b
       WHERE b.happened_at <= now() - %(window)s::interval)::int AS list_entries

--- retention.since_end
-- retention.since_end
SELECT extract(epoch FROM now() - d.ended_at)::float8 AS seconds
FROM postlease.retention_duties AS d
WHERE d.duty = 'run'

--- retention.take
-- retention.take
INSERT INTO postlease.retention_duties AS d (duty, lease_owner, lease_expires_at)
VALUES (%(duty)s, %(owner)s, now() + %(lease)s::interval)
ON CONFLICT (duty) DO UPDATE
SET lease_owner = excluded.lease_owner, lease_expires_at = excluded.lease_expires_at
WHERE d.lease_owner IS NULL
   OR d.lease_owner = excluded.lease_owner
   OR d.lease_expires_at < now()
RETURNING d.duty

--- suppression.delete
-- suppression.delete
DELETE FROM postlease.suppressions AS s
WHERE s.address_digest = %(digest)s
  AND (%(reason)s::text IS NULL OR s.reason = %(reason)s)

--- suppression.find
-- suppression.find
SELECT s.address_digest, s.reason, s.created_at, s.expires_at
FROM postlease.suppressions AS s
WHERE s.address_digest = %(digest)s
  AND (s.expires_at IS NULL OR s.expires_at > now())
ORDER BY s.reason

--- suppression.forgive
-- suppression.forgive
WITH forgiven AS MATERIALIZED (
    SELECT b.address_digest, b.event_digest
    FROM postlease.bounces AS b
    WHERE b.address_digest = ANY (%(digests)s::bytea[])
      AND b.happened_at <= least(%(at)s::timestamptz, now())
    ORDER BY b.address_digest, b.event_digest
    FOR UPDATE
)
DELETE FROM postlease.bounces AS b USING forgiven AS f
WHERE b.address_digest = f.address_digest AND b.event_digest = f.event_digest

--- suppression.note_soft
-- suppression.note_soft
INSERT INTO postlease.bounces (address_digest, event_digest, happened_at)
SELECT d, %(event)s, least(%(at)s::timestamptz, now())
FROM (SELECT DISTINCT unnest(%(digests)s::bytea[])) AS given (d)
ORDER BY d
ON CONFLICT DO NOTHING

--- suppression.page
-- suppression.page
SELECT s.address_digest, s.reason, s.created_at, s.expires_at
FROM postlease.suppressions AS s
WHERE (s.address_digest, s.reason) > (%(digest)s, %(reason)s)
  AND (%(wanted)s::text IS NULL OR s.reason = %(wanted)s)
  AND (s.expires_at IS NULL OR s.expires_at > now())
ORDER BY s.address_digest, s.reason
LIMIT %(limit)s

--- suppression.purge
-- suppression.purge
WITH bounces AS (
    DELETE FROM postlease.bounces AS b
    WHERE b.ctid = ANY (ARRAY(
        SELECT old.ctid FROM postlease.bounces AS old
        WHERE old.happened_at <= now() - %(window)s::interval
        LIMIT %(chunk)s
        FOR UPDATE SKIP LOCKED))
    RETURNING 1
), suppressions AS (
    DELETE FROM postlease.suppressions AS s
    WHERE s.ctid = ANY (ARRAY(
        SELECT old.ctid FROM postlease.suppressions AS old
        WHERE old.expires_at <= now()
        LIMIT %(chunk)s
        FOR UPDATE SKIP LOCKED))
    RETURNING 1
)
SELECT (SELECT count(*) FROM bounces) + (SELECT count(*) FROM suppressions) AS gone

--- suppression.put
-- suppression.put
INSERT INTO postlease.suppressions AS s (address_digest, reason, expires_at)
SELECT %(digest)s, 'manual', %(expires_at)s::timestamptz
WHERE %(expires_at)s::timestamptz IS NULL OR %(expires_at)s::timestamptz > now()
ON CONFLICT (address_digest, reason) DO UPDATE
SET expires_at = EXCLUDED.expires_at
RETURNING s.address_digest, s.reason, s.created_at, s.expires_at
--- suppression.suppress
-- suppression.suppress
INSERT INTO postlease.suppressions AS s (address_digest, reason, expires_at)
SELECT d, %(reason)s, least(%(at)s::timestamptz, now()) + %(lifetime)s::interval
FROM (SELECT DISTINCT unnest(%(digests)s::bytea[])) AS given (d)
WHERE %(lifetime)s::interval IS NULL
   OR least(%(at)s::timestamptz, now()) + %(lifetime)s::interval > now()
ORDER BY d
ON CONFLICT (address_digest, reason) DO UPDATE
SET expires_at = EXCLUDED.expires_at
WHERE coalesce(EXCLUDED.expires_at, 'infinity') > s.expires_at
RETURNING s.address_digest

--- suppression.suppress_often_bounced
-- suppression.suppress_often_bounced
INSERT INTO postlease.suppressions AS s (address_digest, reason, expires_at)
SELECT b.address_digest, 'bounce', max(b.happened_at) + %(lifetime)s::interval
FROM postlease.bounces AS b
WHERE b.address_digest = ANY (%(digests)s::bytea[])
  AND b.happened_at > now() - %(window)s::interval
GROUP BY b.address_digest
HAVING count(*) >= %(limit)s
ORDER BY b.address_digest
ON CONFLICT (address_digest, reason) DO UPDATE
SET expires_at = EXCLUDED.expires_at
WHERE coalesce(EXCLUDED.expires_at, 'infinity') > s.expires_at
RETURNING s.address_digest
