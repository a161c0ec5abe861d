-- What producers may say of a message: names beside addresses, inline images. The raw size of its
-- attachments stands on the row, so that a claim need not add it up.

ALTER TABLE postlease.email_messages
    ADD COLUMN recipient_names jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN attachment_bytes bigint NOT NULL DEFAULT 0,
    ADD CONSTRAINT email_messages_names_object CHECK (jsonb_typeof(recipient_names) = 'object'),
    ADD CONSTRAINT email_messages_attachment_bytes CHECK (attachment_bytes >= 0);

ALTER TABLE postlease.email_attachments
    ADD COLUMN content_id text,
    ADD CONSTRAINT email_attachments_content_id CHECK (content_id ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$');
