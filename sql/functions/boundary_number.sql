-- Which boundary of an anchor is the first one after a day.

CREATE OR REPLACE FUNCTION pgbill.boundary_number(
    p_anchor_on date, p_billing_interval text, p_after_on date
)
RETURNS integer
LANGUAGE plpgsql
IMMUTABLE
PARALLEL SAFE
AS $$
DECLARE
    v_months integer;
    v_number integer;
BEGIN
    IF p_billing_interval = 'weekly' THEN
        RETURN floor((p_after_on - p_anchor_on) / 7.0)::integer + 1;
    END IF;

    v_months := (extract(YEAR FROM p_after_on) - extract(YEAR FROM p_anchor_on)) * 12
        + extract(MONTH FROM p_after_on) - extract(MONTH FROM p_anchor_on);
    -- The last boundary that lies in the month of the day, or before it.
    v_number := floor(
        v_months::numeric
        / CASE p_billing_interval
            WHEN 'monthly' THEN 1
            WHEN 'quarterly' THEN 3
            WHEN 'half_yearly' THEN 6
            WHEN 'yearly' THEN 12
        END
    );

    RETURN CASE
        WHEN pgbill.boundary(p_anchor_on, p_billing_interval, v_number) > p_after_on
            THEN v_number
        ELSE v_number + 1
    END;
END;
$$;

COMMENT ON FUNCTION pgbill.boundary_number IS
'The number of intervals from the anchor to its first boundary after a day.';
