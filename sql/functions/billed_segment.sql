-- Which segment of a subscription's price an advance fee was billed for. Mostly the one that
-- holds the first day of its service; but where a segment was ended later, back to that very
-- day, the fee was for the one that ends there: the quantity tells.

CREATE OR REPLACE FUNCTION pgbill.billed_segment(
    p_bucket integer,
    p_account_id bigint,
    p_subscription_id bigint,
    p_price_id integer,
    p_service_on date,
    p_quantity numeric
)
RETURNS daterange
LANGUAGE plpgsql
STABLE
PARALLEL SAFE
AS $$
BEGIN
    RETURN (
        SELECT segment.active_period
        FROM pgbill.subscription_price AS segment
        CROSS JOIN LATERAL (
            SELECT segment.active_period @> p_service_on AS is_current
        ) AS told
        WHERE segment.bucket = p_bucket
            AND segment.account_id = p_account_id
            AND segment.subscription_id = p_subscription_id
            AND segment.price_id = p_price_id
            AND segment.starts_on <= p_service_on
        ORDER BY
            segment.quantity = p_quantity
            AND (told.is_current OR upper(segment.active_period) = p_service_on) DESC,
            told.is_current DESC,
            segment.starts_on DESC
        LIMIT 1
    );
END;
$$;

COMMENT ON FUNCTION pgbill.billed_segment IS
'The active period of the segment for which a line in advance, that begins on a day with a '
'quantity, was billed; null: none has begun by then.';
