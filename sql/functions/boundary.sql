-- Where billing periods begin and end: always counted from the anchor, so that a month
-- with fewer days never shortens the months after it.

CREATE OR REPLACE FUNCTION pgbill.boundary(
    p_anchor_on date, p_billing_interval text, p_number integer
)
RETURNS date
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN (
    p_anchor_on
    + p_number
    * CASE p_billing_interval
        WHEN 'weekly' THEN interval '7 days'
        WHEN 'monthly' THEN interval '1 month'
        WHEN 'quarterly' THEN interval '3 months'
        WHEN 'half_yearly' THEN interval '6 months'
        WHEN 'yearly' THEN interval '1 year'
    END
)::date;

COMMENT ON FUNCTION pgbill.boundary IS
'The anchor plus so many intervals, clamped to the end of the month (31 January, 28 '
'February, 31 March).';
