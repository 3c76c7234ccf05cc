-- Make the accounts that failed in a run, or that it has parked, due again, on the word of a
-- person; also those that failed in it and that a later run has given up. What somebody has
-- parked by hand stays parked.

CREATE OR REPLACE FUNCTION pgbill.retry_run(p_run_id bigint, p_reason text, p_by text)
RETURNS TABLE (bucket integer, account_id bigint, was text)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
AS $$
BEGIN
    RETURN QUERY
    WITH wanted AS MATERIALIZED (
        SELECT
            lease.bucket,
            lease.account_id,
            CASE WHEN lease.parked_at IS NULL THEN 'failed' ELSE 'parked' END AS was
        FROM pgbill.lease
        WHERE (lease.failed_run_id = p_run_id AND lease.parked_at IS NULL)
            OR (lease.run_id = p_run_id AND lease.parked_at IS NOT NULL AND lease.acted_by IS NULL)
            OR (
                lease.parked_at IS NOT NULL
                AND lease.acted_by IS NULL
                -- Whether so many periods are right is asked for the run that has asked.
                AND lease.detail NOT LIKE 'more than % billing periods are due since %'
                AND EXISTS (
                    SELECT
                    FROM pgbill.lease_event
                    WHERE lease_event.run_id = p_run_id
                        AND lease_event.outcome = 'failed'
                        AND lease_event.bucket = lease.bucket
                        AND lease_event.account_id = lease.account_id
                        AND lease_event.due_on = lease.due_on
                )
            )
        ORDER BY lease.bucket, lease.account_id
        FOR UPDATE
    ),

    numbered AS MATERIALIZED (
        SELECT
            wanted.bucket,
            wanted.account_id,
            wanted.was,
            nextval('pgbill.fencing_token') AS fencing_token
        FROM wanted
    )

    UPDATE pgbill.lease
    SET
        fencing_token = numbered.fencing_token,
        outcome = CASE numbered.was WHEN 'parked' THEN 'unparked' ELSE 'retried' END,
        detail = p_reason,
        attempts = 0,
        parked_at = NULL,
        failed_run_id = NULL,
        retry_at = NULL,
        approved_on = CASE numbered.was
            WHEN 'parked' THEN current_date
            ELSE lease.approved_on
        END,
        acted_by = p_by
    FROM numbered
    WHERE lease.bucket = numbered.bucket AND lease.account_id = numbered.account_id
    RETURNING lease.bucket, lease.account_id, numbered.was;
END;
$$;

COMMENT ON FUNCTION pgbill.retry_run IS
'Make the accounts that failed or were parked in a run due again; returns them, and what '
'they were.';
