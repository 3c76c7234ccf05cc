-- The amount of a line, from its rating input alone: what was issued can be computed again.
--
-- Multiplied before it is divided, and rounded once, half away from zero, on the exact
-- quotient: numeric division keeps only some sixteen digits, too few to tell 0.5 from
-- 0.49999… in a large amount.

CREATE OR REPLACE FUNCTION pgbill.price(p_rating_input jsonb)
RETURNS numeric
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN CASE
    WHEN p_rating_input ? 'whole_days'
        THEN round(
            div(
                2 * (p_rating_input ->> 'quantity')::numeric
                * (p_rating_input ->> 'unit_amount')::numeric
                * (p_rating_input ->> 'part_days')::numeric
                * 10 ^ (p_rating_input ->> 'digits')::numeric
                + (p_rating_input ->> 'whole_days')::numeric,
                2 * (p_rating_input ->> 'whole_days')::numeric
            ) / 10 ^ (p_rating_input ->> 'digits')::numeric,
            (p_rating_input ->> 'digits')::integer
        )
    ELSE round(
        (p_rating_input ->> 'quantity')::numeric * (p_rating_input ->> 'unit_amount')::numeric,
        (p_rating_input ->> 'digits')::integer
    )
END;

COMMENT ON FUNCTION pgbill.price IS
'Quantity × unit amount × days of the part ÷ days of the whole, rounded once to the currency.';
