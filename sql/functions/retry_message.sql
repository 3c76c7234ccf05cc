-- Try a message that failed for good once more, as a message of its own. One that may have
-- been taken cannot be repeated like this: the foreign key wants the outcome failed.

CREATE OR REPLACE FUNCTION pgbill.retry_message(
    p_bucket integer,
    p_account_id bigint,
    p_message_id bigint,
    p_address text,
    p_reason text,
    p_retried_by text
)
RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
AS $$
DECLARE
    v_message_id bigint;
BEGIN
    INSERT INTO pgbill.outbox_message (
        bucket, account_id, invoice_id, channel, address,
        retry_of, retry_of_attempt_no, retry_reason, retried_by
    )
    SELECT
        failed.bucket,
        failed.account_id,
        failed.invoice_id,
        failed.channel,
        coalesce(p_address, failed.address),
        failed.message_id,
        delivery_outcome.attempt_no,
        p_reason,
        p_retried_by
    FROM pgbill.outbox_message AS failed
    INNER JOIN pgbill.delivery_outcome USING (bucket, account_id, message_id)
    WHERE failed.bucket = p_bucket
        AND failed.account_id = p_account_id
        AND failed.message_id = p_message_id
        AND delivery_outcome.outcome = 'failed'
    ON CONFLICT DO NOTHING
    RETURNING outbox_message.message_id INTO v_message_id;

    RETURN v_message_id;
END;
$$;

COMMENT ON FUNCTION pgbill.retry_message IS
'Write a new message in place of one that failed, to p_address or, if that is null, to the '
'same address; null: it has not failed, or has been retried already.';
