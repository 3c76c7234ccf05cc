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
    v_tier record;
    v_amount numeric := 0;
    v_from numeric := 0;
BEGIN
    IF p_quantity = 0 AND NOT p_bills_zero THEN
        RETURN 0;
    END IF;

    FOR v_tier IN
        SELECT
            (tier.content ->> 'up_to')::numeric AS up_to,
            (tier.content ->> 'unit_amount')::numeric AS unit_amount,
            (tier.content ->> 'flat_amount')::numeric AS flat_amount
        FROM jsonb_array_elements(p_tiers) AS tier (content)
    LOOP
        -- least ignores null: a tier without end holds all that is left.
        IF p_is_volume THEN
            v_amount := p_quantity * v_tier.unit_amount + v_tier.flat_amount;
        ELSE
            v_amount := v_amount
                + (least(p_quantity, v_tier.up_to) - v_from) * v_tier.unit_amount
                + v_tier.flat_amount;
        END IF;

        IF v_tier.up_to IS NULL OR p_quantity <= v_tier.up_to THEN
            RETURN v_amount;
        END IF;

        v_from := v_tier.up_to;
    END LOOP;

    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION pgbill.tiered IS
'What a quantity costs by its tiers, not rounded; null if it is more than they hold.';
