-- Keep leases, and learn which are lost. Rows are locked in key order, or a renewal and a
-- release of the same worker would deadlock; a row that is locked is being released or
-- claimed and is passed by. Lost means that the token differs, not that a row was locked.

CREATE OR REPLACE FUNCTION pgbill.renew(
    p_bucket integer,
    p_account_ids bigint[],
    p_tokens bigint[],
    p_ttl interval
)
RETURNS TABLE (account_id bigint, is_held boolean)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
SET enable_seqscan = off
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_own_ids bigint[];
BEGIN
    SELECT array_agg(own.account_id) INTO v_own_ids
    FROM (
        SELECT lease.account_id
        FROM unnest(p_account_ids, p_tokens) AS held (account_id, fencing_token)
        INNER JOIN pgbill.lease
            ON
                lease.bucket = p_bucket
                AND held.account_id = lease.account_id
                AND held.fencing_token = lease.fencing_token
        ORDER BY lease.account_id
        FOR NO KEY UPDATE OF lease SKIP LOCKED
    ) AS own;

    UPDATE pgbill.lease
    SET
        renewed_at = v_now,
        expires_at = v_now + p_ttl
    WHERE lease.bucket = p_bucket AND lease.account_id = ANY(v_own_ids);

    RETURN QUERY
    SELECT
        held.account_id,
        EXISTS (
            SELECT FROM pgbill.lease
            WHERE lease.bucket = p_bucket
                AND lease.account_id = held.account_id
                AND lease.fencing_token = held.fencing_token
        )
    FROM unnest(p_account_ids, p_tokens) AS held (account_id, fencing_token);
END;
$$;

COMMENT ON FUNCTION pgbill.renew IS
'Extend leases of one bucket by p_ttl from now, and tell for each whether its token '
'is still the newest.';
