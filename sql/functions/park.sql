-- Take an account out of all runs, on the word of a person. Whoever works on it at this
-- moment loses the lease, token and all: what it still writes is refused.

CREATE OR REPLACE FUNCTION pgbill.park(
    p_bucket integer, p_account_id bigint, p_reason text, p_by text
)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
AS $$
DECLARE
    v_token bigint;
BEGIN
    -- Waits for a transaction that issues its invoice, which then counts.
    PERFORM FROM pgbill.lease
    WHERE lease.bucket = p_bucket
        AND lease.account_id = p_account_id
        AND lease.parked_at IS NULL
    FOR UPDATE;

    IF NOT found THEN
        RETURN FALSE;
    END IF;

    v_token := nextval('pgbill.fencing_token');

    UPDATE pgbill.lease
    SET
        fencing_token = v_token,
        holder = NULL,
        worker_id = NULL,
        claimed_at = NULL,
        expires_at = '-infinity',
        outcome = 'parked',
        detail = p_reason,
        parked_at = clock_timestamp(),
        failed_run_id = NULL,
        retry_at = NULL,
        acted_by = p_by
    WHERE lease.bucket = p_bucket AND lease.account_id = p_account_id;

    RETURN TRUE;
END;
$$;

COMMENT ON FUNCTION pgbill.park IS
'Park an account, and take its lease from whoever holds it; false if it is parked already.';
