-- The earliest open period of accounts, and how far the closing before it has seen usage. The
-- watermark is read here: in the one statement that also reads the usage.
--
-- A single SELECT without settings: it is inlined into pgbill.periods_to_rate.

CREATE OR REPLACE FUNCTION pgbill.open_periods(p_buckets integer[], p_account_ids bigint[])
RETURNS TABLE (
    bucket integer,
    account_id bigint,
    zone text,
    period_start date,
    period_end date,
    from_at timestamptz,
    until_at timestamptz,
    previous_outcome text,
    previous_seq bigint,
    usage_seq bigint,
    approved_on date
)
LANGUAGE sql
STABLE
PARALLEL SAFE
ROWS 50
AS $$
    SELECT
        account.bucket,
        account.account_id,
        account.zone,
        coalesce(previous.period_end, account.first_period_on),
        lease.due_on,
        coalesce(previous.period_end_at, lease.due_at),
        lease.due_at,
        previous.outcome,
        coalesce(previous.usage_seq, 0),
        coalesce(watermark.import_seq, 0),
        lease.approved_on
    FROM unnest(p_buckets, p_account_ids) AS asked (bucket, account_id)
    INNER JOIN pgbill.account USING (bucket, account_id)
    INNER JOIN pgbill.lease USING (bucket, account_id)
    LEFT JOIN LATERAL (
        SELECT
            billing_period.period_end,
            billing_period.period_end_at,
            billing_period.outcome,
            billing_period.usage_seq
        FROM pgbill.billing_period
        WHERE billing_period.bucket = asked.bucket
            AND billing_period.account_id = asked.account_id
        ORDER BY billing_period.period_end DESC
        LIMIT 1
    ) AS previous ON TRUE
    LEFT JOIN LATERAL (
        SELECT usage_watermark.import_seq
        FROM pgbill.usage_watermark
        WHERE usage_watermark.bucket = asked.bucket
        ORDER BY usage_watermark.import_seq DESC
        LIMIT 1
    ) AS watermark ON TRUE;
$$;

COMMENT ON FUNCTION pgbill.open_periods IS
'The earliest open period of each account, and how far usage was billed before it.';
