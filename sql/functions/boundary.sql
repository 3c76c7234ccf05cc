-- Where billing periods begin and end: always counted from the anchor, so that a month
-- with fewer days never shortens the months after it.

CREATE OR REPLACE FUNCTION pgbill.boundary(p_anchor_on date, p_number integer)
RETURNS date
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN (p_anchor_on + p_number * interval '1 month')::date;

COMMENT ON FUNCTION pgbill.boundary IS
'The anchor plus so many months, clamped to the end of the month (31 January, 28 '
'February, 31 March).';
