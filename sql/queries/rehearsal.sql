-- What would become of accounts, read in the transaction that is rolled back.

-- name: begin
SELECT pgbill.begin_dry_run(:settings::text::jsonb, :mode) AS run_id;

-- name: rows
-- The closings, and the accounts that come to none. Where several periods of an account are
-- due, all stand beside the invoice before the first: what the run itself issues is no before.
WITH told AS (
    SELECT
        billing_period.bucket,
        billing_period.account_id,
        billing_period.period_start,
        billing_period.period_end,
        billing_period.outcome,
        invoice.net_amount,
        invoice.tax_amount,
        invoice.gross_amount,
        NULL AS reason,
        FALSE AS was_before
    FROM pgbill.billing_period
    LEFT JOIN pgbill.invoice
        ON
            billing_period.bucket = invoice.bucket
            AND billing_period.account_id = invoice.account_id
            AND billing_period.period_end = invoice.period_end
            AND billing_period.run_id = invoice.run_id
    WHERE billing_period.run_id = :run_id AND billing_period.bucket = :bucket
    UNION ALL
    SELECT
        lease.bucket,
        lease.account_id,
        held_draft.period_start,
        lease.due_on AS period_end,
        CASE
            WHEN lease.parked_at IS NOT NULL THEN 'parked'
            WHEN lease.draft_at IS NOT NULL THEN 'held'
            ELSE 'failed'
        END AS outcome,
        held_draft.net_amount,
        held_draft.tax_amount,
        held_draft.gross_amount,
        lease.detail AS reason,
        coalesce(lease.parked_at, lease.draft_at, 'infinity') < now() AS was_before
    FROM pgbill.lease
    LEFT JOIN LATERAL (
        SELECT
            newest.period_start,
            newest.net_amount,
            newest.tax_amount,
            newest.gross_amount
        FROM pgbill.held_draft AS newest
        WHERE newest.bucket = lease.bucket
            AND newest.account_id = lease.account_id
            AND newest.period_end = lease.due_on
            AND lease.draft_at IS NOT NULL
        ORDER BY newest.held_draft_id DESC
        LIMIT 1
    ) AS held_draft ON TRUE
    WHERE lease.bucket = :bucket
        AND lease.due_on <= coalesce(:through_on::date, 'infinity'::date - 1) + 1
        AND lease.due_at <= clock_timestamp()
        AND (:account_id::bigint IS NULL OR lease.account_id = :account_id::bigint)
        AND (
            lease.parked_at IS NOT NULL
            OR lease.draft_at IS NOT NULL
            OR lease.failed_run_id = :run_id
        )
),

ordered AS (
    SELECT
        told.bucket,
        told.account_id,
        told.period_start,
        told.period_end,
        told.outcome,
        told.net_amount,
        told.tax_amount,
        told.gross_amount,
        told.reason,
        told.was_before,
        min(told.period_end) OVER (PARTITION BY told.bucket, told.account_id) AS first_end
    FROM told
)

SELECT
    account.key AS account_key,
    told.period_start,
    told.period_end,
    told.outcome,
    account.currency,
    told.net_amount,
    told.tax_amount,
    told.gross_amount,
    (
        SELECT invoice.gross_amount
        FROM pgbill.invoice
        WHERE invoice.bucket = told.bucket
            AND invoice.account_id = told.account_id
            AND invoice.period_end = (
                SELECT max(before.period_end)
                FROM pgbill.billing_period AS before
                WHERE before.bucket = told.bucket
                    AND before.account_id = told.account_id
                    AND before.period_end < told.first_end
            )
        ORDER BY invoice.revision DESC
        LIMIT 1
    ) AS previous_gross_amount,
    told.period_end = told.first_end AS is_first,
    told.reason,
    told.was_before
FROM ordered AS told
INNER JOIN pgbill.account
    ON told.bucket = account.bucket AND told.account_id = account.account_id
ORDER BY account.key, told.period_end;

-- name: buckets
-- Also of accounts that are parked or wait for a review: they are told, too.
SELECT DISTINCT lease.bucket
FROM pgbill.lease
WHERE lease.due_on <= coalesce(:through_on::date, 'infinity'::date - 1) + 1
    AND lease.due_at <= clock_timestamp()
    AND (:account_id::bigint IS NULL OR lease.account_id = :account_id::bigint)
ORDER BY lease.bucket;
