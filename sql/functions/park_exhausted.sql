-- Park accounts whose last permitted attempt ended with its worker. Called by claim, which
-- has locked their leases.

CREATE OR REPLACE FUNCTION pgbill.park_exhausted(p_bucket integer, p_account_ids bigint[])
RETURNS void
LANGUAGE plpgsql
SET search_path = ''
SET enable_seqscan = off
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_tokens bigint[];
BEGIN
    SELECT array_agg(nextval('pgbill.fencing_token')) INTO v_tokens
    FROM unnest(p_account_ids);

    UPDATE pgbill.lease
    SET
        fencing_token = parked.fencing_token,
        holder = NULL,
        worker_id = NULL,
        claimed_at = NULL,
        expires_at = '-infinity',
        outcome = 'parked',
        detail = format('gave up after %s attempts: %s', lease.attempts,
            coalesce(lease.detail, 'the last worker did not come back')),
        parked_at = v_now,
        failed_run_id = NULL,
        retry_at = NULL,
        acted_by = NULL
    FROM unnest(p_account_ids, v_tokens) AS parked (account_id, fencing_token)
    WHERE lease.bucket = p_bucket AND lease.account_id = parked.account_id;
END;
$$;

COMMENT ON FUNCTION pgbill.park_exhausted IS
'Park accounts that have used up their attempts; part of claim.';
