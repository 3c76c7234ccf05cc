-- P5: in the order of the numbers the dates never go back.

CREATE OR REPLACE VIEW pgbill_audit.p5_date_goes_back AS
SELECT
    numbered.series_id,
    numbered.number_text,
    numbered.issued_on,
    numbered.previous_on,
    numbered.bucket,
    numbered.account_id,
    numbered.invoice_id
FROM (
    SELECT
        invoice_number.series_id,
        invoice_number.number_text,
        invoice_number.issued_on,
        invoice_number.bucket,
        invoice_number.account_id,
        invoice_number.invoice_id,
        lag(invoice_number.issued_on) OVER (
            PARTITION BY invoice_number.series_id ORDER BY invoice_number.number
        ) AS previous_on
    FROM pgbill.invoice_number
) AS numbered
WHERE numbered.issued_on < numbered.previous_on;

COMMENT ON VIEW pgbill_audit.p5_date_goes_back IS
'An invoice is dated earlier than the one with the number before it: it looks as if '
'it had been slipped in.';
