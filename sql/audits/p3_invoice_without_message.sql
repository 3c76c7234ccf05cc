-- P3: no invoice without its message, one for each recipient.

CREATE OR REPLACE VIEW pgbill_audit.p3_invoice_without_message AS
SELECT DISTINCT
    invoice.bucket,
    invoice.account_id,
    invoice.invoice_id,
    recipient.address
FROM pgbill.invoice
CROSS JOIN LATERAL unnest(invoice.recipients) AS recipient (address)
LEFT JOIN pgbill.outbox_message
    ON
        invoice.bucket = outbox_message.bucket
        AND invoice.account_id = outbox_message.account_id
        AND invoice.invoice_id = outbox_message.invoice_id
        AND recipient.address = outbox_message.address
        AND outbox_message.retry_of IS NULL
WHERE outbox_message.message_id IS NULL;

COMMENT ON VIEW pgbill_audit.p3_invoice_without_message IS
'An invoice was issued and no message to one of its recipients was written with it: '
'nobody will send it.';
