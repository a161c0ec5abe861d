-- Who signed up, and the tokens that prove an address. No table ever holds a token.

CREATE TABLE postlease.users (
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    email text NOT NULL,
    email_canonical text NOT NULL,
    locale text NOT NULL,
    verified_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT users_pkey PRIMARY KEY (id),
    CONSTRAINT users_email_canonical_key UNIQUE (email_canonical),
    CONSTRAINT users_email_shape CHECK (email ~ '^[!-?A-~]+@[!-?A-~]+$' AND length(email) <= 254),
    CONSTRAINT users_email_canonical_shape CHECK (email_canonical = lower(email_canonical)),
    CONSTRAINT users_locale_shape CHECK (locale ~ '^[A-Za-z0-9-]{1,35}$')
);

CREATE TABLE postlease.verification_tokens (
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    user_id uuid NOT NULL,
    purpose text NOT NULL,
    version integer NOT NULL,
    token_hash bytea NOT NULL,
    key_id text NOT NULL,
    expires_at timestamptz NOT NULL,
    redeemed_at timestamptz,
    superseded_at timestamptz,
    code_attempts smallint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT verification_tokens_pkey PRIMARY KEY (id),
    CONSTRAINT verification_tokens_version_key UNIQUE (user_id, purpose, version),
    CONSTRAINT verification_tokens_user_fkey FOREIGN KEY (user_id) REFERENCES postlease.users,
    CONSTRAINT verification_tokens_purpose CHECK (purpose IN ('verify_email', 'reset_password')),
    CONSTRAINT verification_tokens_version_positive CHECK (version > 0),
    CONSTRAINT verification_tokens_hash_length CHECK (octet_length(token_hash) = 32),
    CONSTRAINT verification_tokens_expiry_later CHECK (expires_at > created_at),
    CONSTRAINT verification_tokens_one_end CHECK (num_nonnulls(redeemed_at, superseded_at) <= 1)
);

-- A live token is neither redeemed nor superseded; an expired one is superseded at the next issue.
CREATE UNIQUE INDEX verification_tokens_one_live ON postlease.verification_tokens (user_id, purpose)
    WHERE redeemed_at IS NULL AND superseded_at IS NULL;

GRANT SELECT, INSERT, UPDATE ON postlease.users TO postlease_application;
GRANT SELECT, INSERT, UPDATE, DELETE ON postlease.verification_tokens TO postlease_application;
