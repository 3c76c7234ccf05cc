-- The amounts of an invoice are the sums of its lines and of its taxes.

CREATE OR REPLACE VIEW pgbill_audit.lines_differ_from_total AS
WITH line_total AS (
    SELECT
        invoice_line.bucket,
        invoice_line.account_id,
        invoice_line.invoice_id,
        sum(invoice_line.net_amount) AS net_amount
    FROM pgbill.invoice_line
    GROUP BY invoice_line.bucket, invoice_line.account_id, invoice_line.invoice_id
),

tax_total AS (
    SELECT
        invoice_tax.bucket,
        invoice_tax.account_id,
        invoice_tax.invoice_id,
        sum(invoice_tax.taxable_amount) AS taxable_amount,
        sum(invoice_tax.tax_amount) AS tax_amount
    FROM pgbill.invoice_tax
    GROUP BY invoice_tax.bucket, invoice_tax.account_id, invoice_tax.invoice_id
)

SELECT
    invoice.bucket,
    invoice.account_id,
    invoice.invoice_id,
    invoice.net_amount,
    line_total.net_amount AS lines_amount,
    tax_total.taxable_amount,
    invoice.tax_amount,
    tax_total.tax_amount AS taxes_amount,
    invoice.gross_amount
FROM pgbill.invoice
LEFT JOIN line_total
    ON
        invoice.bucket = line_total.bucket
        AND invoice.account_id = line_total.account_id
        AND invoice.invoice_id = line_total.invoice_id
LEFT JOIN tax_total
    ON
        invoice.bucket = tax_total.bucket
        AND invoice.account_id = tax_total.account_id
        AND invoice.invoice_id = tax_total.invoice_id
WHERE invoice.net_amount IS DISTINCT FROM line_total.net_amount
    OR invoice.net_amount IS DISTINCT FROM tax_total.taxable_amount
    OR invoice.tax_amount IS DISTINCT FROM tax_total.tax_amount
    OR invoice.gross_amount <> invoice.net_amount + invoice.tax_amount;

COMMENT ON VIEW pgbill_audit.lines_differ_from_total IS
'The lines or taxes of an invoice do not add up to its amounts, or are missing.';
