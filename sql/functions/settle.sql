-- Release a lease whose period turned out to be closed already, and move it on to the
-- first open one.

CREATE OR REPLACE FUNCTION pgbill.settle(p_bucket integer, p_account_id bigint, p_token bigint)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
SET enable_seqscan = off
AS $$
DECLARE
    v_next_on date;
    v_zone text;
    v_token bigint;
BEGIN
    PERFORM FROM pgbill.lease
    WHERE lease.bucket = p_bucket
        AND lease.account_id = p_account_id
        AND lease.fencing_token = p_token
    FOR NO KEY UPDATE;

    IF NOT found THEN
        RETURN FALSE;
    END IF;

    SELECT
        pgbill.boundary(
            account.anchor_on,
            pgbill.boundary_number(account.anchor_on, max(billing_period.period_end))
        ),
        account.zone
    INTO v_next_on, v_zone
    FROM pgbill.account
    INNER JOIN pgbill.billing_period USING (bucket, account_id)
    WHERE account.bucket = p_bucket AND account.account_id = p_account_id
    GROUP BY account.bucket, account.account_id;

    v_token := nextval('pgbill.fencing_token');

    UPDATE pgbill.lease
    SET
        due_on = coalesce(v_next_on, lease.due_on),
        due_at = coalesce(pgbill.local_midnight(v_next_on, v_zone), lease.due_at),
        fencing_token = v_token,
        holder = NULL,
        worker_id = NULL,
        claimed_at = NULL,
        expires_at = '-infinity',
        attempts = 0,
        outcome = 'given_back',
        detail = 'the period was closed already'
    WHERE lease.bucket = p_bucket AND lease.account_id = p_account_id;

    RETURN TRUE;
END;
$$;

COMMENT ON FUNCTION pgbill.settle IS
'Release a lease whose period is closed already; false if the lease is no longer '
'the caller''s.';
