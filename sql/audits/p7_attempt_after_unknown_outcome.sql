-- P7: attempt n + 1 needs the outcome deferred of attempt n.

CREATE OR REPLACE VIEW pgbill_audit.p7_attempt_after_unknown_outcome AS
SELECT
    attempt.bucket,
    attempt.account_id,
    attempt.message_id,
    attempt.attempt_no,
    attempt.sent_to,
    attempt.begun_at
FROM pgbill.delivery_attempt AS attempt
LEFT JOIN pgbill.delivery_outcome AS previous
    ON
        attempt.bucket = previous.bucket
        AND attempt.account_id = previous.account_id
        AND attempt.message_id = previous.message_id
        AND attempt.attempt_no - 1 = previous.attempt_no
WHERE attempt.attempt_no > 1 AND previous.outcome IS NULL;

COMMENT ON VIEW pgbill_audit.p7_attempt_after_unknown_outcome IS
'A message was sent again while it was unknown whether the attempt before had been '
'taken: the recipient may have it twice.';
