-- Keep claims while their relay lives, so that only a dead relay's messages are taken over,
-- or called uncertain, however long a mail server takes to answer.

CREATE OR REPLACE FUNCTION pgbill.renew_messages(
    p_buckets integer[],
    p_account_ids bigint[],
    p_message_ids bigint[],
    p_holder text,
    p_ttl interval
)
RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
SET enable_seqscan = off
AS $$
DECLARE
    v_count bigint;
BEGIN
    WITH own AS MATERIALIZED (
        SELECT outbox_message.bucket, outbox_message.account_id, outbox_message.message_id
        FROM unnest(p_buckets, p_account_ids, p_message_ids)
            AS told (bucket, account_id, message_id)
        INNER JOIN pgbill.outbox_message USING (bucket, account_id, message_id)
        WHERE outbox_message.holder = p_holder AND outbox_message.closed_at IS NULL
        ORDER BY outbox_message.bucket, outbox_message.account_id, outbox_message.message_id
        FOR NO KEY UPDATE OF outbox_message SKIP LOCKED
    )

    UPDATE pgbill.outbox_message
    SET expires_at = clock_timestamp() + p_ttl
    FROM own
    WHERE outbox_message.bucket = own.bucket
        AND outbox_message.account_id = own.account_id
        AND outbox_message.message_id = own.message_id;

    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END;
$$;

COMMENT ON FUNCTION pgbill.renew_messages IS
'Extend the claims that p_holder still has among these messages; returns how many.';
