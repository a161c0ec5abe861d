-- An account can be closed: its row goes at once. Its tokens stay behind as ended ones, so that a mail
-- still on its way is stopped by what it carries; what they verify is nobody any more.

ALTER TABLE postlease.verification_tokens
    DROP CONSTRAINT verification_tokens_user_fkey;

GRANT DELETE ON postlease.users TO postlease_application;
