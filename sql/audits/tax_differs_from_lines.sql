-- Tax, computed again from the lines by the policy that the invoice names.

CREATE OR REPLACE VIEW pgbill_audit.tax_differs_from_lines AS
WITH expected AS (
    SELECT
        invoice.bucket,
        invoice.account_id,
        invoice.invoice_id,
        tax.tax_category,
        tax.tax_rate,
        tax.taxable_amount,
        tax.tax_amount
    FROM pgbill.invoice
    INNER JOIN pgbill.policy ON invoice.policy_id = policy.policy_id
    INNER JOIN pgbill.currency ON invoice.currency = currency.currency
    CROSS JOIN LATERAL (
        SELECT array_agg(invoice_line ORDER BY invoice_line.line_no) AS lines
        FROM pgbill.invoice_line
        WHERE invoice_line.bucket = invoice.bucket
            AND invoice_line.account_id = invoice.account_id
            AND invoice_line.invoice_id = invoice.invoice_id
    ) AS own
    CROSS JOIN LATERAL pgbill.taxes_of(
        own.lines, currency.digits, policy.tax_rounding_scope, policy.tax_rounding
    ) AS tax
    -- A credit note of an invoice takes the tax of that invoice.
    WHERE invoice.period_end IS NOT NULL
)

SELECT
    expected.bucket,
    expected.account_id,
    expected.invoice_id,
    expected.tax_category,
    expected.tax_rate,
    invoice_tax.taxable_amount,
    expected.taxable_amount AS expected_taxable_amount,
    invoice_tax.tax_amount,
    expected.tax_amount AS expected_tax_amount
FROM expected
LEFT JOIN pgbill.invoice_tax
    ON
        expected.bucket = invoice_tax.bucket
        AND expected.account_id = invoice_tax.account_id
        AND expected.invoice_id = invoice_tax.invoice_id
        AND expected.tax_category = invoice_tax.tax_category
        AND expected.tax_rate = invoice_tax.tax_rate
WHERE expected.taxable_amount IS DISTINCT FROM invoice_tax.taxable_amount
    OR expected.tax_amount IS DISTINCT FROM invoice_tax.tax_amount;

COMMENT ON VIEW pgbill_audit.tax_differs_from_lines IS
'The tax of a category and rate is not what its lines give when it is computed again.';
