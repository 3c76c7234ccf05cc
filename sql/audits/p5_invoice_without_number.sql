-- P5: every invoice has its number, and says the same as it.

CREATE OR REPLACE VIEW pgbill_audit.p5_invoice_without_number AS
SELECT
    invoice.bucket,
    invoice.account_id,
    invoice.invoice_id,
    invoice_number.number_text,
    CASE
        WHEN invoice_number.number IS NULL THEN 'the invoice has no number'
        WHEN invoice_number.series_id <> invoice.series_id THEN 'the number is of another series'
        ELSE 'number and invoice have different dates'
    END AS problem
FROM pgbill.invoice
LEFT JOIN pgbill.invoice_number
    ON
        invoice.bucket = invoice_number.bucket
        AND invoice.account_id = invoice_number.account_id
        AND invoice.invoice_id = invoice_number.invoice_id
WHERE invoice_number.number IS NULL
    OR invoice_number.series_id <> invoice.series_id
    OR invoice_number.issued_on <> invoice.issued_on
UNION ALL
SELECT
    invoice_number.bucket,
    invoice_number.account_id,
    invoice_number.invoice_id,
    invoice_number.number_text,
    'there is no such invoice' AS problem
FROM pgbill.invoice_number
LEFT JOIN pgbill.invoice
    ON
        invoice_number.bucket = invoice.bucket
        AND invoice_number.account_id = invoice.account_id
        AND invoice_number.invoice_id = invoice.invoice_id
WHERE invoice.invoice_id IS NULL;

COMMENT ON VIEW pgbill_audit.p5_invoice_without_number IS
'An invoice has no number, or a number belongs to no invoice, or the two disagree on '
'series or date: there is a hole in the books that no gap shows.';
