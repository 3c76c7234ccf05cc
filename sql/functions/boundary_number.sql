-- Which boundary of an anchor is the first one after a day.

CREATE OR REPLACE FUNCTION pgbill.boundary_number(p_anchor_on date, p_after_on date)
RETURNS integer
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN (
    (extract(YEAR FROM p_after_on) - extract(YEAR FROM p_anchor_on)) * 12
    + extract(MONTH FROM p_after_on) - extract(MONTH FROM p_anchor_on)
)::integer
+ CASE
    WHEN (
        p_anchor_on
        + (
            (extract(YEAR FROM p_after_on) - extract(YEAR FROM p_anchor_on)) * 12
            + extract(MONTH FROM p_after_on) - extract(MONTH FROM p_anchor_on)
        )::integer * interval '1 month'
    )::date > p_after_on THEN 0
    ELSE 1
END;

COMMENT ON FUNCTION pgbill.boundary_number IS
'The number of months from the anchor to its first boundary after a day.';
