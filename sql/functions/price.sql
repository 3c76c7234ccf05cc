-- The amount of a line, from its rating input alone: what was issued can be computed again.
--
-- A rating input holds the terms of the price and the quantity that was measured; part and
-- whole, if the line is for a part of a period (written part_days and whole_days at first);
-- after_part, if it goes on where another line of the same whole ends; before, if an earlier
-- line has billed a part of the quantity; reached, if it makes up for what is missing to a
-- minimum; allowance, of a charge, what is taken off. It is multiplied before it is divided,
-- and rounded once.

CREATE OR REPLACE FUNCTION pgbill.price(p_rating_input jsonb)
RETURNS numeric
LANGUAGE plpgsql
IMMUTABLE
PARALLEL SAFE
AS $$
DECLARE
    v_digits integer := (p_rating_input ->> 'digits')::integer;
    v_rounding text := coalesce(p_rating_input ->> 'rounding', 'half_up');
    v_part numeric := coalesce(p_rating_input ->> 'part', p_rating_input ->> 'part_days')::numeric;
    v_after_part numeric := coalesce((p_rating_input ->> 'after_part')::numeric, 0);
    v_divisor numeric := coalesce(p_rating_input ->> 'whole', p_rating_input ->> 'whole_days', '1')::numeric
        * coalesce((p_rating_input ->> 'per_quantity')::numeric, 1);
    v_value numeric := pgbill.value_of(p_rating_input, p_rating_input);
    v_amount numeric;
BEGIN
    v_part := coalesce(v_part, 1);
    v_amount := pgbill.rounded(
        v_value * (v_after_part + v_part), v_divisor, v_digits, v_rounding
    );

    IF v_after_part <> 0 THEN
        -- The last part takes the remainder of the whole.
        v_amount := v_amount
            - pgbill.rounded(v_value * v_after_part, v_divisor, v_digits, v_rounding);
    END IF;

    IF p_rating_input ? 'before' THEN
        v_amount := v_amount - pgbill.rounded(
            pgbill.value_of(p_rating_input, p_rating_input -> 'before') * v_part,
            v_divisor, v_digits, v_rounding
        );
    END IF;

    RETURN CASE
        WHEN p_rating_input ? 'reached'
            THEN greatest(v_amount - (p_rating_input ->> 'reached')::numeric, 0)
        ELSE v_amount
    END;
END;
$$;

COMMENT ON FUNCTION pgbill.price IS
'The amount that a rating input gives; pure, so that an audit can compute issued '
'lines again. Null if the quantity is more than the last tier holds.';
