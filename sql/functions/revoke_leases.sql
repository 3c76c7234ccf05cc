-- Make sure that nobody works on accounts whose subscriptions are about to change. Leases
-- that are held raise IV005; those whose time is over are taken away, token and all, since
-- their holder may only be asleep, with lines rated before the change.

CREATE OR REPLACE FUNCTION pgbill.revoke_leases(
    p_buckets integer[], p_account_ids bigint[], p_reason text
)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
SET enable_seqscan = off
AS $$
DECLARE
    v_held_count bigint;
BEGIN
    -- Locked until the caller commits: no claim comes between.
    WITH wanted AS MATERIALIZED (
        SELECT lease.worker_id, lease.expires_at
        FROM unnest(p_buckets, p_account_ids) AS named (bucket, account_id)
        INNER JOIN pgbill.lease
            ON named.bucket = lease.bucket AND named.account_id = lease.account_id
        ORDER BY lease.bucket, lease.account_id
        FOR UPDATE OF lease
    )

    SELECT count(*) INTO v_held_count
    FROM wanted
    WHERE wanted.worker_id IS NOT NULL AND wanted.expires_at > clock_timestamp();

    IF v_held_count > 0 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'IV005',
            MESSAGE = format('%s of the accounts are being invoiced at this moment', v_held_count),
            HINT = 'Try again when the run has ended.';
    END IF;

    WITH revoked AS MATERIALIZED (
        SELECT lease.bucket, lease.account_id, nextval('pgbill.fencing_token') AS fencing_token
        FROM unnest(p_buckets, p_account_ids) AS named (bucket, account_id)
        INNER JOIN pgbill.lease
            ON named.bucket = lease.bucket AND named.account_id = lease.account_id
        WHERE lease.worker_id IS NOT NULL
    )

    UPDATE pgbill.lease
    SET
        fencing_token = revoked.fencing_token,
        holder = NULL,
        worker_id = NULL,
        claimed_at = NULL,
        expires_at = '-infinity',
        outcome = 'revoked',
        detail = p_reason,
        acted_by = NULL
    FROM revoked
    WHERE lease.bucket = revoked.bucket AND lease.account_id = revoked.account_id;
END;
$$;

COMMENT ON FUNCTION pgbill.revoke_leases IS
'Lock the leases of accounts until the caller commits and make sure that no worker '
'holds one; IV005 if one does.';
