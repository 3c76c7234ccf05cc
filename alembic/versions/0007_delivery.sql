-- What must be delivered, what was tried, and what came of it.

CREATE SEQUENCE pgbill.message_id;

CREATE TABLE pgbill.outbox_message (
    bucket integer NOT NULL,
    account_id bigint NOT NULL,
    message_id bigint NOT NULL DEFAULT nextval('pgbill.message_id'),
    invoice_id bigint NOT NULL,
    channel text NOT NULL
        CONSTRAINT outbox_message_channel_is_known CHECK (channel IN ('email', 'folder')),
    address text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    holder text,
    expires_at timestamptz NOT NULL DEFAULT '-infinity',
    closed_at timestamptz,
    PRIMARY KEY (bucket, account_id, message_id),
    FOREIGN KEY (bucket, account_id, invoice_id)
    REFERENCES pgbill.invoice (bucket, account_id, invoice_id)
) WITH (fillfactor = 70);

CREATE INDEX outbox_message_open ON pgbill.outbox_message (bucket, message_id)
WHERE closed_at IS NULL;
CREATE INDEX outbox_message_invoice
ON pgbill.outbox_message (bucket, account_id, invoice_id);

COMMENT ON TABLE pgbill.outbox_message IS
'The intent to deliver one document to one address; committed with the invoice.';
COMMENT ON COLUMN pgbill.outbox_message.due_at IS 'Not tried before; moved on when deferred.';
COMMENT ON COLUMN pgbill.outbox_message.holder IS 'The relay that works on it; for progress only.';
COMMENT ON COLUMN pgbill.outbox_message.expires_at IS '-infinity when no relay works on it.';
COMMENT ON COLUMN pgbill.outbox_message.closed_at IS
'When it was accepted or failed for good; null: still to be delivered, or uncertain.';

CREATE TABLE pgbill.delivery_attempt (
    bucket integer NOT NULL,
    account_id bigint NOT NULL,
    message_id bigint NOT NULL,
    attempt_no integer NOT NULL
        CONSTRAINT delivery_attempt_no_is_positive CHECK (attempt_no > 0),
    previous_attempt_no integer GENERATED ALWAYS AS (nullif(attempt_no, 1) - 1) STORED,
    previous_outcome text GENERATED ALWAYS AS ('deferred') STORED,
    holder text NOT NULL,
    sent_to text NOT NULL,
    begun_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (bucket, account_id, message_id, attempt_no),
    FOREIGN KEY (bucket, account_id, message_id)
    REFERENCES pgbill.outbox_message (bucket, account_id, message_id)
);

COMMENT ON TABLE pgbill.delivery_attempt IS
'Committed before the message goes out; the key lets one relay begin an attempt.';
COMMENT ON COLUMN pgbill.delivery_attempt.previous_outcome IS
'Always deferred: with the key to delivery_outcome it makes attempt n + 1 need that '
'of n.';
COMMENT ON COLUMN pgbill.delivery_attempt.previous_attempt_no IS 'Null for the first.';
COMMENT ON COLUMN pgbill.delivery_attempt.sent_to IS
'The address that was really used; another than the message''s if mail is redirected.';

CREATE TABLE pgbill.delivery_outcome (
    bucket integer NOT NULL,
    account_id bigint NOT NULL,
    message_id bigint NOT NULL,
    attempt_no integer NOT NULL,
    outcome text NOT NULL
        CONSTRAINT delivery_outcome_is_known
        CHECK (outcome IN ('accepted', 'deferred', 'failed')),
    reply_code integer,
    reply_text text NOT NULL,
    recorded_by text NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (bucket, account_id, message_id, attempt_no),
    UNIQUE (bucket, account_id, message_id, attempt_no, outcome),
    FOREIGN KEY (bucket, account_id, message_id, attempt_no)
    REFERENCES pgbill.delivery_attempt (bucket, account_id, message_id, attempt_no)
);

COMMENT ON TABLE pgbill.delivery_outcome IS
'What became of an attempt; the first one recorded counts. An attempt without one '
'is uncertain.';
COMMENT ON COLUMN pgbill.delivery_outcome.reply_code IS
'The SMTP reply; null if there was none.';

-- P7: a message is tried again only when it is known that it was not taken.
ALTER TABLE pgbill.delivery_attempt
ADD FOREIGN KEY (bucket, account_id, message_id, previous_attempt_no, previous_outcome)
REFERENCES pgbill.delivery_outcome (bucket, account_id, message_id, attempt_no, outcome);
