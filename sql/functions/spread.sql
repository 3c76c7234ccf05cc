-- Divide an amount over several, in proportion. Each share is taken of what is left, and the
-- last takes the remainder: so the shares sum to the amount, and none is more than what it
-- is taken from, as long as the amount is not more than all of it.

CREATE OR REPLACE FUNCTION pgbill.spread(p_amount numeric, p_weights numeric[], p_digits integer)
RETURNS numeric[]
LANGUAGE plpgsql
IMMUTABLE
PARALLEL SAFE
AS $$
DECLARE
    v_left numeric := p_amount;
    v_weight_left numeric := 0;
    v_weight numeric;
    v_share numeric;
    v_shares numeric[] := '{}';
BEGIN
    FOREACH v_weight IN ARRAY p_weights LOOP
        v_weight_left := v_weight_left + v_weight;
    END LOOP;

    FOREACH v_weight IN ARRAY p_weights LOOP
        v_share := CASE
            WHEN v_weight_left = 0 THEN 0
            ELSE pgbill.rounded(v_left * v_weight, v_weight_left, p_digits, 'half_down')
        END;
        v_shares := v_shares || v_share;
        v_left := v_left - v_share;
        v_weight_left := v_weight_left - v_weight;
    END LOOP;

    RETURN v_shares;
END;
$$;

COMMENT ON FUNCTION pgbill.spread IS
'The shares of an amount, in proportion to weights that are not negative, to so many digits; '
'they sum to it.';
