-- P1: a closing says invoiced exactly if there is its invoice, for the same days.

CREATE OR REPLACE VIEW pgbill_audit.p1_period_and_invoice_differ AS
SELECT
    billing_period.bucket,
    billing_period.account_id,
    billing_period.period_end,
    billing_period.outcome,
    billing_period.period_start AS closed_from,
    invoice.invoice_id,
    invoice.period_start AS invoiced_from
FROM pgbill.billing_period
LEFT JOIN pgbill.invoice
    ON
        billing_period.bucket = invoice.bucket
        AND billing_period.account_id = invoice.account_id
        AND billing_period.period_end = invoice.period_end
WHERE (billing_period.outcome = 'invoiced') <> (invoice.invoice_id IS NOT NULL)
    OR billing_period.period_start <> invoice.period_start
UNION ALL
SELECT
    invoice.bucket,
    invoice.account_id,
    invoice.period_end,
    NULL AS outcome,
    NULL AS closed_from,
    invoice.invoice_id,
    invoice.period_start AS invoiced_from
FROM pgbill.invoice
LEFT JOIN pgbill.billing_period
    ON
        invoice.bucket = billing_period.bucket
        AND invoice.account_id = billing_period.account_id
        AND invoice.period_end = billing_period.period_end
WHERE invoice.period_end IS NOT NULL AND billing_period.bucket IS NULL;

COMMENT ON VIEW pgbill_audit.p1_period_and_invoice_differ IS
'A closed period says invoiced and has no invoice, or has one although it says '
'nothing_to_bill, or an invoice is for days that were not closed with it.';
