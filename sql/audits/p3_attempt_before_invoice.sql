-- P3: e-mail only after the invoice has committed. It takes its number last, shortly
-- before.

CREATE OR REPLACE VIEW pgbill_audit.p3_attempt_before_invoice AS
SELECT
    delivery_attempt.bucket,
    delivery_attempt.account_id,
    delivery_attempt.message_id,
    delivery_attempt.attempt_no,
    outbox_message.invoice_id,
    delivery_attempt.begun_at,
    invoice_number.issued_at
FROM pgbill.delivery_attempt
INNER JOIN pgbill.outbox_message
    ON
        delivery_attempt.bucket = outbox_message.bucket
        AND delivery_attempt.account_id = outbox_message.account_id
        AND delivery_attempt.message_id = outbox_message.message_id
LEFT JOIN pgbill.invoice_number
    ON
        outbox_message.bucket = invoice_number.bucket
        AND outbox_message.account_id = invoice_number.account_id
        AND outbox_message.invoice_id = invoice_number.invoice_id
WHERE invoice_number.issued_at IS NULL
    OR delivery_attempt.begun_at < invoice_number.issued_at;

COMMENT ON VIEW pgbill_audit.p3_attempt_before_invoice IS
'A message was sent before its invoice was issued, or for one that has no number. '
'(If the clock of the database server was set back in between, look at that first.)';
