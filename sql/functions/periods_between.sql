-- The periods of an interval that touch some days, such as the years around a month.

CREATE OR REPLACE FUNCTION pgbill.periods_between(
    p_anchor_on date, p_billing_interval text, p_from_on date, p_until_on date
)
RETURNS TABLE (whole_period daterange)
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
ROWS 2
AS $$
    SELECT
        daterange(
            pgbill.boundary(p_anchor_on, p_billing_interval, period.number - 1),
            pgbill.boundary(p_anchor_on, p_billing_interval, period.number)
        )
    FROM generate_series(
        pgbill.boundary_number(p_anchor_on, p_billing_interval, p_from_on - 1),
        pgbill.boundary_number(p_anchor_on, p_billing_interval, p_until_on - 1)
    ) AS period (number);
$$;

COMMENT ON FUNCTION pgbill.periods_between IS
'The periods of an anchor and interval from the one that holds the day before p_from_on to '
'the one that holds the day before p_until_on.';
