-- How much a run has before it, for its progress bar and its end.

CREATE OR REPLACE FUNCTION pgbill.due_count(
    p_through_on date, p_run_id bigint, p_account_id bigint DEFAULT NULL
)
RETURNS TABLE (due_count bigint, held_count bigint, parked_count bigint, draft_count bigint)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = ''
AS $$
    SELECT
        count(*) FILTER (WHERE waiting.is_due),
        count(*) FILTER (WHERE waiting.is_due AND lease.expires_at > clock_timestamp()),
        count(*) FILTER (WHERE lease.parked_at IS NOT NULL),
        count(*) FILTER (WHERE lease.parked_at IS NULL AND lease.draft_at IS NOT NULL)
    FROM pgbill.lease
    CROSS JOIN LATERAL (
        SELECT
            lease.parked_at IS NULL
            AND lease.draft_at IS NULL
            AND (lease.failed_run_id IS DISTINCT FROM p_run_id OR lease.retry_at IS NOT NULL)
    ) AS waiting (is_due)
    WHERE lease.due_on <= coalesce(p_through_on, 'infinity'::date - 1) + 1
        AND lease.due_at <= clock_timestamp()
        AND (p_account_id IS NULL OR lease.account_id = p_account_id);
$$;

COMMENT ON FUNCTION pgbill.due_count IS
'Accounts that are due for a run, those of them whose lease is held now, and those '
'due but parked, or waiting for a review.';
