-- On which day of a zone something happened. A day is what lies between its midnight and the
-- next, also where a clock that is set back at midnight shows the first hour twice.

CREATE OR REPLACE FUNCTION pgbill.local_day(p_at timestamptz, p_zone text)
RETURNS date
LANGUAGE sql
STABLE
PARALLEL SAFE
RETURN (p_at AT TIME ZONE p_zone)::date
+ CASE
    WHEN p_at < pgbill.local_midnight((p_at AT TIME ZONE p_zone)::date, p_zone) THEN -1
    WHEN p_at >= pgbill.local_midnight((p_at AT TIME ZONE p_zone)::date + 1, p_zone) THEN 1
    ELSE 0
END;

COMMENT ON FUNCTION pgbill.local_day IS
'The day of an IANA time zone, from its midnight to the next, to which a time belongs.';
