-- Note that a worker has dropped its work because its lease is lost. Not fenced: it is the
-- one thing that may be written after a loss.

CREATE OR REPLACE FUNCTION pgbill.abandon(
    p_bucket integer,
    p_account_id bigint,
    p_token bigint,
    p_holder text,
    p_worker_id uuid,
    p_run_id bigint,
    p_due_on date,
    p_detail text,
    p_hard_limit boolean
)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
AS $$
BEGIN
    INSERT INTO pgbill.lease_event (
        bucket, account_id, kind, fencing_token, holder, worker_id, run_id, due_on, detail
    )
    VALUES (
        p_bucket, p_account_id, 'abandoned', p_token, p_holder, p_worker_id, p_run_id,
        p_due_on, p_detail
    );

    IF p_hard_limit THEN
        INSERT INTO pgbill.alert (bucket, kind, account_id, fencing_token, run_id, summary)
        SELECT
            p_bucket,
            'hard_limit',
            p_account_id,
            p_token,
            p_run_id,
            format(
                'Account %s: %s dropped it: %s. Nothing was written for it. It is tried again'
                ' when the lease has expired, and parked after too many attempts. See what'
                ' takes so long: pgbill explain %s; if such accounts need the time, raise'
                ' PGBILL_HARD_LIMIT_SECONDS.',
                account.key, p_holder, p_detail, account.key
            )
        FROM pgbill.account
        WHERE account.bucket = p_bucket AND account.account_id = p_account_id
        ON CONFLICT DO NOTHING;
    END IF;
END;
$$;

COMMENT ON FUNCTION pgbill.abandon IS
'Record that a worker dropped an account after losing its lease; raises an alert at '
'the hard limit.';
