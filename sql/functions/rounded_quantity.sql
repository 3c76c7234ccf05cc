-- A measured quantity, by the rounding rule of its meter.

CREATE OR REPLACE FUNCTION pgbill.rounded_quantity(
    p_quantity numeric, p_digits integer, p_rounding text
)
RETURNS numeric
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN CASE
    WHEN p_digits IS NULL THEN p_quantity
    ELSE pgbill.rounded(p_quantity, 1, p_digits, p_rounding)
END;

COMMENT ON FUNCTION pgbill.rounded_quantity IS
'A quantity to so many digits; as it is if these are null.';
