-- A message that failed for good, tried again as another message.
--
-- The chain of attempts ends with failed. A further try is a message of its own, perhaps to
-- a corrected address, and P7 holds across both: it has a foreign key to the outcome failed
-- of the last attempt of the first.

ALTER TABLE pgbill.outbox_message
ADD COLUMN retry_of bigint,
ADD COLUMN retry_of_attempt_no integer,
ADD COLUMN retry_of_outcome text
GENERATED ALWAYS AS (CASE WHEN retry_of IS NOT NULL THEN 'failed' END) STORED,
ADD COLUMN retry_reason text,
ADD COLUMN retried_by text,
ADD CONSTRAINT outbox_message_retry_says_of_what_why_and_by_whom
CHECK (num_nulls(retry_of, retry_of_attempt_no, retry_reason, retried_by) IN (0, 4)),
ADD FOREIGN KEY (bucket, account_id, retry_of, retry_of_attempt_no, retry_of_outcome)
REFERENCES pgbill.delivery_outcome (bucket, account_id, message_id, attempt_no, outcome);

-- One message for a document and an address, and one retry of a message that failed.
DROP INDEX pgbill.outbox_message_invoice;
CREATE UNIQUE INDEX outbox_message_is_one_for_an_address
ON pgbill.outbox_message (bucket, account_id, invoice_id, address, retry_of)
NULLS NOT DISTINCT;
CREATE UNIQUE INDEX outbox_message_is_retried_once
ON pgbill.outbox_message (bucket, account_id, retry_of)
WHERE retry_of IS NOT NULL;

COMMENT ON COLUMN pgbill.outbox_message.due_at IS
'Not tried before; moved on when deferred; infinity while it is uncertain and a '
'person is asked.';
COMMENT ON COLUMN pgbill.outbox_message.retry_of IS
'The message that failed and that this one repeats; null for the message of an '
'invoice.';
COMMENT ON COLUMN pgbill.outbox_message.retry_of_attempt_no IS
'The attempt that failed, of the message that this one repeats.';
COMMENT ON COLUMN pgbill.outbox_message.retry_of_outcome IS
'Always failed: with the key to delivery_outcome, what may have been taken is never '
'repeated.';
COMMENT ON COLUMN pgbill.outbox_message.retry_reason IS
'Why a person asked for it; null for the message of an invoice.';
