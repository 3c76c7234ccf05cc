-- The numbers of each series, as an auditor asks for them.

-- name: series
WITH numbered AS (
    SELECT
        invoice_number.series_id,
        invoice_number.number,
        invoice_number.issued_on,
        invoice_number.issued_at,
        lag(invoice_number.issued_on) OVER in_order AS previous_on,
        lag(invoice_number.issued_at) OVER in_order AS previous_at
    FROM pgbill.invoice_number
    WINDOW in_order AS (
        PARTITION BY invoice_number.series_id
        ORDER BY invoice_number.number, invoice_number.issued_at
    )
),

counted AS (
    SELECT
        numbered.series_id,
        min(numbered.number) AS lowest,
        max(numbered.number) AS highest,
        count(*) AS document_count,
        count(DISTINCT numbered.number) AS number_count,
        min(numbered.issued_on) AS first_on,
        max(numbered.issued_on) AS last_on,
        count(*) FILTER (
            WHERE numbered.issued_on < numbered.previous_on
                OR numbered.issued_at < numbered.previous_at
        ) AS back_count
    FROM numbered
    GROUP BY numbered.series_id
)

SELECT
    seller.key AS seller,
    number_series.kind,
    number_series.mode,
    number_series.prefix,
    number_series.first_number,
    counted.lowest,
    counted.highest,
    coalesce(counted.document_count, 0) AS document_count,
    counted.first_on,
    counted.last_on,
    coalesce(
        counted.highest - number_series.first_number + 1 - counted.number_count, 0
    ) AS missing_count,
    coalesce(counted.document_count - counted.number_count, 0) AS duplicate_count,
    coalesce(counted.back_count, 0) AS back_count,
    number_series.last_number
    = coalesce(counted.highest, number_series.first_number - 1) AS stands_at_last
FROM pgbill.number_series
INNER JOIN pgbill.seller USING (seller_id)
LEFT JOIN counted USING (series_id)
ORDER BY seller.key, number_series.mode, number_series.kind DESC;
