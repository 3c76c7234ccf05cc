-- P3: no e-mail of a run that holds its mail before a person has released it.

CREATE OR REPLACE VIEW pgbill_audit.p3_message_not_held AS
SELECT
    outbox_message.bucket,
    outbox_message.account_id,
    outbox_message.message_id,
    outbox_message.invoice_id,
    'it was sent while it was held' AS problem
FROM pgbill.outbox_message
INNER JOIN pgbill.delivery_attempt
    ON
        outbox_message.bucket = delivery_attempt.bucket
        AND outbox_message.account_id = delivery_attempt.account_id
        AND outbox_message.message_id = delivery_attempt.message_id
WHERE outbox_message.held_at IS NOT NULL
    AND delivery_attempt.begun_at < coalesce(outbox_message.released_at, 'infinity')
UNION ALL
SELECT
    outbox_message.bucket,
    outbox_message.account_id,
    outbox_message.message_id,
    outbox_message.invoice_id,
    'its run holds mail, and it was not held'
FROM pgbill.billing_run
INNER JOIN pgbill.billing_period USING (run_id)
INNER JOIN pgbill.invoice
    ON
        billing_period.bucket = invoice.bucket
        AND billing_period.account_id = invoice.account_id
        AND billing_period.period_end = invoice.period_end
        AND billing_run.run_id = invoice.run_id
INNER JOIN pgbill.outbox_message
    ON
        invoice.bucket = outbox_message.bucket
        AND invoice.account_id = outbox_message.account_id
        AND invoice.invoice_id = outbox_message.invoice_id
WHERE billing_run.hold_mail
    AND outbox_message.held_at IS NULL
    AND outbox_message.retry_of IS NULL
    AND outbox_message.created_at < coalesce(billing_run.mail_released_at, 'infinity');

COMMENT ON VIEW pgbill_audit.p3_message_not_held IS
'A run was to hold its mail for a person, and a message of it went out, or could, before it '
'was released.';
