-- Whether the closing after a boundary has billed an advance fee that begins on a day. It
-- does so when the subscription came too late for the boundary; when the invoice of the
-- boundary is issued again, the fee is not to be billed a second time.

CREATE OR REPLACE FUNCTION pgbill.is_billed_by_next(
    p_bucket integer,
    p_account_id bigint,
    p_subscription_id bigint,
    p_price_id integer,
    p_boundary_on date,
    p_service_on date
)
RETURNS boolean
LANGUAGE plpgsql
STABLE
PARALLEL SAFE
AS $$
DECLARE
    v_next record;
BEGIN
    SELECT billing_period.period_end, billing_period.outcome INTO v_next
    FROM pgbill.billing_period
    WHERE billing_period.bucket = p_bucket
        AND billing_period.account_id = p_account_id
        AND billing_period.period_start = p_boundary_on
        AND billing_period.period_end > p_boundary_on;

    RETURN found AND pgbill.is_billed_in_advance(
        p_bucket, p_account_id, p_subscription_id, p_price_id, v_next.period_end,
        v_next.outcome <> 'invoiced', p_service_on
    );
END;
$$;

COMMENT ON FUNCTION pgbill.is_billed_by_next IS
'Whether the closing that follows on a boundary billed a price in advance from that day on.';
