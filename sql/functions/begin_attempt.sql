-- Say that a message is about to go out. It must have committed before the first byte does:
-- from then on, until an outcome is recorded, nobody sends the message again.
--
-- Looking at the holder is courtesy. The guarantee, whatever code writes, are the keys of
-- delivery_attempt: attempt n exists once, and needs the outcome deferred of attempt n - 1.

CREATE OR REPLACE FUNCTION pgbill.begin_attempt(
    p_bucket integer,
    p_account_id bigint,
    p_message_id bigint,
    p_holder text,
    p_sent_to text
)
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
SET enable_seqscan = off
AS $$
DECLARE
    v_attempt_no integer;
BEGIN
    PERFORM
    FROM pgbill.outbox_message
    WHERE outbox_message.bucket = p_bucket
        AND outbox_message.account_id = p_account_id
        AND outbox_message.message_id = p_message_id
        AND outbox_message.holder = p_holder
        AND outbox_message.closed_at IS NULL
    FOR NO KEY UPDATE;

    IF NOT found THEN
        RETURN NULL;
    END IF;

    INSERT INTO pgbill.delivery_attempt (
        bucket, account_id, message_id, attempt_no, holder, sent_to
    )
    SELECT
        p_bucket,
        p_account_id,
        p_message_id,
        coalesce(max(delivery_attempt.attempt_no), 0) + 1,
        p_holder,
        p_sent_to
    FROM pgbill.delivery_attempt
    WHERE delivery_attempt.bucket = p_bucket
        AND delivery_attempt.account_id = p_account_id
        AND delivery_attempt.message_id = p_message_id
    RETURNING delivery_attempt.attempt_no INTO v_attempt_no;

    RETURN v_attempt_no;
END;
$$;

COMMENT ON FUNCTION pgbill.begin_attempt IS
'Begin the next attempt of a message that p_holder has claimed; null: the claim is not its '
'own any more, do not send. Call it as a statement of its own.';
