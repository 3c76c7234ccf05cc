-- What a subscription was billed before for service that begins in some days: on the newest
-- revision of each invoice that is not cancelled, or on lines that wait for one.

CREATE OR REPLACE FUNCTION pgbill.spent_before(
    p_bucket integer, p_account_id bigint, p_subscription_id bigint, p_service_period daterange
)
RETURNS numeric
LANGUAGE sql
STABLE
PARALLEL SAFE
AS $$
    SELECT coalesce(sum(
        coalesce(line.tax_included_amount, line.net_amount) + line.discount_amount
        - coalesce(
            (
                SELECT sum((discount.content ->> 'amount')::numeric)
                FROM jsonb_array_elements(line.discounts) AS discount (content)
                WHERE discount.content ->> 'key' IN ('minimum', 'maximum')
            ),
            0
        )
    ), 0)
    FROM pgbill.billed_line AS line
    WHERE line.bucket = p_bucket
        AND line.account_id = p_account_id
        AND line.subscription_id = p_subscription_id
        AND lower(line.service_period) <@ p_service_period;
$$;

COMMENT ON FUNCTION pgbill.spent_before IS
'The amount, before discounts, that lines of a subscription were billed for service that '
'begins in these days.';
