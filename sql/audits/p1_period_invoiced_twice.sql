-- P1: an account is invoiced once for a billing period.

CREATE OR REPLACE VIEW pgbill_audit.p1_period_invoiced_twice AS
SELECT
    invoice.bucket,
    invoice.account_id,
    invoice.period_end,
    count(*) AS invoice_count,
    array_agg(invoice.invoice_id ORDER BY invoice.invoice_id) AS invoice_ids
FROM pgbill.invoice
LEFT JOIN pgbill.invoice_cancellation
    ON
        invoice.bucket = invoice_cancellation.bucket
        AND invoice.account_id = invoice_cancellation.account_id
        AND invoice.period_end = invoice_cancellation.period_end
        AND invoice.revision = invoice_cancellation.revision
WHERE invoice.period_end IS NOT NULL AND invoice_cancellation.revision IS NULL
GROUP BY invoice.bucket, invoice.account_id, invoice.period_end
HAVING count(*) > 1;

COMMENT ON VIEW pgbill_audit.p1_period_invoiced_twice IS
'A billing period of an account has more than one invoice that is not cancelled: the '
'account is asked to pay twice.';
