-- How much of its price's periods a service period is, where other parts go before it without
-- a change: what all of them are, less what those before are. So parts that fill a period sum
-- to one by every policy of proration, and the last takes the remainder.

CREATE OR REPLACE FUNCTION pgbill.share_after(
    -- Where the first of the parts begins; the first day of the service period: there is none.
    p_from_on date,
    p_service_period daterange,
    p_anchor_on date,
    p_billing_interval text,
    p_proration text,
    p_zone text,
    OUT part numeric,
    OUT whole numeric,
    OUT after_part numeric
)
LANGUAGE plpgsql
STABLE
PARALLEL SAFE
AS $$
DECLARE
    v_all record;
    v_before record;
BEGIN
    v_all := pgbill.share(
        daterange(p_from_on, upper(p_service_period)), p_anchor_on, p_billing_interval,
        p_proration, p_zone
    );
    part := v_all.part;
    whole := v_all.whole;

    IF p_from_on < lower(p_service_period) THEN
        v_before := pgbill.share(
            daterange(p_from_on, lower(p_service_period)), p_anchor_on, p_billing_interval,
            p_proration, p_zone
        );

        IF v_before.whole = whole THEN
            after_part := v_before.part;
        ELSE
            after_part := v_before.part * whole;
            part := part * v_before.whole;
            whole := whole * v_before.whole;
        END IF;

        part := part - after_part;
    END IF;
END;
$$;

COMMENT ON FUNCTION pgbill.share_after IS
'How many periods of an interval a service period is: part ÷ whole; and after_part ÷ whole, '
'how many the parts before it are, null if there are none.';
