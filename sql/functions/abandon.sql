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
        INSERT INTO pgbill.alert (bucket, account_id, kind, summary)
        VALUES (
            p_bucket, p_account_id, 'hard_limit',
            format('%s dropped the account: %s', p_holder, p_detail)
        );
    END IF;
END;
$$;

COMMENT ON FUNCTION pgbill.abandon IS
'Record that a worker dropped an account after losing its lease; raises an alert at '
'the hard limit.';
