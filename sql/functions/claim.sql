-- Take the leases of accounts that are due and that nobody holds. Several workers call it
-- at once for the same bucket: SKIP LOCKED lets them pass each other.
--
-- The lock must be FOR UPDATE: it is what the FOR KEY SHARE of the fence waits for.

CREATE OR REPLACE FUNCTION pgbill.claim(
    p_bucket integer,
    p_through_on date,
    p_holder text,
    p_worker_id uuid,
    p_run_id bigint,
    p_ttl interval,
    p_limit integer,
    p_max_attempts integer,
    p_account_id bigint DEFAULT NULL
)
RETURNS TABLE (account_id bigint, fencing_token bigint, due_on date, is_suspect boolean)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
SET enable_seqscan = off
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_account_ids bigint[];
    v_exhausted_ids bigint[];
    v_suspect_ids bigint[];
    v_tokens bigint[];
BEGIN
    SELECT
        array_agg(claimable.account_id) FILTER (WHERE claimable.attempts < p_max_attempts),
        array_agg(claimable.account_id) FILTER (WHERE claimable.attempts >= p_max_attempts),
        array_agg(claimable.account_id) FILTER (
            WHERE claimable.attempts < p_max_attempts AND claimable.holder IS NOT NULL
        )
    INTO v_account_ids, v_exhausted_ids, v_suspect_ids
    FROM (
        SELECT lease.account_id, lease.attempts, lease.holder
        FROM pgbill.lease
        WHERE lease.bucket = p_bucket
            AND lease.parked_at IS NULL
            AND lease.due_on <= coalesce(p_through_on, 'infinity'::date - 1) + 1
            AND lease.due_at <= v_now
            AND lease.expires_at <= v_now
            AND lease.draft_at IS NULL
            AND (lease.failed_run_id IS DISTINCT FROM p_run_id OR lease.retry_at <= v_now)
            AND (p_account_id IS NULL OR lease.account_id = p_account_id)
        ORDER BY lease.due_on, lease.account_id
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    ) AS claimable;

    IF v_exhausted_ids IS NOT NULL THEN
        PERFORM pgbill.park_exhausted(p_bucket, v_exhausted_ids);
    END IF;

    -- Its last holder did not let go of it. It may be an account that kills its worker: it
    -- goes alone, so that it does not take the others to the cap of attempts.
    IF v_suspect_ids IS NOT NULL THEN
        v_account_ids := v_suspect_ids[1:1];
    END IF;

    -- Drawn while the rows are locked, or a token could be older than its predecessor.
    SELECT array_agg(nextval('pgbill.fencing_token')) INTO v_tokens
    FROM unnest(v_account_ids);

    RETURN QUERY
    UPDATE pgbill.lease
    SET
        fencing_token = claimed.fencing_token,
        holder = p_holder,
        worker_id = p_worker_id,
        run_id = p_run_id,
        claimed_at = v_now,
        renewed_at = v_now,
        expires_at = v_now + p_ttl,
        attempts = lease.attempts + 1,
        failed_run_id = NULL,
        retry_at = NULL,
        acted_by = NULL
    FROM unnest(v_account_ids, v_tokens) AS claimed (account_id, fencing_token)
    WHERE lease.bucket = p_bucket AND lease.account_id = claimed.account_id
    RETURNING
        lease.account_id,
        lease.fencing_token,
        lease.due_on,
        v_suspect_ids IS NOT NULL;
END;
$$;

COMMENT ON FUNCTION pgbill.claim IS
'Take the leases of up to p_limit due accounts of a bucket, each with a new fencing '
'token. Call it as a statement of its own.';
