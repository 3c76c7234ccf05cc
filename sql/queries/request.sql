-- name: find_account
SELECT
    account.bucket,
    account.account_id
FROM pgbill.account
WHERE account.bucket = pgbill.bucket_of(:key) AND account.key = :key;

-- name: latest_issue_date
-- Of the series that the run will draw from: others may be dated as they are.
WITH billing_seller AS (
    SELECT DISTINCT account.seller_id
    FROM pgbill.account
    INNER JOIN pgbill.lease USING (bucket, account_id)
    WHERE account.bucket = coalesce(:bucket, account.bucket)
        AND account.account_id = coalesce(:account_id, account.account_id)
        AND (
            :account_id::bigint IS NOT NULL
            OR lease.parked_at IS NULL
            AND lease.draft_at IS NULL
            AND lease.due_on <= coalesce(:through_on, 'infinity'::date - 1) + 1
            AND lease.due_at <= clock_timestamp()
        )
),

latest AS (
    SELECT
        number_series.last_issued_on AS issued_on,
        seller.key AS seller_key
    FROM pgbill.number_series
    INNER JOIN pgbill.seller ON number_series.seller_id = seller.seller_id
    INNER JOIN billing_seller ON number_series.seller_id = billing_seller.seller_id
    WHERE number_series.kind = 'invoice'
        AND number_series.mode = :mode
        AND number_series.last_number >= number_series.first_number
    ORDER BY
        number_series.last_issued_on DESC NULLS LAST,
        number_series.series_id
    LIMIT 1
)

SELECT
    latest.issued_on,
    latest.seller_key,
    (clock_timestamp() AT TIME ZONE 'UTC')::date + :days_ahead::integer AS allowed_until
FROM (VALUES (TRUE)) AS always (is_asked)
LEFT JOIN latest ON TRUE;
