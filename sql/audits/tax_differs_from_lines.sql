-- Tax, computed again: once for each category and rate, on the sum of its lines
-- (EN 16931, BR-CO-17).

CREATE OR REPLACE VIEW pgbill_audit.tax_differs_from_lines AS
WITH taxable AS (
    SELECT
        invoice_line.bucket,
        invoice_line.account_id,
        invoice_line.invoice_id,
        invoice_line.tax_category,
        invoice_line.tax_rate,
        sum(invoice_line.net_amount) AS amount
    FROM pgbill.invoice_line
    GROUP BY
        invoice_line.bucket, invoice_line.account_id, invoice_line.invoice_id,
        invoice_line.tax_category, invoice_line.tax_rate
)

SELECT
    taxable.bucket,
    taxable.account_id,
    taxable.invoice_id,
    taxable.tax_category,
    taxable.tax_rate,
    invoice_tax.taxable_amount,
    taxable.amount AS expected_taxable_amount,
    invoice_tax.tax_amount,
    round(taxable.amount * taxable.tax_rate / 100, currency.digits) AS expected_tax_amount
FROM taxable
INNER JOIN pgbill.invoice
    ON
        taxable.bucket = invoice.bucket
        AND taxable.account_id = invoice.account_id
        AND taxable.invoice_id = invoice.invoice_id
INNER JOIN pgbill.currency ON invoice.currency = currency.currency
LEFT JOIN pgbill.invoice_tax
    ON
        taxable.bucket = invoice_tax.bucket
        AND taxable.account_id = invoice_tax.account_id
        AND taxable.invoice_id = invoice_tax.invoice_id
        AND taxable.tax_category = invoice_tax.tax_category
        AND taxable.tax_rate = invoice_tax.tax_rate
WHERE taxable.amount IS DISTINCT FROM invoice_tax.taxable_amount
    OR round(taxable.amount * taxable.tax_rate / 100, currency.digits)
    IS DISTINCT FROM invoice_tax.tax_amount;

COMMENT ON VIEW pgbill_audit.tax_differs_from_lines IS
'The tax of a category and rate is not what its lines give when it is computed again.';
