-- P7: what was taken, or refused for good, is not sent again.

CREATE OR REPLACE VIEW pgbill_audit.p7_sent_after_accepted AS
SELECT
    attempt.bucket,
    attempt.account_id,
    attempt.message_id,
    attempt.attempt_no,
    attempt.sent_to,
    attempt.begun_at,
    format('attempt %s: %s', closing.attempt_no, closing.outcome) AS closed_by
FROM pgbill.delivery_outcome AS closing
INNER JOIN pgbill.delivery_attempt AS attempt
    ON
        closing.bucket = attempt.bucket
        AND closing.account_id = attempt.account_id
        AND closing.message_id = attempt.message_id
WHERE closing.outcome <> 'deferred' AND attempt.attempt_no > closing.attempt_no
UNION ALL
SELECT
    retry.bucket,
    retry.account_id,
    retry.message_id,
    NULL,
    retry.address,
    retry.created_at,
    format('message %s, which it repeats: %s', taken.message_id, taken.outcome)
FROM pgbill.outbox_message AS retry
INNER JOIN pgbill.delivery_outcome AS taken
    ON
        retry.bucket = taken.bucket
        AND retry.account_id = taken.account_id
        AND retry.retry_of = taken.message_id
WHERE taken.outcome = 'accepted';

COMMENT ON VIEW pgbill_audit.p7_sent_after_accepted IS
'A message was sent or repeated after it had been accepted, or sent again after it '
'had failed for good: the recipient has it twice.';
