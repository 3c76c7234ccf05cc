-- All that is known of one account, in pieces; `pgbill explain` puts them in order.

-- name: account
SELECT
    account.bucket,
    account.account_id,
    account.key,
    account.legal_name,
    account.zone,
    account.first_period_on,
    lease.due_on,
    lease.fencing_token,
    lease.holder,
    lease.claimed_at,
    lease.attempts,
    lease.parked_at,
    lease.draft_at,
    lease.retry_at,
    lease.detail,
    nullif(lease.expires_at, '-infinity') AS expires_at,
    clock_timestamp() AS asked_at
FROM pgbill.account
INNER JOIN pgbill.lease
    ON account.bucket = lease.bucket AND account.account_id = lease.account_id
WHERE account.bucket = pgbill.bucket_of(:key) AND account.key = :key;

-- name: events
SELECT
    lease_event.occurred_at,
    lease_event.kind,
    lease_event.fencing_token,
    lease_event.holder,
    lease_event.run_id,
    lease_event.due_on,
    lease_event.outcome,
    lease_event.detail,
    lease_event.acted_by
FROM pgbill.lease_event
WHERE lease_event.bucket = :bucket AND lease_event.account_id = :account_id
ORDER BY lease_event.lease_event_id;

-- name: closings
SELECT
    billing_period.period_start,
    billing_period.period_end,
    billing_period.zone,
    lag(billing_period.zone) OVER (ORDER BY billing_period.period_end) AS zone_before,
    billing_period.outcome,
    billing_period.usage_seq,
    billing_period.closed_at,
    billing_period.fencing_token
FROM pgbill.billing_period
WHERE billing_period.bucket = :bucket AND billing_period.account_id = :account_id
ORDER BY billing_period.period_end;

-- name: invoices
SELECT
    invoice_overview.invoice_id,
    invoice_overview.kind,
    invoice_overview.mode,
    invoice_overview.number_text,
    invoice_overview.period_end,
    invoice_overview.revision,
    invoice_overview.issued_on,
    invoice_overview.issued_at,
    invoice_overview.payable_on,
    invoice_overview.currency,
    invoice_overview.gross_amount,
    invoice_overview.fencing_token,
    invoice_overview.credited_invoice_id,
    invoice_overview.reason,
    invoice_overview.issued_by,
    (
        SELECT count(*)
        FROM pgbill.invoice_line
        WHERE invoice_line.bucket = invoice_overview.bucket
            AND invoice_line.account_id = invoice_overview.account_id
            AND invoice_line.invoice_id = invoice_overview.invoice_id
    ) AS line_count
FROM pgbill.invoice_overview
WHERE invoice_overview.bucket = :bucket AND invoice_overview.account_id = :account_id
ORDER BY invoice_overview.invoice_id;

-- name: cancellations
SELECT
    invoice_cancellation.period_end,
    invoice_cancellation.revision,
    invoice_cancellation.credit_note_id,
    invoice_cancellation.reason,
    invoice_cancellation.cancelled_by,
    invoice_cancellation.cancelled_at
FROM pgbill.invoice_cancellation
WHERE invoice_cancellation.bucket = :bucket AND invoice_cancellation.account_id = :account_id
ORDER BY invoice_cancellation.cancelled_at;

-- name: messages
SELECT
    outbox_message.message_id,
    outbox_message.invoice_id,
    outbox_message.channel,
    outbox_message.address,
    outbox_message.created_at,
    outbox_message.retry_of,
    outbox_message.retry_reason,
    outbox_message.retried_by,
    nullif(outbox_message.expires_at, '-infinity') AS expires_at
FROM pgbill.outbox_message
WHERE outbox_message.bucket = :bucket AND outbox_message.account_id = :account_id
ORDER BY outbox_message.message_id;

-- name: attempts
SELECT
    delivery_attempt.message_id,
    delivery_attempt.attempt_no,
    delivery_attempt.holder,
    delivery_attempt.sent_to,
    delivery_attempt.begun_at,
    delivery_outcome.outcome,
    delivery_outcome.reply_code,
    delivery_outcome.reply_text,
    delivery_outcome.recorded_by,
    delivery_outcome.recorded_at
FROM pgbill.delivery_attempt
LEFT JOIN pgbill.delivery_outcome
    ON
        delivery_attempt.bucket = delivery_outcome.bucket
        AND delivery_attempt.account_id = delivery_outcome.account_id
        AND delivery_attempt.message_id = delivery_outcome.message_id
        AND delivery_attempt.attempt_no = delivery_outcome.attempt_no
WHERE delivery_attempt.bucket = :bucket AND delivery_attempt.account_id = :account_id
ORDER BY delivery_attempt.message_id, delivery_attempt.attempt_no;

-- name: alerts
SELECT
    alert.alert_id,
    alert.kind,
    alert.summary,
    alert.raised_at,
    alert.acked_at,
    alert.acked_by
FROM pgbill.alert
WHERE alert.bucket = :bucket AND alert.account_id = :account_id
ORDER BY alert.alert_id;
