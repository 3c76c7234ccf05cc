-- What a quantity costs by tiers. A tier holds the quantities from where the one before ends,
-- up to and with its up_to.
--
-- graduated: what lies in a tier costs its unit amount; its flat amount is added once
-- something does. volume: the tier that holds the quantity prices all of it.

CREATE OR REPLACE FUNCTION pgbill.tiered(
    p_quantity numeric, p_tiers jsonb, p_is_volume boolean, p_bills_zero boolean
)
RETURNS numeric
LANGUAGE plpgsql
IMMUTABLE
PARALLEL SAFE
AS $$
DECLARE
    v_tier jsonb;
    v_up_to numeric;
    v_amount numeric := 0;
    v_from numeric := 0;
    v_index integer := 0;
BEGIN
    IF p_quantity = 0 AND NOT p_bills_zero THEN
        RETURN 0;
    END IF;

    -- By index: a query over the array would take longer than all else together.
    LOOP
        v_tier := p_tiers -> v_index;
        EXIT WHEN v_tier IS NULL;

        v_up_to := (v_tier ->> 'up_to')::numeric;
        -- least ignores null: a tier without end holds all that is left.
        v_amount := (v_tier ->> 'flat_amount')::numeric + CASE
            WHEN p_is_volume THEN p_quantity * (v_tier ->> 'unit_amount')::numeric
            ELSE v_amount
                + (least(p_quantity, v_up_to) - v_from) * (v_tier ->> 'unit_amount')::numeric
        END;

        IF v_up_to IS NULL OR p_quantity <= v_up_to THEN
            RETURN v_amount;
        END IF;

        v_from := v_up_to;
        v_index := v_index + 1;
    END LOOP;

    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION pgbill.tiered IS
'What a quantity costs by its tiers, not rounded; null if it is more than they hold.';
