-- What a run could not invoice, and has not invoiced since: each account with its last
-- failure. One that failed and was invoiced at a later attempt is none.

CREATE OR REPLACE FUNCTION pgbill.run_failures(p_run_id bigint)
RETURNS TABLE (bucket integer, account_id bigint, outcome text, reason text)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = ''
AS $$
    SELECT
        newest.bucket,
        newest.account_id,
        newest.outcome,
        newest.detail
    FROM (
        SELECT DISTINCT ON (lease_event.bucket, lease_event.account_id)
            lease_event.bucket,
            lease_event.account_id,
            lease_event.due_on,
            lease_event.outcome,
            lease_event.detail
        FROM pgbill.lease_event
        WHERE lease_event.run_id = p_run_id
            AND lease_event.outcome IN ('failed', 'parked')
            AND lease_event.acted_by IS NULL
        ORDER BY lease_event.bucket, lease_event.account_id, lease_event.lease_event_id DESC
    ) AS newest
    WHERE NOT EXISTS (
        SELECT
        FROM pgbill.billing_period
        WHERE billing_period.bucket = newest.bucket
            AND billing_period.account_id = newest.account_id
            AND billing_period.period_end = newest.due_on
            AND billing_period.run_id = p_run_id
    );
$$;

COMMENT ON FUNCTION pgbill.run_failures IS
'Accounts that failed or were parked in a run and that it has not invoiced since, each with '
'its last outcome and the reason.';
