-- Let the relays have the messages of a run that holds its mail, once it has ended.

CREATE OR REPLACE FUNCTION pgbill.release_held_messages(p_run_id bigint, p_by text)
RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_count bigint;
BEGIN
    -- Of two at once, one waits and finds nothing left.
    UPDATE pgbill.billing_run
    SET
        mail_released_at = coalesce(billing_run.mail_released_at, v_now),
        mail_released_by = coalesce(billing_run.mail_released_by, p_by)
    WHERE billing_run.run_id = p_run_id
        AND billing_run.hold_mail
        AND billing_run.sealed_at IS NOT NULL;

    IF NOT found THEN
        RETURN 0;
    END IF;

    UPDATE pgbill.outbox_message
    SET
        due_at = v_now,
        released_at = v_now,
        released_by = p_by
    FROM pgbill.invoice
    WHERE invoice.bucket = outbox_message.bucket
        AND invoice.account_id = outbox_message.account_id
        AND invoice.invoice_id = outbox_message.invoice_id
        AND invoice.run_id = p_run_id
        AND outbox_message.held_at IS NOT NULL
        AND outbox_message.released_at IS NULL;

    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END;
$$;

COMMENT ON FUNCTION pgbill.release_held_messages IS
'Release the messages that a run has held, and note who did; returns how many. Nothing while '
'the run has not ended.';
