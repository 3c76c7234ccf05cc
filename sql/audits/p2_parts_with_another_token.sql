-- P2: what is written in one transaction carries one token.

CREATE OR REPLACE VIEW pgbill_audit.p2_parts_with_another_token AS
SELECT
    part.bucket,
    part.account_id,
    part.invoice_id,
    part.written_to,
    part.fencing_token,
    invoice.fencing_token AS invoice_token
FROM (
    SELECT
        'invoice_line' AS written_to,
        invoice_line.bucket,
        invoice_line.account_id,
        invoice_line.invoice_id,
        invoice_line.fencing_token
    FROM pgbill.invoice_line
    UNION ALL
    SELECT
        'invoice_tax',
        invoice_tax.bucket,
        invoice_tax.account_id,
        invoice_tax.invoice_id,
        invoice_tax.fencing_token
    FROM pgbill.invoice_tax
) AS part
INNER JOIN pgbill.invoice
    ON
        part.bucket = invoice.bucket
        AND part.account_id = invoice.account_id
        AND part.invoice_id = invoice.invoice_id
WHERE part.fencing_token <> invoice.fencing_token
UNION ALL
SELECT
    billing_period.bucket,
    billing_period.account_id,
    invoice.invoice_id,
    'billing_period' AS written_to,
    billing_period.fencing_token,
    invoice.fencing_token AS invoice_token
FROM pgbill.billing_period
INNER JOIN pgbill.invoice
    ON
        billing_period.bucket = invoice.bucket
        AND billing_period.account_id = invoice.account_id
        AND billing_period.period_end = invoice.period_end
WHERE invoice.revision = 1 AND billing_period.fencing_token <> invoice.fencing_token;

COMMENT ON VIEW pgbill_audit.p2_parts_with_another_token IS
'A line, a tax or the closing of an invoice carries another fencing token than the '
'invoice: two workers have written one invoice.';
