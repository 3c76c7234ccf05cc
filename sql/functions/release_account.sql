-- Let go of the lease that a clerk has claimed. The token is burned; nothing else changes.

CREATE OR REPLACE FUNCTION pgbill.release_account(
    p_bucket integer, p_account_id bigint, p_token bigint
)
RETURNS void
LANGUAGE plpgsql
SET search_path = ''
SET enable_seqscan = off
AS $$
DECLARE
    v_token bigint := nextval('pgbill.fencing_token');
BEGIN
    UPDATE pgbill.lease
    SET
        fencing_token = v_token,
        holder = NULL,
        worker_id = NULL,
        claimed_at = NULL,
        expires_at = '-infinity'
    WHERE lease.bucket = p_bucket
        AND lease.account_id = p_account_id
        AND lease.fencing_token = p_token;
END;
$$;

COMMENT ON FUNCTION pgbill.release_account IS
'Release what pgbill.claim_account has claimed; the lease is due and parked as before.';
