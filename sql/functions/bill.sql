-- Rate, tax by the table of rates, and issue, in one statement: the drafts never leave the
-- database. With a tax service the worker calls rate and issue itself and asks in between.

CREATE OR REPLACE FUNCTION pgbill.bill(
    p_buckets integer[],
    p_account_ids bigint[],
    p_tokens bigint[],
    p_worker_id uuid,
    p_run_id bigint,
    p_mode text,
    p_issue_on date,
    p_through_on date,
    p_max_due_periods integer,
    p_max_attempts integer
)
RETURNS TABLE (bucket integer, account_id bigint, outcome text)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
AS $$
DECLARE
    v_ready_buckets integer[];
    v_ready_ids bigint[];
    v_ready_tokens bigint[];
    v_drafts pgbill.draft[];
    v_refused_buckets integer[];
    v_refused_ids bigint[];
    v_refused_tokens bigint[];
    v_outcomes text[];
    v_problems text[];
BEGIN
    WITH rated AS MATERIALIZED (
        SELECT
            rate.bucket,
            rate.account_id,
            asked.fencing_token,
            rate.outcome,
            rate.problem,
            rate.draft
        FROM pgbill.rate(p_buckets, p_account_ids, p_through_on, p_max_due_periods) AS rate
        INNER JOIN unnest(p_buckets, p_account_ids, p_tokens)
            AS asked (bucket, account_id, fencing_token)
            ON rate.bucket = asked.bucket AND rate.account_id = asked.account_id
    )

    SELECT
        array_agg(rated.bucket) FILTER (WHERE rated.outcome IS NULL),
        array_agg(rated.account_id) FILTER (WHERE rated.outcome IS NULL),
        array_agg(rated.fencing_token) FILTER (WHERE rated.outcome IS NULL),
        array_agg(rated.draft) FILTER (WHERE rated.outcome IS NULL),
        array_agg(rated.bucket) FILTER (WHERE rated.outcome IS NOT NULL),
        array_agg(rated.account_id) FILTER (WHERE rated.outcome IS NOT NULL),
        array_agg(rated.fencing_token) FILTER (WHERE rated.outcome IS NOT NULL),
        array_agg(rated.outcome) FILTER (WHERE rated.outcome IS NOT NULL),
        array_agg(rated.problem) FILTER (WHERE rated.outcome IS NOT NULL)
    INTO
        v_ready_buckets, v_ready_ids, v_ready_tokens, v_drafts,
        v_refused_buckets, v_refused_ids, v_refused_tokens, v_outcomes, v_problems
    FROM rated;

    -- What cannot be invoiced is released first: the numbers come last. An account whose
    -- lease is lost is missing here as well, or its worker would believe it had failed it.
    SELECT
        array_agg(own.bucket),
        array_agg(own.account_id),
        array_agg(own.fencing_token),
        array_agg(own.outcome),
        array_agg(own.problem)
    INTO v_refused_buckets, v_refused_ids, v_refused_tokens, v_outcomes, v_problems
    FROM (
        SELECT
            refused.bucket,
            refused.account_id,
            refused.fencing_token,
            refused.outcome,
            refused.problem
        FROM unnest(
            v_refused_buckets, v_refused_ids, v_refused_tokens, v_outcomes, v_problems
        ) AS refused (bucket, account_id, fencing_token, outcome, problem)
        INNER JOIN pgbill.lease
            ON
                refused.bucket = lease.bucket
                AND refused.account_id = lease.account_id
                AND refused.fencing_token = lease.fencing_token
        ORDER BY lease.bucket, lease.account_id
        FOR NO KEY UPDATE OF lease
    ) AS own;

    IF v_refused_ids IS NOT NULL THEN
        PERFORM pgbill.release(
            v_refused_buckets, v_refused_ids, v_refused_tokens, v_outcomes, v_problems,
            p_max_attempts
        );
    END IF;

    RETURN QUERY
    SELECT refused.bucket, refused.account_id, refused.outcome
    FROM unnest(v_refused_buckets, v_refused_ids, v_outcomes)
        AS refused (bucket, account_id, outcome);

    IF v_ready_ids IS NOT NULL THEN
        RETURN QUERY
        SELECT issued.bucket, issued.account_id, issued.outcome
        FROM pgbill.issue(
            v_ready_buckets, v_ready_ids, v_ready_tokens, v_drafts,
            p_worker_id, p_run_id, p_mode, p_issue_on
        ) AS issued;
    END IF;
END;
$$;

COMMENT ON FUNCTION pgbill.bill IS
'Rate accounts and issue their invoices; those with a problem are released as '
'failed or parked, those whose lease is lost are missing from the answer. Call it '
'as a statement of its own.';
