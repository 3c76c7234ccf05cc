-- Take messages that are due and that no relay works on. A claim is for progress only:
-- what keeps a message from being sent twice are the keys of delivery_attempt.
--
-- A message whose last attempt has no outcome may have been taken. It is not claimed again;
-- whoever finds it after its claim is over raises one alert and takes it off the list of
-- what is due, until an outcome is recorded: late by its relay, or by a person.

CREATE OR REPLACE FUNCTION pgbill.claim_messages(
    p_bucket integer,
    p_channels text[],
    p_mode text,
    p_holder text,
    p_ttl interval,
    p_limit integer
)
RETURNS TABLE (
    bucket integer,
    account_id bigint,
    message_id bigint,
    invoice_id bigint,
    channel text,
    address text
)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
SET enable_seqscan = off
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_account_ids bigint[];
    v_message_ids bigint[];
BEGIN
    SELECT array_agg(claimable.account_id), array_agg(claimable.message_id)
    INTO v_account_ids, v_message_ids
    FROM (
        SELECT outbox_message.account_id, outbox_message.message_id
        FROM pgbill.outbox_message
        WHERE outbox_message.bucket = p_bucket
            AND outbox_message.closed_at IS NULL
            AND outbox_message.due_at <= v_now
            AND outbox_message.expires_at <= v_now
            AND outbox_message.channel = ANY(p_channels)
            AND (
                p_mode IS NULL
                OR EXISTS (
                    SELECT
                    FROM pgbill.invoice
                    WHERE invoice.bucket = outbox_message.bucket
                        AND invoice.account_id = outbox_message.account_id
                        AND invoice.invoice_id = outbox_message.invoice_id
                        AND invoice.mode = p_mode
                )
            )
        ORDER BY outbox_message.message_id
        LIMIT p_limit
        FOR UPDATE OF outbox_message SKIP LOCKED
    ) AS claimable;

    -- A statement of its own: it sees every attempt that was committed before we had the
    -- locks, and begin_attempt and record_outcome take them first.
    WITH uncertain AS (
        UPDATE pgbill.outbox_message
        SET due_at = 'infinity', holder = NULL, expires_at = '-infinity'
        FROM unnest(v_account_ids, v_message_ids) AS locked (account_id, message_id)
        INNER JOIN pgbill.delivery_attempt AS attempt
            ON
                attempt.bucket = p_bucket
                AND locked.account_id = attempt.account_id
                AND locked.message_id = attempt.message_id
        WHERE outbox_message.bucket = p_bucket
            AND outbox_message.account_id = locked.account_id
            AND outbox_message.message_id = locked.message_id
            AND NOT EXISTS (
                SELECT
                FROM pgbill.delivery_outcome
                WHERE delivery_outcome.bucket = attempt.bucket
                    AND delivery_outcome.account_id = attempt.account_id
                    AND delivery_outcome.message_id = attempt.message_id
                    AND delivery_outcome.attempt_no = attempt.attempt_no
            )
        RETURNING
            outbox_message.bucket, outbox_message.account_id, outbox_message.message_id,
            attempt.attempt_no, attempt.holder, attempt.sent_to, attempt.begun_at
    )

    INSERT INTO pgbill.alert (bucket, kind, account_id, message_id, attempt_no, summary)
    SELECT
        uncertain.bucket,
        'message_uncertain',
        uncertain.account_id,
        uncertain.message_id,
        uncertain.attempt_no,
        format(
            'Account %s: it is not known whether message %s to %s arrived: attempt %s, begun by'
            ' %s at %s, has no outcome. It is not sent again before you say so. Look into the'
            ' log of the mail server, then: pgbill outbox resolve %s --taken (or --not-taken)'
            ' --reason TEXT.',
            account.key, uncertain.message_id, uncertain.sent_to, uncertain.attempt_no,
            uncertain.holder,
            to_char(uncertain.begun_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS"Z"'),
            uncertain.message_id
        )
    FROM uncertain
    INNER JOIN pgbill.account
        ON uncertain.bucket = account.bucket AND uncertain.account_id = account.account_id
    ON CONFLICT DO NOTHING;

    RETURN QUERY
    UPDATE pgbill.outbox_message
    SET holder = p_holder, expires_at = v_now + p_ttl
    FROM unnest(v_account_ids, v_message_ids) AS locked (account_id, message_id)
    WHERE outbox_message.bucket = p_bucket
        AND outbox_message.account_id = locked.account_id
        AND outbox_message.message_id = locked.message_id
        AND outbox_message.due_at <= v_now
    RETURNING
        outbox_message.bucket,
        outbox_message.account_id,
        outbox_message.message_id,
        outbox_message.invoice_id,
        outbox_message.channel,
        outbox_message.address;
END;
$$;

COMMENT ON FUNCTION pgbill.claim_messages IS
'Take up to p_limit due messages of a bucket for p_holder; p_mode null: of invoices of any '
'mode. Raises an alert for each that has become uncertain.';
