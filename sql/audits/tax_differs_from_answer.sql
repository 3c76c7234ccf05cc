-- An invoice that was issued under the claim that got the tax service's answer used that
-- answer. One that a successor issued may have had another question, and is not looked at.

CREATE OR REPLACE VIEW pgbill_audit.tax_differs_from_answer AS
SELECT
    invoice.bucket,
    invoice.account_id,
    invoice.invoice_id,
    told.line_no,
    invoice_line.tax_category,
    told.tax_category AS answered_tax_category,
    invoice_line.tax_rate,
    told.tax_rate AS answered_tax_rate
FROM pgbill.tax_answer
INNER JOIN pgbill.invoice
    ON
        tax_answer.bucket = invoice.bucket
        AND tax_answer.account_id = invoice.account_id
        AND tax_answer.period_end = invoice.period_end
        AND tax_answer.fencing_token = invoice.fencing_token
CROSS JOIN LATERAL (
    SELECT
        (line.content ->> 'line_no')::integer AS line_no,
        line.content ->> 'category' AS tax_category,
        (line.content ->> 'rate')::numeric AS tax_rate
    FROM jsonb_array_elements(tax_answer.answer -> 'lines') AS line (content)
) AS told
LEFT JOIN pgbill.invoice_line
    ON
        invoice.bucket = invoice_line.bucket
        AND invoice.account_id = invoice_line.account_id
        AND invoice.invoice_id = invoice_line.invoice_id
        AND told.line_no = invoice_line.line_no
WHERE told.tax_category IS DISTINCT FROM invoice_line.tax_category
    OR told.tax_rate IS DISTINCT FROM invoice_line.tax_rate;

COMMENT ON VIEW pgbill_audit.tax_differs_from_answer IS
'A line has another tax category or rate than the tax service answered under the same claim.';
