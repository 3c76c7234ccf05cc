-- P5: the numbers of a series have no gap, from the first that it was given: 1, unless
-- another system has issued the ones before.

CREATE OR REPLACE VIEW pgbill_audit.p5_number_gap AS
SELECT
    numbered.series_id,
    number_series.prefix,
    numbered.previous_number + 1 AS missing_from,
    numbered.number - 1 AS missing_through
FROM (
    SELECT
        invoice_number.series_id,
        invoice_number.number,
        lag(
            invoice_number.number, 1, coalesce(own.first_number - 1, 0::bigint)
        ) OVER (
            PARTITION BY invoice_number.series_id ORDER BY invoice_number.number
        ) AS previous_number
    FROM pgbill.invoice_number
    LEFT JOIN pgbill.number_series AS own ON invoice_number.series_id = own.series_id
) AS numbered
LEFT JOIN pgbill.number_series ON numbered.series_id = number_series.series_id
WHERE numbered.number > numbered.previous_number + 1;

COMMENT ON VIEW pgbill_audit.p5_number_gap IS
'Numbers of a series are missing, at its beginning or between two others: an auditor '
'will ask for these invoices.';
