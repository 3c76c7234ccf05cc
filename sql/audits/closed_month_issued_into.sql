-- Into a closed month nothing is issued any more.

CREATE OR REPLACE VIEW pgbill_audit.closed_month_issued_into AS
SELECT
    invoice_number.bucket,
    invoice_number.account_id,
    invoice_number.invoice_id,
    invoice_number.number_text,
    invoice_number.issued_on,
    invoice_number.issued_at,
    min(closed_month.month_on) AS month_on,
    min(closed_month.closed_at) AS closed_at
FROM pgbill.invoice_number
INNER JOIN pgbill.closed_month
    ON
        invoice_number.issued_on < closed_month.month_on + interval '1 month'
        AND invoice_number.issued_at > closed_month.closed_at
GROUP BY
    invoice_number.bucket, invoice_number.account_id, invoice_number.invoice_id,
    invoice_number.number_text, invoice_number.issued_on, invoice_number.issued_at;

COMMENT ON VIEW pgbill_audit.closed_month_issued_into IS
'A document was dated into a month after that was closed: what was declared for the month '
'is not what stands in it.';
