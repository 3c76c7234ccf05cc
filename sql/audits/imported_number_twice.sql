-- A number that another system has given is given by no series, and to one document.

CREATE OR REPLACE VIEW pgbill_audit.imported_number_twice AS
SELECT
    imported_invoice.bucket,
    imported_invoice.account_id,
    imported_invoice.number_text,
    'a series of the seller has issued it as well' AS problem
FROM pgbill.imported_invoice
INNER JOIN pgbill.account
    ON
        imported_invoice.bucket = account.bucket
        AND imported_invoice.account_id = account.account_id
INNER JOIN pgbill.number_series ON account.seller_id = number_series.seller_id
INNER JOIN pgbill.invoice_number
    ON
        number_series.series_id = invoice_number.series_id
        AND imported_invoice.number_text = invoice_number.number_text
UNION ALL
SELECT
    min(imported_invoice.bucket) AS bucket,
    min(imported_invoice.account_id) AS account_id,
    imported_invoice.number_text,
    'it was imported more than once' AS problem
FROM pgbill.imported_invoice
INNER JOIN pgbill.account
    ON
        imported_invoice.bucket = account.bucket
        AND imported_invoice.account_id = account.account_id
GROUP BY account.seller_id, imported_invoice.number_text
HAVING count(*) > 1;

COMMENT ON VIEW pgbill_audit.imported_number_twice IS
'Two documents of a seller have the same number, one of them of a system before: payments '
'for it could be for either. The first_number of the series comes too early.';
