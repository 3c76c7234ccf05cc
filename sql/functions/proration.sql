-- How a part of a period is measured. Worked ratios of each policy, from a public document,
-- are in tests/cases.
--
-- actual: days ÷ days of the period. second: the same with seconds, so that a day of 23
-- hours counts less. actual_30: days ÷ 30 for each month of the period. 30_360: months of
-- 30 days, in which day 31 counts as 30, on half-open dates.

CREATE OR REPLACE FUNCTION pgbill.proration(
    p_service_period daterange,
    p_whole_period daterange,
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
    -- A week has no months: it counts by its days.
    v_days_30 integer := CASE p_billing_interval
        WHEN 'weekly' THEN 7
        WHEN 'monthly' THEN 30
        WHEN 'quarterly' THEN 90
        WHEN 'half_yearly' THEN 180
        WHEN 'yearly' THEN 360
    END;
    v_from date := lower(p_service_period);
    v_until date := upper(p_service_period);
BEGIN
    CASE
        WHEN p_proration = 'second' THEN
            part := extract(
                EPOCH FROM pgbill.local_midnight(v_until, p_zone) - pgbill.local_midnight(v_from, p_zone)
            );
            whole := extract(
                EPOCH FROM pgbill.local_midnight(upper(p_whole_period), p_zone)
                - pgbill.local_midnight(lower(p_whole_period), p_zone)
            );
        WHEN p_proration = 'actual_30' THEN
            part := v_until - v_from;
            whole := v_days_30;
        WHEN p_proration = '30_360' AND p_billing_interval <> 'weekly' THEN
            part := 360 * (extract(YEAR FROM v_until) - extract(YEAR FROM v_from))
                + 30 * (extract(MONTH FROM v_until) - extract(MONTH FROM v_from))
                + least(extract(DAY FROM v_until), 30) - least(extract(DAY FROM v_from), 30);
            whole := v_days_30;
        ELSE
            part := v_until - v_from;
            whole := upper(p_whole_period) - lower(p_whole_period);
    END CASE;
END;
$$;

COMMENT ON FUNCTION pgbill.proration IS
'How much of a period a part of it is, by a policy of proration: part ÷ whole.';
