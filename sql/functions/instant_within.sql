-- When a bound of an active period takes effect within a billing period. The instants of the
-- period itself are kept, since the account's zone may have changed since.

CREATE OR REPLACE FUNCTION pgbill.instant_within(
    p_on date,
    p_zone text,
    p_period_start date,
    p_period_end date,
    p_from_at timestamptz,
    p_until_at timestamptz
)
RETURNS timestamptz
LANGUAGE sql
STABLE
PARALLEL SAFE
RETURN CASE
    WHEN p_on <= p_period_start THEN p_from_at
    WHEN p_on < p_period_end
        THEN least(greatest(pgbill.local_midnight(p_on, p_zone), p_from_at), p_until_at)
    -- Null, too: a bound that is not there.
    ELSE p_until_at
END;

COMMENT ON FUNCTION pgbill.instant_within IS
'The midnight at which a day begins, or the end of the billing period that it lies beyond.';
