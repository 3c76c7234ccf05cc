-- A charge is billed once: by one line of the invoices that are not cancelled.

CREATE OR REPLACE VIEW pgbill_audit.charge_billed_twice AS
SELECT
    charge.bucket,
    charge.account_id,
    charge.key,
    count(*) AS line_count,
    min(invoice_line.invoice_id) AS invoice_id,
    max(invoice_line.invoice_id) AS other_invoice_id
FROM pgbill.invoice_line
INNER JOIN pgbill.charge
    ON
        invoice_line.bucket = charge.bucket
        AND invoice_line.account_id = charge.account_id
        AND invoice_line.charge_id = charge.charge_id
INNER JOIN pgbill.invoice
    ON
        invoice_line.bucket = invoice.bucket
        AND invoice_line.account_id = invoice.account_id
        AND invoice_line.invoice_id = invoice.invoice_id
WHERE invoice_line.charge_id IS NOT NULL
    AND invoice.period_end IS NOT NULL
    AND NOT EXISTS (
        SELECT
        FROM pgbill.invoice_cancellation
        WHERE invoice_cancellation.bucket = invoice.bucket
            AND invoice_cancellation.account_id = invoice.account_id
            AND invoice_cancellation.period_end = invoice.period_end
            AND invoice_cancellation.revision = invoice.revision
    )
GROUP BY charge.bucket, charge.account_id, charge.charge_id, charge.key
HAVING count(*) > 1;

COMMENT ON VIEW pgbill_audit.charge_billed_twice IS
'Two lines of invoices that are not cancelled bill the same charge: the account pays for '
'it twice.';
