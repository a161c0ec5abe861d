-- The rule that is broken by the attachments of a message of producer, or NULL; behind a colon the
-- member, for postlease.refuse_message. Whether an upload is some other message's already, only the
-- table can tell.
CREATE OR REPLACE FUNCTION postlease.broken_attachments(producer text, attachments jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $$
DECLARE
    tag text := postlease.attachments_tag(producer);
    own text := '^attachments/((uploads|kept)/' || tag || '|shared)/.';
    broken text;
BEGIN
    IF jsonb_typeof(attachments) <> 'array' THEN
        RETURN 'email_attachments_array';
    ELSIF jsonb_array_length(attachments) > 20 THEN
        RETURN 'email_attachments_count';
    END IF;
    SELECT f.broken INTO broken FROM (SELECT a.place, CASE
        WHEN jsonb_typeof(a.one) <> 'object' THEN 'email_attachments_member'
        WHEN EXISTS (SELECT FROM jsonb_object_keys(a.one) AS k (name) WHERE k.name NOT IN (
            'storage_ref', 'filename', 'content_type', 'version_id', 'size', 'sha256', 'content_id'))
            THEN 'email_attachments_member:unknown'
        WHEN jsonb_typeof(a.one -> 'storage_ref') IS DISTINCT FROM 'string'
            THEN 'email_attachments_member:storage_ref'
        WHEN jsonb_typeof(a.one -> 'filename') IS DISTINCT FROM 'string'
            THEN 'email_attachments_member:filename'
        WHEN jsonb_typeof(a.one -> 'content_type') IS DISTINCT FROM 'string'
            THEN 'email_attachments_member:content_type'
        WHEN jsonb_typeof(a.one -> 'version_id') NOT IN ('string', 'null')
            THEN 'email_attachments_member:version_id'
        WHEN jsonb_typeof(a.one -> 'size') IS DISTINCT FROM 'number'
            THEN 'email_attachments_member:size'
        WHEN jsonb_typeof(a.one -> 'sha256') IS DISTINCT FROM 'string'
            THEN 'email_attachments_member:sha256'
        WHEN jsonb_typeof(a.one -> 'content_id') NOT IN ('string', 'null')
            THEN 'email_attachments_member:content_id'
        WHEN octet_length(a.one ->> 'storage_ref') > 1024
          OR a.one ->> 'storage_ref' ~ '[\u0001-\u001f\u007f]'
          OR a.one ->> 'storage_ref' ~ '(^|/)[.]{1,2}(/|$)'
            THEN 'email_attachments_key_shape'
        WHEN a.one ->> 'storage_ref' !~ own THEN 'email_attachments_producer_prefix'
        WHEN a.one ->> 'storage_ref' LIKE 'attachments/uploads/%' AND a.one ->> 'version_id' IS NULL
            THEN 'email_attachments_owned_is_pinned'
        WHEN a.one ->> 'version_id' !~ '^[\u0021-\u007e]+$' OR length(a.one ->> 'version_id') > 1024
            THEN 'email_attachments_version_shape'
        WHEN length(a.one ->> 'filename') NOT BETWEEN 1 AND 255
          OR a.one ->> 'filename' ~ '[\u0001-\u001f\u007f-\u009f\u2028\u2029]'
            THEN 'email_attachments_filename'
        WHEN a.one ->> 'content_type'
            !~ '^[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,63}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}$'
            THEN 'email_attachments_content_type'
        WHEN (a.one ->> 'size')::numeric < 0 OR (a.one ->> 'size')::numeric % 1 <> 0
            THEN 'email_attachments_size'
        WHEN a.one ->> 'sha256' !~ '^[0-9A-Fa-f]{64}$' THEN 'email_attachments_sha256_length'
        WHEN a.one ->> 'content_id' !~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'
            THEN 'email_attachments_content_id'
        END AS broken
        FROM jsonb_array_elements(attachments) WITH ORDINALITY AS a (one, place)) AS f
    WHERE f.broken IS NOT NULL
    ORDER BY f.place
    LIMIT 1;
    RETURN coalesce(broken, (
        SELECT CASE
            WHEN sum((a.one ->> 'size')::numeric) > 28500000 THEN 'email_attachments_total_size'
            WHEN count(DISTINCT a.one ->> 'content_id') <> count(a.one ->> 'content_id')
                THEN 'email_attachments_content_ids_distinct'
        END
        FROM jsonb_array_elements(attachments) AS a (one)));
END
$$;

REVOKE ALL ON FUNCTION postlease.broken_attachments(text, jsonb) FROM PUBLIC;

SELECT postlease.drop_other_signatures(
    'postlease.broken_attachments(text, jsonb)'::regprocedure);
