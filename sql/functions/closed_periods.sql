-- Closed periods of accounts, as pgbill.open_periods tells open ones: what their invoice is
-- rated from when it is issued again. The zone, and what the closing had seen of the usage, are
-- those of then.
--
-- Rare, so it has a plan of its own, which runs do not pay for.

CREATE OR REPLACE FUNCTION pgbill.closed_periods(
    p_buckets integer[], p_account_ids bigint[], p_period_ends date[]
)
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
LANGUAGE plpgsql
STABLE
PARALLEL SAFE
ROWS 1
AS $$
BEGIN
    RETURN QUERY
    SELECT
        closed.bucket,
        closed.account_id,
        closed.zone,
        closed.period_start,
        closed.period_end,
        coalesce(previous.period_end_at, closed.period_end_at),
        closed.period_end_at,
        previous.outcome,
        coalesce(previous.usage_seq, 0),
        closed.usage_seq,
        -- It was closed: nobody asks whether too many periods are due.
        'infinity'::date
    FROM unnest(p_buckets, p_account_ids, p_period_ends)
        AS asked (bucket, account_id, period_end)
    INNER JOIN pgbill.billing_period AS closed
        ON
            asked.bucket = closed.bucket
            AND asked.account_id = closed.account_id
            AND asked.period_end = closed.period_end
    -- The first one, which is empty, has none before it.
    LEFT JOIN pgbill.billing_period AS previous
        ON
            closed.bucket = previous.bucket
            AND closed.account_id = previous.account_id
            AND closed.period_start = previous.period_end
            AND closed.period_start < closed.period_end;
END;
$$;

COMMENT ON FUNCTION pgbill.closed_periods IS
'Closed periods as they were closed, and how far usage was billed before them.';
