-- How much of an amount is earned by a day: by days of service, each earned when it is over.

CREATE OR REPLACE FUNCTION pgbill.earned_amount(
    p_amount numeric, p_service_period daterange, p_until_on date, p_digits integer
)
RETURNS numeric
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN CASE
    WHEN upper(p_service_period) <= p_until_on THEN p_amount
    WHEN lower(p_service_period) >= p_until_on THEN 0
    ELSE round(
        p_amount * (p_until_on - lower(p_service_period))
        / (upper(p_service_period) - lower(p_service_period)),
        p_digits
    )
END;

COMMENT ON FUNCTION pgbill.earned_amount IS
'The part of an amount for service before a day, by days.';
