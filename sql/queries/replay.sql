-- What the replay of the incident asks of pgbill's tables, while it runs and afterwards.

-- name: due
-- The accounts to be billed, the largest first: most usage records.
SELECT account.key
FROM pgbill.lease
INNER JOIN pgbill.account USING (bucket, account_id)
WHERE lease.due_on <= :through_on::date + 1 AND lease.parked_at IS NULL
ORDER BY
    (
        SELECT count(*)
        FROM pgbill.usage_record
        WHERE usage_record.bucket = lease.bucket AND usage_record.account_id = lease.account_id
    ) DESC,
    account.key;

-- name: held
SELECT
    account.key AS account,
    substring(lease.holder FROM '[0-9]+$')::integer AS pid,
    lease.fencing_token::text AS claim,
    lease.expires_at
FROM pgbill.lease
INNER JOIN pgbill.account USING (bucket, account_id)
WHERE lease.worker_id IS NOT NULL
    AND split_part(lease.holder, ':', 1) = :host
    AND lease.expires_at > clock_timestamp();

-- name: events
SELECT
    account.key AS account,
    lease_event.occurred_at AS at,
    CASE
        WHEN lease_event.outcome = 'invoiced' THEN 'invoiced'
        ELSE lease_event.kind
    END AS kind,
    lease_event.fencing_token::text AS claim,
    lease_event.holder,
    lease_event.detail
FROM pgbill.lease_event
INNER JOIN pgbill.account USING (bucket, account_id)
WHERE lease_event.run_id = :run_id AND lease_event.holder IS NOT NULL
ORDER BY lease_event.occurred_at, lease_event.lease_event_id;

-- name: invoices
SELECT account.key
FROM pgbill.invoice
INNER JOIN pgbill.account USING (bucket, account_id)
WHERE invoice.run_id = :run_id
ORDER BY account.key;

-- name: mails
SELECT count(*) AS how_many
FROM pgbill.delivery_outcome
INNER JOIN pgbill.outbox_message USING (bucket, account_id, message_id)
INNER JOIN pgbill.invoice USING (bucket, account_id, invoice_id)
WHERE delivery_outcome.outcome = 'accepted' AND invoice.run_id = :run_id;

-- name: alerts
SELECT count(*) AS how_many
FROM (
    SELECT DISTINCT
        alert.bucket,
        alert.incident
    FROM pgbill.alert
    WHERE alert.raised_at >= (
        SELECT billing_run.started_at
        FROM pgbill.billing_run
        WHERE billing_run.run_id = :run_id
    )
) AS mishap;

-- name: clock
SELECT clock_timestamp() AS now;

-- name: lost_claims
SELECT DISTINCT
    lease_event.bucket,
    lease_event.account_id,
    lease_event.fencing_token
FROM pgbill.lease_event
WHERE lease_event.run_id = :run_id AND lease_event.kind = 'expired'
ORDER BY lease_event.fencing_token
LIMIT 1000;

-- name: write_late
-- What a worker that has lost its claim would still write: another line of the invoice.
INSERT INTO pgbill.invoice_line (
    bucket, account_id, invoice_id, line_no, kind, description, quantity, unit_code,
    unit_amount, net_amount, tax_category, tax_rate, service_period, rating_input,
    fencing_token
)
SELECT
    invoice.bucket,
    invoice.account_id,
    invoice.invoice_id,
    10000,
    'arrears',
    'written late',
    1,
    'C62',
    0,
    0,
    'S',
    0,
    daterange(invoice.period_start, invoice.period_end),
    '{}',
    :token
FROM pgbill.invoice
WHERE invoice.bucket = :bucket
    AND invoice.account_id = :account_id
    AND invoice.run_id = :run_id;
