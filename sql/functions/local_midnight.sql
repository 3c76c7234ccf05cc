-- When a day begins in a zone. Where daylight saving skips midnight, PostgreSQL takes the
-- first instant of the day.

CREATE OR REPLACE FUNCTION pgbill.local_midnight(p_on date, p_zone text)
RETURNS timestamptz
LANGUAGE sql
STABLE
PARALLEL SAFE
RETURN p_on::timestamp AT TIME ZONE p_zone;

COMMENT ON FUNCTION pgbill.local_midnight IS
'The instant at which a day begins in an IANA time zone.';
