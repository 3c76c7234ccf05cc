-- P5: a series stands where its last document is, or the next number would be wrong.

CREATE OR REPLACE VIEW pgbill_audit.p5_series_differs AS
WITH given AS (
    SELECT
        invoice_number.series_id,
        max(invoice_number.number) AS last_number,
        max(invoice_number.issued_on) AS last_issued_on
    FROM pgbill.invoice_number
    GROUP BY invoice_number.series_id
)

SELECT
    number_series.series_id,
    number_series.prefix,
    number_series.last_number,
    given.last_number AS given_number,
    given.last_issued_on AS given_on,
    nullif(number_series.last_issued_on, '-infinity') AS last_issued_on
FROM pgbill.number_series
LEFT JOIN given ON number_series.series_id = given.series_id
WHERE number_series.last_number <> coalesce(given.last_number, number_series.first_number - 1)
    OR number_series.last_issued_on <> coalesce(given.last_issued_on, '-infinity');

COMMENT ON VIEW pgbill_audit.p5_series_differs IS
'A series does not stand at the last number and date that were given: its next '
'number would leave a gap, be a duplicate, or be dated back.';
