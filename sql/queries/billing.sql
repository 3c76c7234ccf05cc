-- name: open_run
SELECT
    opened.run_id,
    opened.is_joined,
    opened.holds_mail
FROM pgbill.open_run(
    :through_on, :issue_on, :mode, :account_key, :settings::text::jsonb, :started_by, :version,
    :hold_mail
) AS opened;

-- name: is_open
-- "By yesterday" of another day is another question: open_run supersedes it.
SELECT count(*) > 0 AS is_open
FROM pgbill.billing_run
WHERE billing_run.through_on IS NOT DISTINCT FROM :through_on
    AND billing_run.issue_on IS NOT DISTINCT FROM :issue_on
    AND billing_run.mode = :mode
    AND billing_run.account_key IS NOT DISTINCT FROM :account_key
    AND billing_run.sealed_at IS NULL
    AND (
        billing_run.through_on IS NOT NULL
        OR billing_run.started_at >= clock_timestamp() - interval '18 hours'
    );

-- name: due_count
SELECT
    counted.due_count,
    counted.held_count,
    counted.parked_count,
    counted.draft_count
FROM pgbill.due_count(:through_on, :run_id, :account_id) AS counted;

-- name: summary
SELECT pgbill.run_summary(:run_id)::text AS summary;

-- name: seal
SELECT pgbill.seal_run(:run_id, 'finished')::text AS summary;

-- name: failures
SELECT
    account.key AS account_key,
    failure.outcome,
    failure.reason
FROM pgbill.run_failures(:run_id) AS failure
INNER JOIN pgbill.account
    ON failure.bucket = account.bucket AND failure.account_id = account.account_id
ORDER BY account.key
LIMIT :limit;

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

-- name: statistics_are_empty
SELECT pg_class.reltuples < 1000 AS are_empty
FROM pg_catalog.pg_class
WHERE pg_class.oid = 'pgbill.invoice'::regclass;

-- name: analyze
SELECT pgbill.analyze_written();
