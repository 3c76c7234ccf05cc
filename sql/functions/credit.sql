-- Credit an invoice, or cancel it: claim, write, release, number, in one statement and so in
-- one transaction. A dry run does all of that, and undoes it.

CREATE OR REPLACE FUNCTION pgbill.credit(
    p_bucket integer,
    p_account_id bigint,
    p_invoice_id bigint,
    p_line_nos integer[],
    p_amounts numeric[],
    p_amount numeric,
    p_is_cancellation boolean,
    p_reason text,
    p_issued_by text,
    p_worker_id uuid,
    p_is_dry_run boolean
)
RETURNS jsonb
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
-- A worker that is committing goes first; a clerk does not wait for ever.
SET lock_timeout = '10s'
AS $$
DECLARE
    v_token bigint;
    v_note_id bigint;
    v_told jsonb;
BEGIN
    v_token := pgbill.claim_account(p_bucket, p_account_id, p_issued_by, p_worker_id);
    v_note_id := pgbill.take_back(
        p_bucket, p_account_id, p_invoice_id, v_token, p_line_nos, p_amounts, p_amount,
        p_is_cancellation, p_reason, p_issued_by
    );
    PERFORM pgbill.release_account(p_bucket, p_account_id, v_token);

    IF v_note_id IS NOT NULL THEN
        PERFORM pgbill.draw_numbers(ARRAY[p_bucket], ARRAY[p_account_id], ARRAY[v_note_id]);
    END IF;

    v_told := pgbill.document_told(p_bucket, p_account_id, v_note_id);

    IF p_is_dry_run THEN
        RAISE EXCEPTION USING ERRCODE = 'IV099', MESSAGE = 'undone';
    END IF;

    RETURN v_told;
EXCEPTION
    WHEN SQLSTATE 'IV099' THEN
        -- What variables hold outlives what is undone; the number was not given.
        RETURN v_told - 'number';
END;
$$;

COMMENT ON FUNCTION pgbill.credit IS
'Credit what is asked for of an invoice, or cancel it, as a clerk; tells the credit note '
'(null: all was credited before). IV005 if a worker holds the account, IV007 if it cannot '
'be. Call it as a statement of its own.';
