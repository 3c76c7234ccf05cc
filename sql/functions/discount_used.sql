-- How much of a discount by amount earlier invoices have used for a billing period: less what
-- they, or the lines of this closing, have given back with unused advance fees.

CREATE OR REPLACE FUNCTION pgbill.discount_used(
    p_account pgbill.account,
    p_key text,
    p_boundary_number integer,
    p_lines pgbill.invoice_line[],
    p_digits integer
)
RETURNS numeric
LANGUAGE sql
STABLE
PARALLEL SAFE
AS $$
    WITH discounted AS (
        SELECT
            line.invoice_id,
            line.line_no,
            pgbill.discount_of(line.discounts, p_key) AS amount
        FROM pgbill.billed_line AS line
        WHERE line.bucket = p_account.bucket
            AND line.account_id = p_account.account_id
            AND line.discounts IS NOT NULL
            AND lower(line.service_period) >= pgbill.boundary(
                p_account.anchor_on, p_account.billing_interval, p_boundary_number - 1
            )
            AND lower(line.service_period) < pgbill.boundary(
                p_account.anchor_on, p_account.billing_interval, p_boundary_number
            )
    ),

    unused AS (
        SELECT line.credited_invoice_id, line.credited_line_no, line.rating_input
        FROM pgbill.billed_line AS line
        WHERE line.bucket = p_account.bucket
            AND line.account_id = p_account.account_id
            AND line.kind = 'unused_advance'
        UNION ALL
        SELECT line.credited_invoice_id, line.credited_line_no, line.rating_input
        FROM unnest(p_lines) AS line
        WHERE line.kind = 'unused_advance'
    )

    SELECT coalesce(sum(discounted.amount), 0) - coalesce(sum(given_back.amount), 0)
    FROM discounted
    LEFT JOIN LATERAL (
        SELECT
            sum(-pgbill.price(
                unused.rating_input || jsonb_build_object('unit_amount', discounted.amount)
            )) AS amount
        FROM unused
        WHERE discounted.amount <> 0
            AND discounted.invoice_id = unused.credited_invoice_id
            AND discounted.line_no = unused.credited_line_no
    ) AS given_back ON TRUE;
$$;

COMMENT ON FUNCTION pgbill.discount_used IS
'What was taken off, under the key of a discount, for service that begins in the billing '
'period that ends at a boundary, and was not given back with it.';
