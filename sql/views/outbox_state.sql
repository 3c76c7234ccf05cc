-- How each message stands. Nothing of it is stored: it follows from the attempts and their
-- outcomes, and from the time.

CREATE OR REPLACE VIEW pgbill.outbox_state AS
SELECT
    message.bucket,
    message.account_id,
    account.key AS account_key,
    message.message_id,
    message.invoice_id,
    numbered.number_text,
    invoice.mode,
    message.channel,
    message.address,
    attempt.sent_to,
    attempt.begun_at AS last_attempt_at,
    outcome.reply_code,
    outcome.reply_text,
    message.holder,
    message.created_at,
    message.closed_at,
    message.retry_of,
    message.retry_reason,
    message.retried_by,
    message.held_at,
    message.released_at,
    message.released_by,
    retry.message_id AS retried_as,
    coalesce(attempt.attempt_no, 0) AS attempt_count,
    nullif(message.due_at, 'infinity') AS due_at,
    CASE
        WHEN outcome.outcome IN ('accepted', 'failed') THEN outcome.outcome
        WHEN message.held_at IS NOT NULL AND message.released_at IS NULL THEN 'held'
        WHEN message.expires_at > clock_timestamp() THEN 'claimed'
        WHEN attempt.attempt_no IS NULL THEN 'pending'
        WHEN outcome.outcome IS NULL THEN 'uncertain'
        ELSE 'deferred'
    END AS state
FROM pgbill.outbox_message AS message
INNER JOIN pgbill.account
    ON message.bucket = account.bucket AND message.account_id = account.account_id
INNER JOIN pgbill.invoice
    ON
        message.bucket = invoice.bucket
        AND message.account_id = invoice.account_id
        AND message.invoice_id = invoice.invoice_id
LEFT JOIN pgbill.invoice_number AS numbered
    ON
        message.bucket = numbered.bucket
        AND message.account_id = numbered.account_id
        AND message.invoice_id = numbered.invoice_id
LEFT JOIN LATERAL (
    SELECT newest.attempt_no, newest.sent_to, newest.begun_at
    FROM pgbill.delivery_attempt AS newest
    WHERE newest.bucket = message.bucket
        AND newest.account_id = message.account_id
        AND newest.message_id = message.message_id
    ORDER BY newest.attempt_no DESC
    LIMIT 1
) AS attempt ON TRUE
LEFT JOIN pgbill.delivery_outcome AS outcome
    ON
        message.bucket = outcome.bucket
        AND message.account_id = outcome.account_id
        AND message.message_id = outcome.message_id
        AND attempt.attempt_no = outcome.attempt_no
LEFT JOIN pgbill.outbox_message AS retry
    ON
        message.bucket = retry.bucket
        AND message.account_id = retry.account_id
        AND message.message_id = retry.retry_of;

COMMENT ON VIEW pgbill.outbox_state IS
'Every outbox message with its state: held, pending, claimed, deferred, accepted, failed or '
'uncertain.';
COMMENT ON COLUMN pgbill.outbox_state.state IS
'uncertain: an attempt has no outcome and its claim is over, so the message may have been taken; '
'held: its run holds mail.';
COMMENT ON COLUMN pgbill.outbox_state.attempt_count IS 'Attempts that were begun.';
COMMENT ON COLUMN pgbill.outbox_state.sent_to IS 'The address of the last attempt; null: none yet.';
COMMENT ON COLUMN pgbill.outbox_state.reply_text IS
'What the last attempt was answered; null: no outcome.';
COMMENT ON COLUMN pgbill.outbox_state.due_at IS
'When it is tried next, unless it is closed; null: only after a person has resolved or released '
'it.';
COMMENT ON COLUMN pgbill.outbox_state.retry_of IS 'The failed message that it repeats, or null.';
COMMENT ON COLUMN pgbill.outbox_state.retry_reason IS 'Why it repeats that message, or null.';
COMMENT ON COLUMN pgbill.outbox_state.retried_by IS 'Who wanted it repeated, or null.';
COMMENT ON COLUMN pgbill.outbox_state.retried_as IS 'The message that repeats it, or null.';
