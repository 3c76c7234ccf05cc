-- The lines that hold: of the newest revision of each invoice that is not cancelled, and of
-- closings that kept theirs for the next invoice.

CREATE OR REPLACE VIEW pgbill.billed_line AS
SELECT
    invoice_line.bucket,
    invoice_line.account_id,
    invoice.period_end,
    invoice_line.invoice_id,
    invoice_line.line_no,
    invoice_line.kind,
    invoice_line.subscription_id,
    invoice_line.price_id,
    invoice_line.charge_id,
    invoice_line.service_period,
    invoice_line.net_amount,
    invoice_line.tax_included_amount,
    invoice_line.discount_amount,
    invoice_line.discounts,
    invoice_line.rating_input,
    invoice_line.credited_invoice_id,
    invoice_line.credited_line_no
FROM pgbill.invoice_line
INNER JOIN pgbill.invoice
    ON
        invoice_line.bucket = invoice.bucket
        AND invoice_line.account_id = invoice.account_id
        AND invoice_line.invoice_id = invoice.invoice_id
WHERE invoice.period_end IS NOT NULL
    AND NOT EXISTS (
        SELECT
        FROM pgbill.invoice_cancellation
        WHERE invoice_cancellation.bucket = invoice.bucket
            AND invoice_cancellation.account_id = invoice.account_id
            AND invoice_cancellation.period_end = invoice.period_end
            AND invoice_cancellation.revision = invoice.revision
    )
UNION ALL
SELECT
    carried_line.bucket,
    carried_line.account_id,
    carried_line.period_end,
    NULL AS invoice_id,
    carried_line.line_no,
    line.kind,
    line.subscription_id,
    line.price_id,
    line.charge_id,
    line.service_period,
    line.net_amount,
    line.tax_included_amount,
    line.discount_amount,
    line.discounts,
    line.rating_input,
    line.credited_invoice_id,
    line.credited_line_no
FROM pgbill.carried_line
INNER JOIN pgbill.billing_period
    ON
        carried_line.bucket = billing_period.bucket
        AND carried_line.account_id = billing_period.account_id
        AND carried_line.period_end = billing_period.period_end
CROSS JOIN LATERAL jsonb_populate_record(NULL::pgbill.invoice_line, carried_line.line) AS line
-- What was carried forward stands on the next invoice, or on the lines that wait since.
WHERE billing_period.outcome = 'nothing_to_bill'
    OR NOT EXISTS (
        SELECT
        FROM pgbill.billing_period AS later
        WHERE later.bucket = carried_line.bucket
            AND later.account_id = carried_line.account_id
            AND later.period_start = carried_line.period_end
            AND later.period_start < later.period_end
    );

COMMENT ON VIEW pgbill.billed_line IS
'The lines that hold: those of invoices that are not cancelled, and those that a closing '
'without invoice has kept.';
COMMENT ON COLUMN pgbill.billed_line.invoice_id IS 'Null: the line waits, or is zero.';
COMMENT ON COLUMN pgbill.billed_line.credited_invoice_id IS
'The invoice whose advance fee the line gives back, or null.';
