-- Say what becomes of a draft that was held back: approved, it is issued by the next run, if
-- that rates it the same; discarded, it is rated anew. If the run says so, whoever has started
-- it does not approve: a login counts, on whatever machine.

CREATE OR REPLACE FUNCTION pgbill.decide_draft(
    p_bucket integer,
    p_account_id bigint,
    p_held_draft_id bigint,
    p_decision text,
    p_reason text,
    p_by text
)
RETURNS text
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
AS $$
DECLARE
    v_token bigint;
BEGIN
    -- First the lease, as everywhere: of two who decide, one waits for the other.
    PERFORM FROM pgbill.lease
    WHERE lease.bucket = p_bucket AND lease.account_id = p_account_id
    FOR UPDATE;

    IF p_decision = 'approved' AND EXISTS (
        SELECT
        FROM pgbill.held_draft
        INNER JOIN pgbill.billing_run ON held_draft.run_id = billing_run.run_id
        WHERE held_draft.bucket = p_bucket
            AND held_draft.account_id = p_account_id
            AND held_draft.held_draft_id = p_held_draft_id
            AND (billing_run.settings -> 'review' ->> 'by_another')::boolean
            AND split_part(billing_run.started_by, '@', 1) = split_part(p_by, '@', 1)
    ) THEN
        RETURN 'same_person';
    END IF;

    INSERT INTO pgbill.draft_decision (
        bucket, account_id, held_draft_id, decision, decided_by, reason
    )
    SELECT
        held_draft.bucket,
        held_draft.account_id,
        held_draft.held_draft_id,
        p_decision,
        p_by,
        p_reason
    FROM pgbill.held_draft
    WHERE held_draft.bucket = p_bucket
        AND held_draft.account_id = p_account_id
        AND held_draft.held_draft_id = p_held_draft_id
    ON CONFLICT DO NOTHING;

    IF NOT found THEN
        RETURN 'decided_before';
    END IF;

    v_token := nextval('pgbill.fencing_token');

    UPDATE pgbill.lease
    SET
        fencing_token = v_token,
        outcome = p_decision,
        detail = p_reason,
        draft_at = NULL,
        failed_run_id = NULL,
        retry_at = NULL,
        acted_by = p_by
    WHERE lease.bucket = p_bucket
        AND lease.account_id = p_account_id
        AND lease.draft_at IS NOT NULL;

    RETURN p_decision;
END;
$$;

COMMENT ON FUNCTION pgbill.decide_draft IS
'Approve or discard a held draft; same_person: the run wants another to approve; '
'decided_before: the first decision counts.';
