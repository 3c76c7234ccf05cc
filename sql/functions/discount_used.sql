-- How much of a discount by amount earlier invoices have used for a billing period.

CREATE OR REPLACE FUNCTION pgbill.discount_used(
    p_account pgbill.account, p_key text, p_boundary_number integer
)
RETURNS numeric
LANGUAGE sql
STABLE
PARALLEL SAFE
AS $$
    SELECT coalesce(sum((discount.content ->> 'amount')::numeric), 0)
    FROM pgbill.billed_line AS line
    CROSS JOIN LATERAL jsonb_array_elements(line.discounts) AS discount (content)
    WHERE line.bucket = p_account.bucket
        AND line.account_id = p_account.account_id
        AND line.discounts IS NOT NULL
        AND discount.content ->> 'key' = p_key
        AND lower(line.service_period) >= pgbill.boundary(
            p_account.anchor_on, p_account.billing_interval, p_boundary_number - 1
        )
        AND lower(line.service_period) < pgbill.boundary(
            p_account.anchor_on, p_account.billing_interval, p_boundary_number
        );
$$;

COMMENT ON FUNCTION pgbill.discount_used IS
'What was taken off, under the key of a discount, for service that begins in the billing '
'period that ends at a boundary.';
