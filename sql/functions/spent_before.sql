-- What a subscription was billed before for service that begins in some days, and what its
-- own limits have made of that: on the newest revision of each invoice that is not cancelled,
-- or on lines that wait for one.

CREATE OR REPLACE FUNCTION pgbill.spent_before(
    p_bucket integer,
    p_account_id bigint,
    p_subscription_id bigint,
    p_service_period daterange,
    OUT spent numeric,
    OUT added numeric,
    OUT taken_off numeric
)
LANGUAGE sql
STABLE
PARALLEL SAFE
AS $$
    SELECT
        coalesce(
            sum(
                line.full_amount
                - pgbill.discount_of(line.discounts, 'minimum')
                - pgbill.discount_of(line.discounts, 'maximum')
            ) FILTER (WHERE NOT line.is_limit),
            0
        ),
        coalesce(sum(line.full_amount) FILTER (WHERE line.is_limit), 0)
        - coalesce(sum(pgbill.discount_of(line.discounts, 'subscription_minimum')), 0),
        coalesce(sum(pgbill.discount_of(line.discounts, 'subscription_maximum')), 0)
    FROM (
        SELECT
            coalesce(billed_line.tax_included_amount, billed_line.net_amount)
            + billed_line.discount_amount AS full_amount,
            billed_line.discounts,
            price.model = 'minimum' AS is_limit
        FROM pgbill.billed_line
        INNER JOIN pgbill.price ON billed_line.price_id = price.price_id
        WHERE billed_line.bucket = p_bucket
            AND billed_line.account_id = p_account_id
            AND billed_line.subscription_id = p_subscription_id
            AND lower(billed_line.service_period) <@ p_service_period
    ) AS line;
$$;

COMMENT ON FUNCTION pgbill.spent_before IS
'What lines of a subscription were billed for service that begins in these days, within the '
'limits of prices and before discounts; and what the minimum of the subscription has added '
'to it, and its maximum taken off.';
