-- Release a lease whose period turned out to be closed already, and move it on to the
-- first open one. If the period is open, something else was not unique: that is a failure,
-- and to release the lease for it would be to try it again for ever.

CREATE OR REPLACE FUNCTION pgbill.settle(p_bucket integer, p_account_id bigint, p_token bigint)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
SET enable_seqscan = off
AS $$
DECLARE
    v_due_on date;
    v_closed_on date;
    v_next_on date;
    v_zone text;
    v_token bigint;
BEGIN
    SELECT lease.due_on INTO v_due_on
    FROM pgbill.lease
    WHERE lease.bucket = p_bucket
        AND lease.account_id = p_account_id
        AND lease.fencing_token = p_token
    FOR NO KEY UPDATE;

    IF NOT found THEN
        RETURN FALSE;
    END IF;

    SELECT max(billing_period.period_end) INTO v_closed_on
    FROM pgbill.billing_period
    WHERE billing_period.bucket = p_bucket AND billing_period.account_id = p_account_id;

    IF v_closed_on IS NULL OR v_closed_on < v_due_on THEN
        RETURN NULL;
    END IF;

    SELECT
        pgbill.boundary(
            account.anchor_on,
            account.billing_interval,
            pgbill.boundary_number(account.anchor_on, account.billing_interval, v_closed_on)
        ),
        account.zone
    INTO v_next_on, v_zone
    FROM pgbill.account
    WHERE account.bucket = p_bucket AND account.account_id = p_account_id;

    v_token := nextval('pgbill.fencing_token');

    UPDATE pgbill.lease
    SET
        due_on = v_next_on,
        due_at = pgbill.local_midnight(v_next_on, v_zone),
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
'the caller''s, null if its period is open.';
