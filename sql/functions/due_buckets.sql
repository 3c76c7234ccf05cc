-- Where work is left, without locks: a worker asks before it claims, and a run ends when
-- this is empty. Accounts whose lease another holds count too, as it may die; so do those
-- that the run tries again later.

CREATE OR REPLACE FUNCTION pgbill.due_buckets(
    p_through_on date, p_run_id bigint, p_account_id bigint DEFAULT NULL
)
RETURNS TABLE (bucket integer, is_claimable boolean)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = ''
SET enable_seqscan = off
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_before_on date := coalesce(p_through_on, 'infinity'::date - 1) + 1;
BEGIN
    RETURN QUERY
    SELECT every_bucket.bucket, due.is_claimable
    FROM (
        SELECT every_number.bucket
        FROM generate_series(0, 255) AS every_number (bucket)
        WHERE p_account_id IS NULL
            OR EXISTS (
                SELECT FROM pgbill.account
                WHERE account.bucket = every_number.bucket AND account.account_id = p_account_id
            )
    ) AS every_bucket
    CROSS JOIN LATERAL (
        -- One that can be claimed is looked for first, and found at once where many are.
        (
            SELECT TRUE AS is_claimable
            FROM pgbill.lease
            WHERE lease.bucket = every_bucket.bucket
                AND lease.parked_at IS NULL
                AND lease.due_on <= v_before_on
                AND lease.due_at <= v_now
                AND lease.expires_at <= v_now
                AND lease.draft_at IS NULL
                AND (lease.failed_run_id IS DISTINCT FROM p_run_id OR lease.retry_at <= v_now)
                AND (p_account_id IS NULL OR lease.account_id = p_account_id)
            LIMIT 1
        )
        UNION ALL
        (
            SELECT FALSE
            FROM pgbill.lease
            WHERE lease.bucket = every_bucket.bucket
                AND lease.parked_at IS NULL
                AND lease.due_on <= v_before_on
                AND lease.due_at <= v_now
                AND lease.draft_at IS NULL
                AND (
                    lease.expires_at > v_now
                    OR (lease.failed_run_id = p_run_id AND lease.retry_at > v_now)
                )
                AND (p_account_id IS NULL OR lease.account_id = p_account_id)
            LIMIT 1
        )
        LIMIT 1
    ) AS due;
END;
$$;

COMMENT ON FUNCTION pgbill.due_buckets IS
'The buckets in which accounts are due for a run, and whether one of them can be '
'claimed now.';
