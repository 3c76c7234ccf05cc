-- The lines that say which usage records they bill, of the newest revision of each period's
-- invoice. A reissue bills the records of the invoice that it replaces, so only the newest
-- counts; if that one is cancelled, its records are billed by none.

CREATE OR REPLACE VIEW pgbill.usage_line AS
SELECT
    invoice_line.bucket,
    invoice_line.account_id,
    invoice_line.invoice_id,
    invoice_line.line_no,
    invoice_line.kind,
    invoice_line.meter_id,
    invoice_line.usage_from_at,
    invoice_line.usage_until_at,
    invoice_line.usage_after_seq,
    invoice_line.usage_through_seq,
    invoice_line.usage_count,
    invoice_line.quantity,
    invoice.period_end,
    invoice.revision,
    invoice_cancellation.revision IS NOT NULL AS is_cancelled
FROM pgbill.invoice_line
INNER JOIN pgbill.invoice
    ON
        invoice_line.bucket = invoice.bucket
        AND invoice_line.account_id = invoice.account_id
        AND invoice_line.invoice_id = invoice.invoice_id
LEFT JOIN pgbill.invoice_cancellation
    ON
        invoice.bucket = invoice_cancellation.bucket
        AND invoice.account_id = invoice_cancellation.account_id
        AND invoice.period_end = invoice_cancellation.period_end
        AND invoice.revision = invoice_cancellation.revision
WHERE invoice_line.kind IN ('usage', 'late_usage')
    AND invoice.kind = 'invoice'
    AND NOT EXISTS (
        SELECT
        FROM pgbill.invoice AS reissue
        WHERE reissue.bucket = invoice.bucket
            AND reissue.account_id = invoice.account_id
            AND reissue.period_end = invoice.period_end
            AND reissue.previous_revision = invoice.revision
    );

COMMENT ON VIEW pgbill.usage_line IS
'The lines that bill usage, of the newest revision of each invoice, each with the '
'records that it claims: of its meter, from usage_from_at until before '
'usage_until_at, imported after usage_after_seq and through usage_through_seq.';
COMMENT ON COLUMN pgbill.usage_line.is_cancelled IS
'Whether its invoice is cancelled and none has been issued in its place.';
