-- P3: no e-mail without a committed invoice, and one message for each recipient.

CREATE OR REPLACE VIEW pgbill_audit.p3_message_without_invoice AS
SELECT
    outbox_message.bucket,
    outbox_message.account_id,
    outbox_message.message_id,
    outbox_message.invoice_id,
    outbox_message.address,
    CASE
        WHEN invoice.invoice_id IS NULL THEN 'there is no such invoice'
        ELSE 'the address is no recipient of the invoice'
    END AS problem
FROM pgbill.outbox_message
LEFT JOIN pgbill.invoice
    ON
        outbox_message.bucket = invoice.bucket
        AND outbox_message.account_id = invoice.account_id
        AND outbox_message.invoice_id = invoice.invoice_id
WHERE invoice.invoice_id IS NULL
    OR (
        outbox_message.retry_of IS NULL
        AND array_position(invoice.recipients, outbox_message.address) IS NULL
    )
UNION ALL
SELECT
    repeated.bucket,
    repeated.account_id,
    max(repeated.message_id),
    repeated.invoice_id,
    repeated.address,
    format('%s messages for one recipient', count(*))
FROM pgbill.outbox_message AS repeated
WHERE repeated.retry_of IS NULL
GROUP BY repeated.bucket, repeated.account_id, repeated.invoice_id, repeated.address
HAVING count(*) > 1;

COMMENT ON VIEW pgbill_audit.p3_message_without_invoice IS
'A message waits for an invoice that does not exist, or goes to somebody who is not '
'its recipient, or to a recipient twice. A retry by a person may go to a corrected '
'address.';
