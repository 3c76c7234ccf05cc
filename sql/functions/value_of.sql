-- What a measured quantity costs for a whole period, by the terms of a price: the models.
-- Not rounded, and not divided by per_quantity: the caller divides once.

CREATE OR REPLACE FUNCTION pgbill.value_of(p_terms jsonb, p_measure jsonb)
RETURNS numeric
LANGUAGE plpgsql
IMMUTABLE
PARALLEL SAFE
AS $$
DECLARE
    v_model text := p_terms ->> 'model';
    v_quantity numeric := (p_measure ->> 'quantity')::numeric;
    v_unit_amount numeric := (p_terms ->> 'unit_amount')::numeric;
BEGIN
    IF p_terms ? 'free_quantity' THEN
        v_quantity := greatest(v_quantity - (p_terms ->> 'free_quantity')::numeric, 0);
    END IF;

    IF p_terms ? 'package_size' THEN
        -- Rounded up: exactly, which a quotient is not.
        v_quantity := div(v_quantity, (p_terms ->> 'package_size')::numeric)
            + sign(mod(v_quantity, (p_terms ->> 'package_size')::numeric));
    END IF;

    RETURN CASE
        WHEN v_model = 'percentage'
            THEN v_unit_amount * (p_measure ->> 'charged_amount')::numeric
            + coalesce((p_terms ->> 'fixed_amount')::numeric, 0)
            * (p_measure ->> 'charged_count')::numeric
            + coalesce((p_terms ->> 'record_minimum')::numeric, 0)
            * (p_measure ->> 'minimum_count')::numeric
            + coalesce((p_terms ->> 'record_maximum')::numeric, 0)
            * (p_measure ->> 'maximum_count')::numeric
        WHEN p_terms ? 'tiers'
            THEN pgbill.tiered(
                v_quantity,
                p_terms -> 'tiers',
                v_model IN ('volume', 'stairstep'),
                coalesce((p_terms ->> 'bills_zero')::boolean, FALSE)
            )
        ELSE v_quantity * v_unit_amount
    END;
END;
$$;

COMMENT ON FUNCTION pgbill.value_of IS
'What a measured quantity costs by the terms of a price, before any rounding; null if it '
'is more than the last tier holds.';
