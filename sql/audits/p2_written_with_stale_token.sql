-- P2: a worker whose lease another has claimed writes nothing.
--
-- Told without clocks where it can be: if a later claim was for the same period, that period
-- was still open then, so what carries the older token was written afterwards. Documents
-- that close no period (credit notes, reissues) are told by time.

CREATE OR REPLACE VIEW pgbill_audit.p2_written_with_stale_token AS
WITH written AS (
    SELECT
        'billing_period' AS written_to,
        billing_period.bucket,
        billing_period.account_id,
        billing_period.period_end,
        NULL::bigint AS invoice_id,
        billing_period.fencing_token,
        billing_period.period_end AS closing_on,
        NULL::timestamptz AS written_at
    FROM pgbill.billing_period
    UNION ALL
    SELECT
        'invoice',
        invoice.bucket,
        invoice.account_id,
        invoice.period_end,
        invoice.invoice_id,
        invoice.fencing_token,
        CASE WHEN invoice.revision = 1 THEN invoice.period_end END,
        CASE
            WHEN invoice.revision > 1 OR invoice.period_end IS NULL
                THEN invoice_number.issued_at
        END
    FROM pgbill.invoice
    LEFT JOIN pgbill.invoice_number
        ON
            invoice.bucket = invoice_number.bucket
            AND invoice.account_id = invoice_number.account_id
            AND invoice.invoice_id = invoice_number.invoice_id
            AND invoice.series_id = invoice_number.series_id
    UNION ALL
    SELECT
        'invoice_cancellation',
        invoice_cancellation.bucket,
        invoice_cancellation.account_id,
        invoice_cancellation.period_end,
        invoice_cancellation.credit_note_id,
        invoice_cancellation.fencing_token,
        NULL,
        invoice_cancellation.cancelled_at
    FROM pgbill.invoice_cancellation
),

claimed AS (
    SELECT
        lease_event.bucket,
        lease_event.account_id,
        lease_event.due_on,
        lease_event.fencing_token,
        lease_event.occurred_at
    FROM pgbill.lease_event
    WHERE lease_event.kind = 'claimed'
)

SELECT
    written.bucket,
    written.account_id,
    written.written_to,
    written.period_end,
    written.invoice_id,
    written.fencing_token,
    'the token was never claimed' AS problem
FROM written
LEFT JOIN claimed
    ON
        written.bucket = claimed.bucket
        AND written.account_id = claimed.account_id
        AND written.fencing_token = claimed.fencing_token
WHERE claimed.bucket IS NULL
UNION ALL
SELECT
    written.bucket,
    written.account_id,
    written.written_to,
    written.period_end,
    written.invoice_id,
    written.fencing_token,
    format('token %s had been claimed for it before', max(claimed.fencing_token))
FROM written
INNER JOIN claimed
    ON
        written.bucket = claimed.bucket
        AND written.account_id = claimed.account_id
        AND written.closing_on = claimed.due_on
WHERE claimed.fencing_token > written.fencing_token
GROUP BY
    written.bucket, written.account_id, written.written_to, written.period_end,
    written.invoice_id, written.fencing_token
UNION ALL
SELECT
    written.bucket,
    written.account_id,
    written.written_to,
    written.period_end,
    written.invoice_id,
    written.fencing_token,
    format('token %s had been claimed before', max(claimed.fencing_token))
FROM written
INNER JOIN claimed
    ON written.bucket = claimed.bucket AND written.account_id = claimed.account_id
WHERE written.written_at IS NOT NULL
    AND claimed.fencing_token > written.fencing_token
    AND claimed.occurred_at < written.written_at
GROUP BY
    written.bucket, written.account_id, written.written_to, written.period_end,
    written.invoice_id, written.fencing_token;

COMMENT ON VIEW pgbill_audit.p2_written_with_stale_token IS
'A closing, an invoice or a cancellation carries a fencing token that nobody had '
'claimed, or that another claim had replaced when it was written: a worker wrote '
'after it had lost its lease.';
