-- When an invoice is to be paid by.

CREATE OR REPLACE FUNCTION pgbill.payable_on(
    p_issued_on date, p_net_days integer, p_end_of_month boolean
)
RETURNS date
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN CASE
    WHEN p_end_of_month
        THEN (
            date_trunc('month', (p_issued_on + p_net_days)::timestamp) + interval '1 month - 1 day'
        )::date
    ELSE p_issued_on + p_net_days
END;

COMMENT ON FUNCTION pgbill.payable_on IS
'Issue date plus net days, moved to the end of that month where the terms say so.';
