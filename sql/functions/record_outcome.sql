-- Say what became of an attempt. The first outcome counts, whoever tells it and however
-- late: a relay that was thought dead and still got its 250, or a person who found out.
--
-- A message is deferred for a minute, then twice as long each time, up to 6 hours, each
-- time a fifth more or less. After 40 attempts, in about 8 days, it has failed.

CREATE OR REPLACE FUNCTION pgbill.record_outcome(
    p_bucket integer,
    p_account_id bigint,
    p_message_id bigint,
    p_attempt_no integer,
    p_outcome text,
    p_reply_code integer,
    p_reply_text text,
    p_recorded_by text
)
RETURNS text
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
SET enable_seqscan = off
AS $$
DECLARE
    c_last_attempt_no CONSTANT integer := 40;
    v_given_up boolean := p_outcome = 'deferred' AND p_attempt_no >= c_last_attempt_no;
    v_outcome text := CASE WHEN v_given_up THEN 'failed' ELSE p_outcome END;
    v_delay interval := least(
        interval '1 minute' * power(2, least(p_attempt_no - 1, 20)), interval '6 hours'
    ) * (0.8 + 0.4 * random());
    v_now timestamptz := clock_timestamp();
BEGIN
    -- First the message, as everywhere, so that whoever claims sees all of this or nothing.
    PERFORM
    FROM pgbill.outbox_message
    WHERE outbox_message.bucket = p_bucket
        AND outbox_message.account_id = p_account_id
        AND outbox_message.message_id = p_message_id
    FOR NO KEY UPDATE;

    INSERT INTO pgbill.delivery_outcome (
        bucket, account_id, message_id, attempt_no, outcome, reply_code, reply_text,
        recorded_by, recorded_at
    )
    VALUES (
        p_bucket, p_account_id, p_message_id, p_attempt_no, v_outcome, p_reply_code,
        CASE
            WHEN v_given_up
                THEN format('given up after %s attempts; %s', p_attempt_no, p_reply_text)
            ELSE p_reply_text
        END,
        p_recorded_by, v_now
    )
    ON CONFLICT DO NOTHING;

    IF NOT found THEN
        RETURN NULL;
    END IF;

    UPDATE pgbill.outbox_message
    SET
        holder = NULL,
        expires_at = '-infinity',
        due_at = CASE WHEN v_outcome = 'deferred' THEN v_now + v_delay ELSE v_now END,
        closed_at = CASE WHEN v_outcome <> 'deferred' THEN v_now END
    WHERE outbox_message.bucket = p_bucket
        AND outbox_message.account_id = p_account_id
        AND outbox_message.message_id = p_message_id;

    RETURN v_outcome;
END;
$$;

COMMENT ON FUNCTION pgbill.record_outcome IS
'Record accepted, deferred or failed for an attempt; returns what was recorded (failed, when '
'deferred too often), or null if an earlier outcome counts.';
