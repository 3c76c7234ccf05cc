-- The lines that say which usage records they bill, of the newest revision of each period's
-- invoice, and of closings that issued none. A reissue bills the records of the invoice that
-- it replaces, so only the newest counts; if that one is cancelled, its records are billed by
-- none. Lines that were carried forward stand on a later invoice, and count there.

CREATE OR REPLACE VIEW pgbill.usage_line AS
SELECT
    invoice_line.bucket,
    invoice_line.account_id,
    invoice_line.invoice_id,
    invoice_line.line_no,
    invoice_line.kind,
    invoice_line.price_id,
    invoice_line.meter_id,
    invoice_line.group_value,
    invoice_line.usage_from_at,
    invoice_line.usage_until_at,
    invoice_line.usage_after_seq,
    invoice_line.usage_through_seq,
    invoice_line.usage_count,
    invoice_line.quantity,
    invoice_line.rating_input ? 'before' AS is_difference,
    invoice.period_end,
    invoice.revision,
    invoice_cancellation.revision IS NOT NULL AS is_cancelled,
    FALSE AS is_carried,
    price.group_by
FROM pgbill.invoice_line
INNER JOIN pgbill.invoice
    ON
        invoice_line.bucket = invoice.bucket
        AND invoice_line.account_id = invoice.account_id
        AND invoice_line.invoice_id = invoice.invoice_id
INNER JOIN pgbill.price ON invoice_line.price_id = price.price_id
LEFT JOIN pgbill.invoice_cancellation
    ON
        invoice.bucket = invoice_cancellation.bucket
        AND invoice.account_id = invoice_cancellation.account_id
        AND invoice.period_end = invoice_cancellation.period_end
        AND invoice.revision = invoice_cancellation.revision
WHERE invoice_line.kind IN ('usage', 'late_usage')
    AND invoice.period_end IS NOT NULL
    AND NOT EXISTS (
        SELECT
        FROM pgbill.invoice AS reissue
        WHERE reissue.bucket = invoice.bucket
            AND reissue.account_id = invoice.account_id
            AND reissue.period_end = invoice.period_end
            AND reissue.previous_revision = invoice.revision
    )
UNION ALL
SELECT
    carried_line.bucket,
    carried_line.account_id,
    NULL AS invoice_id,
    carried_line.line_no,
    line.kind,
    line.price_id,
    line.meter_id,
    line.group_value,
    line.usage_from_at,
    line.usage_until_at,
    line.usage_after_seq,
    line.usage_through_seq,
    line.usage_count,
    line.quantity,
    line.rating_input ? 'before' AS is_difference,
    carried_line.period_end,
    1 AS revision,
    FALSE AS is_cancelled,
    billing_period.outcome = 'carried_forward' AS is_carried,
    price.group_by
FROM pgbill.carried_line
INNER JOIN pgbill.billing_period
    ON
        carried_line.bucket = billing_period.bucket
        AND carried_line.account_id = billing_period.account_id
        AND carried_line.period_end = billing_period.period_end
CROSS JOIN LATERAL jsonb_populate_record(NULL::pgbill.invoice_line, carried_line.line) AS line
INNER JOIN pgbill.price ON line.price_id = price.price_id
WHERE line.kind IN ('usage', 'late_usage')
    AND (
        billing_period.outcome = 'nothing_to_bill'
        OR NOT EXISTS (
            SELECT
            FROM pgbill.billing_period AS later
            WHERE later.bucket = carried_line.bucket
                AND later.account_id = carried_line.account_id
                AND later.period_start = carried_line.period_end
                AND later.period_start < later.period_end
        )
    );

COMMENT ON VIEW pgbill.usage_line IS
'The lines that bill usage, of the newest revision of each invoice and of closings without '
'one, each with the records that it claims: of its meter and group, from usage_from_at until '
'before usage_until_at, imported after usage_after_seq and through usage_through_seq.';
COMMENT ON COLUMN pgbill.usage_line.invoice_id IS
'Null: the closing issued no invoice; its lines are zero, or is_carried.';
COMMENT ON COLUMN pgbill.usage_line.is_difference IS
'Whether the line bills what its records change in the quantity of all of the period.';
COMMENT ON COLUMN pgbill.usage_line.is_cancelled IS
'Whether its invoice is cancelled and none has been issued in its place.';
COMMENT ON COLUMN pgbill.usage_line.is_carried IS 'Whether it waits for the next invoice.';
COMMENT ON COLUMN pgbill.usage_line.group_by IS
'The dimension that its price groups by; then group_value, which may be null, is that of its '
'records. Null: it has them all.';
