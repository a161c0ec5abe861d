-- The folder of a producer's own objects: attachments/uploads/<tag>/ and attachments/kept/<tag>/.
CREATE OR REPLACE FUNCTION postlease.attachments_tag(producer text DEFAULT session_user) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT left(encode(sha256(convert_to(producer, 'UTF8')), 'hex'), 16)
    $$;

REVOKE ALL ON FUNCTION postlease.attachments_tag(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION postlease.attachments_tag(text) TO postlease_application, postlease_producer;

SELECT postlease.drop_other_signatures(
    'postlease.attachments_tag(text)'::regprocedure);
