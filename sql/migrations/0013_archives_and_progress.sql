-- Retention remembers the chunk whose file it is writing, and how far it has looked through the storage.

-- A chunk from the choice of its messages until they are gone: whoever goes on after a crash writes
-- the same file once more, and no second one. Deleted with its messages.
CREATE TABLE postlease.archive_chunks (
    id uuid NOT NULL DEFAULT postlease.uuid_v7(),
    message_ids uuid[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT archive_chunks_pkey PRIMARY KEY (id),
    CONSTRAINT archive_chunks_some CHECK (cardinality(message_ids) > 0)
);

-- A duty that takes calls to the storage cannot be held by a lock, which ends with its transaction.
CREATE TABLE postlease.retention_duties (
    duty text NOT NULL,
    position text NOT NULL DEFAULT '',
    lease_owner text,
    lease_expires_at timestamptz,
    ended_at timestamptz,
    CONSTRAINT retention_duties_pkey PRIMARY KEY (duty),
    CONSTRAINT retention_duties_lease_whole CHECK (num_nonnulls(lease_owner, lease_expires_at) IN (0, 2))
);

-- Nights are counted from here on: a new deployment has not missed one.
INSERT INTO postlease.retention_duties (duty, ended_at) VALUES ('run', now());

-- Tokens leave by their age, which follows their place in the table.
CREATE INDEX verification_tokens_by_age ON postlease.verification_tokens
    USING brin (expires_at) WITH (autosummarize = on);

GRANT SELECT, INSERT, DELETE ON postlease.archive_chunks TO postlease_application;
GRANT SELECT, INSERT, UPDATE ON postlease.retention_duties TO postlease_application;
