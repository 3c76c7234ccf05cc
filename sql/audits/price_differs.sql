-- Every line, priced again from what it was rated from.

CREATE OR REPLACE VIEW pgbill_audit.price_differs AS
SELECT
    invoice_line.bucket,
    invoice_line.account_id,
    invoice_line.invoice_id,
    invoice_line.line_no,
    invoice_line.net_amount,
    invoice_line.quantity,
    invoice_line.unit_amount,
    invoice_line.rating_input,
    pgbill.price(invoice_line.rating_input) AS expected_amount
FROM pgbill.invoice_line
WHERE pgbill.price(invoice_line.rating_input) - invoice_line.discount_amount
    IS DISTINCT FROM coalesce(invoice_line.tax_included_amount, invoice_line.net_amount)
    OR invoice_line.rating_input ->> 'quantity' IS NULL
    OR invoice_line.unit_amount
    IS DISTINCT FROM (invoice_line.rating_input ->> 'unit_amount')::numeric
    AND invoice_line.unit_amount IS NOT NULL
    OR invoice_line.quantity
    IS DISTINCT FROM (invoice_line.rating_input ->> 'quantity')::numeric
    - coalesce((invoice_line.rating_input #>> '{before,quantity}')::numeric, 0);

COMMENT ON VIEW pgbill_audit.price_differs IS
'Priced again from its rating input, a line has another amount than it was issued '
'with, or shows another quantity or unit amount than it was rated with.';
