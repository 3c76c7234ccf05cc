-- Take the lease of one account for a clerk, whether it is due, parked or neither. What its
-- last claim by a worker has left (attempts, outcome, the run) stays as it is.
--
-- A worker that holds the lease goes first. FOR UPDATE as in pgbill.claim: it is what the
-- FOR KEY SHARE of the fence waits for.

CREATE OR REPLACE FUNCTION pgbill.claim_account(
    p_bucket integer, p_account_id bigint, p_holder text, p_worker_id uuid
)
RETURNS bigint
LANGUAGE plpgsql
SET search_path = ''
SET enable_seqscan = off
AS $$
DECLARE
    -- The caller is done within the same transaction.
    c_ttl CONSTANT interval := '1 minute';
    v_lease pgbill.lease;
    v_now timestamptz;
    v_token bigint;
BEGIN
    -- Looked at before it is locked: a worker may hold the row for as long as it commits.
    FOR v_try IN 1 .. 2 LOOP
        IF v_try = 1 THEN
            SELECT lease.* INTO v_lease
            FROM pgbill.lease
            WHERE lease.bucket = p_bucket AND lease.account_id = p_account_id;
        ELSE
            SELECT lease.* INTO v_lease
            FROM pgbill.lease
            WHERE lease.bucket = p_bucket AND lease.account_id = p_account_id
            FOR UPDATE;
        END IF;

        v_now := clock_timestamp();

        IF v_lease.worker_id IS NOT NULL AND v_lease.expires_at > v_now THEN
            RAISE EXCEPTION USING
                ERRCODE = 'IV005',
                MESSAGE = format('%s is working on the account at this moment', v_lease.holder),
                HINT = 'Try again in a minute.';
        END IF;
    END LOOP;

    -- Drawn while the row is locked, or the token could be older than its predecessor.
    v_token := nextval('pgbill.fencing_token');

    UPDATE pgbill.lease
    SET
        fencing_token = v_token,
        holder = p_holder,
        worker_id = p_worker_id,
        run_id = NULL,
        claimed_at = v_now,
        renewed_at = v_now,
        expires_at = v_now + c_ttl
    WHERE lease.bucket = p_bucket AND lease.account_id = p_account_id;

    RETURN v_token;
END;
$$;

COMMENT ON FUNCTION pgbill.claim_account IS
'Take the lease of an account for a correction, and return the new fencing token; IV005 if '
'a worker holds it. For the rest of the transaction, which must release it.';
