-- Give parked accounts another chance, on the word of a person. What is due today is
-- approved, however many periods it is.

CREATE OR REPLACE FUNCTION pgbill.unpark(
    p_bucket integer, p_account_id bigint, p_reason text, p_by text DEFAULT NULL
)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
AS $$
DECLARE
    v_token bigint;
BEGIN
    PERFORM FROM pgbill.lease
    WHERE lease.bucket = p_bucket
        AND lease.account_id = p_account_id
        AND lease.parked_at IS NOT NULL
    FOR UPDATE;

    IF NOT found THEN
        RETURN FALSE;
    END IF;

    v_token := nextval('pgbill.fencing_token');

    UPDATE pgbill.lease
    SET
        fencing_token = v_token,
        outcome = 'unparked',
        detail = p_reason,
        attempts = 0,
        parked_at = NULL,
        failed_run_id = NULL,
        retry_at = NULL,
        acted_by = p_by,
        approved_on = current_date
    WHERE lease.bucket = p_bucket AND lease.account_id = p_account_id;

    RETURN TRUE;
END;
$$;

COMMENT ON FUNCTION pgbill.unpark IS
'Unpark an account and approve all that is due today; false if it is not parked.';
