-- An address may be listed for several reasons, each with its own end. A complaint lets auth mail
-- pass; one entry for all of them would let it pass a later bounce too.

ALTER TABLE postlease.suppressions
    DROP CONSTRAINT suppressions_pkey,
    ADD CONSTRAINT suppressions_pkey PRIMARY KEY (address_digest, reason);
