-- How much of its price's periods a service period is, as a fraction: a whole period counts
-- one, whatever its length; a part counts by the policy of proration, and never more than the
-- whole (364 days of 360 are). Nothing is divided here, so that the amount can be multiplied
-- first.

CREATE OR REPLACE FUNCTION pgbill.share(
    p_service_period daterange,
    p_anchor_on date,
    p_billing_interval text,
    p_proration text,
    p_zone text,
    OUT part numeric,
    OUT whole numeric
)
LANGUAGE plpgsql
STABLE
PARALLEL SAFE
AS $$
DECLARE
    v_number integer := pgbill.boundary_number(
        p_anchor_on, p_billing_interval, lower(p_service_period)
    );
    v_period daterange;
    v_service daterange;
    v_of_period record;
BEGIN
    part := 0;
    whole := 1;

    LOOP
        v_period := daterange(
            pgbill.boundary(p_anchor_on, p_billing_interval, v_number - 1),
            pgbill.boundary(p_anchor_on, p_billing_interval, v_number)
        );
        v_service := p_service_period * v_period;

        IF v_service = v_period THEN
            part := part + whole;
        ELSIF NOT isempty(v_service) THEN
            v_of_period := pgbill.proration(
                v_service, v_period, p_billing_interval, p_proration, p_zone
            );
            part := part * v_of_period.whole
                + least(v_of_period.part, v_of_period.whole) * whole;
            whole := whole * v_of_period.whole;
        END IF;

        EXIT WHEN upper(v_period) >= upper(p_service_period);
        v_number := v_number + 1;
    END LOOP;
END;
$$;

COMMENT ON FUNCTION pgbill.share IS
'How many periods of an interval a service period is: part ÷ whole, both whole numbers.';
