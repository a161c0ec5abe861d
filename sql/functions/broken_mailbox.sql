-- Whether text is no `name@domain` or `Name <name@domain>` that could stand in a header. The address
-- is plain ASCII, as every recipient is: an international domain is written in its A-labels.
CREATE OR REPLACE FUNCTION postlease.broken_mailbox(mailbox text) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $$
DECLARE
    parts text[];
    name text;
BEGIN
    IF length(mailbox) > 512 THEN
        RETURN true;
    END IF;
    parts := regexp_match(mailbox, '^(.*)<([^<]*)>$');
    name := btrim(coalesce(parts[1], ''));
    IF length(name) >= 2 AND name LIKE '"%"' THEN
        name := substr(name, 2, length(name) - 2);
    END IF;
    RETURN length(name) > 128
        -- What is invisible, or ends a line, or turns the direction of reading.
        OR name ~ ('[\u0001-\u001f\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f'
            || '\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ud800-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff]')
        OR postlease.broken_content('{}', ARRAY[coalesce(parts[2], mailbox)]) IS NOT NULL;
END
$$;

REVOKE ALL ON FUNCTION postlease.broken_mailbox(text) FROM PUBLIC;

SELECT postlease.drop_other_signatures(
    'postlease.broken_mailbox(text)'::regprocedure);
