-- The amount of a line. Multiplied before it is divided, and rounded once, half away from
-- zero, on the exact quotient: numeric division keeps only some sixteen digits, too few to
-- tell 0.5 from 0.49999… in a large amount.

CREATE OR REPLACE FUNCTION pgbill.price_of(
    p_quantity numeric,
    p_unit_amount numeric,
    p_part_days integer,
    p_whole_days integer,
    p_digits integer
)
RETURNS numeric
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN CASE
    WHEN p_whole_days <> p_part_days
        THEN round(
            div(
                2 * p_quantity * p_unit_amount * p_part_days * 10 ^ p_digits::numeric
                + p_whole_days,
                2::numeric * p_whole_days
            ) / 10 ^ p_digits::numeric,
            p_digits
        )
    ELSE round(p_quantity * p_unit_amount, p_digits)
END;

COMMENT ON FUNCTION pgbill.price_of IS
'Quantity × unit amount × days of the part ÷ days of the whole, rounded once to so '
'many digits.';
