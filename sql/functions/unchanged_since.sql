-- Since when a subscription has a price in a quantity, over segments that follow one another
-- without a change.

CREATE OR REPLACE FUNCTION pgbill.unchanged_since(
    p_bucket integer,
    p_account_id bigint,
    p_subscription_id bigint,
    p_price_id integer,
    p_quantity numeric,
    p_on date
)
RETURNS date
LANGUAGE sql
STABLE
PARALLEL SAFE
AS $$
    SELECT max(lower(segment.active_period))
    FROM pgbill.subscription_price AS segment
    WHERE segment.bucket = p_bucket
        AND segment.account_id = p_account_id
        AND segment.subscription_id = p_subscription_id
        AND segment.price_id = p_price_id
        AND segment.quantity = p_quantity
        AND lower(segment.active_period) <= p_on
        AND NOT EXISTS (
            SELECT
            FROM pgbill.subscription_price AS earlier
            WHERE earlier.bucket = p_bucket
                AND earlier.account_id = p_account_id
                AND earlier.subscription_id = p_subscription_id
                AND earlier.price_id = p_price_id
                AND earlier.quantity = p_quantity
                AND upper(earlier.active_period) = lower(segment.active_period)
        );
$$;

COMMENT ON FUNCTION pgbill.unchanged_since IS
'The day from which on, up to another, a subscription has a price in a quantity; null if it '
'has not.';
