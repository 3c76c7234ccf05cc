-- Let go of leases without an invoice: given back undone, failed for a reason, or parked.
-- The token is burned, so that nothing late can be written with it.
--
-- A failure that may pass is tried again by its run: after p_retry_after, then twice as long
-- each time, as long as that is no more than p_retry_wait.

CREATE OR REPLACE FUNCTION pgbill.release(
    p_buckets integer[],
    p_account_ids bigint[],
    p_tokens bigint[],
    p_outcomes text[],
    p_details text[],
    p_max_attempts integer,
    p_may_pass boolean[] DEFAULT NULL,
    p_retry_after interval DEFAULT NULL,
    p_retry_wait interval DEFAULT NULL
)
RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
SET enable_seqscan = off
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_count bigint;
BEGIN
    WITH own AS MATERIALIZED (
        SELECT
            lease.bucket,
            lease.account_id,
            told.outcome,
            told.detail,
            told.may_pass,
            -- No further than 30 times twice as long: an interval has its limits.
            p_retry_after * power(2, least(lease.attempts - 1, 30)) AS delay,
            told.outcome = 'failed' AND lease.attempts >= p_max_attempts AS is_exhausted
        FROM unnest(p_buckets, p_account_ids, p_tokens, p_outcomes, p_details, p_may_pass)
            AS told (bucket, account_id, fencing_token, outcome, detail, may_pass)
        INNER JOIN pgbill.lease
            ON
                told.bucket = lease.bucket
                AND told.account_id = lease.account_id
                AND told.fencing_token = lease.fencing_token
        ORDER BY lease.bucket, lease.account_id
        FOR NO KEY UPDATE OF lease
    ),

    let_go AS MATERIALIZED (
        SELECT
            own.bucket,
            own.account_id,
            own.outcome,
            own.detail,
            own.is_exhausted,
            CASE
                WHEN own.outcome = 'failed' AND own.may_pass AND NOT own.is_exhausted
                    AND own.delay <= p_retry_wait
                    THEN v_now + own.delay
            END AS retry_at,
            nextval('pgbill.fencing_token') AS fencing_token
        FROM own
    )

    UPDATE pgbill.lease
    SET
        fencing_token = let_go.fencing_token,
        holder = NULL,
        worker_id = NULL,
        claimed_at = NULL,
        expires_at = '-infinity',
        attempts = lease.attempts - CASE let_go.outcome WHEN 'given_back' THEN 1 ELSE 0 END,
        outcome = CASE WHEN let_go.is_exhausted THEN 'parked' ELSE let_go.outcome END,
        detail = let_go.detail,
        failed_run_id = CASE
            WHEN let_go.outcome = 'failed' THEN lease.run_id
            ELSE lease.failed_run_id
        END,
        retry_at = let_go.retry_at,
        acted_by = NULL,
        parked_at = CASE
            WHEN let_go.outcome = 'parked' OR let_go.is_exhausted THEN v_now
        END
    FROM let_go
    WHERE lease.bucket = let_go.bucket AND lease.account_id = let_go.account_id;

    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END;
$$;

COMMENT ON FUNCTION pgbill.release IS
'Let go of leases with outcome given_back, failed or parked; returns how many were '
'still ours. A failure that may pass is tried again by the same run.';
