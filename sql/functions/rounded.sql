-- Round a fraction to so many digits, exactly. Numeric division keeps only some sixteen
-- digits, too few to tell 0.5 from 0.49999… in a large amount; so the fraction is divided
-- into a whole number of the last digit and a rest, and the rest decides.

CREATE OR REPLACE FUNCTION pgbill.rounded(
    p_numerator numeric, p_denominator numeric, p_digits integer, p_mode text
)
RETURNS numeric
LANGUAGE plpgsql
IMMUTABLE
PARALLEL SAFE
AS $$
DECLARE
    v_scale numeric;
    v_scaled numeric;
    v_whole numeric;
    v_rest numeric;
BEGIN
    IF p_denominator = 1 AND p_mode = 'half_up' THEN
        RETURN round(p_numerator, p_digits);
    END IF;

    v_scale := 10 ^ p_digits::numeric;
    v_scaled := abs(p_numerator) * v_scale;
    v_whole := div(v_scaled, p_denominator);
    v_rest := v_scaled - v_whole * p_denominator;

    IF (CASE p_mode
        WHEN 'half_up' THEN 2 * v_rest >= p_denominator
        WHEN 'half_down' THEN 2 * v_rest > p_denominator
        WHEN 'half_even'
            THEN 2 * v_rest > p_denominator OR 2 * v_rest = p_denominator AND mod(v_whole, 2) = 1
        WHEN 'down' THEN FALSE
        WHEN 'up' THEN v_rest > 0
        WHEN 'floor' THEN v_rest > 0 AND p_numerator < 0
    END) THEN
        v_whole := v_whole + 1;
    END IF;

    -- Multiplied: a division would round whole amounts beyond sixteen digits.
    RETURN round(sign(p_numerator) * v_whole * (1 / v_scale), p_digits);
END;
$$;

COMMENT ON FUNCTION pgbill.rounded IS
'Numerator ÷ denominator (above zero) to so many digits: half_up (away from zero), '
'half_down, half_even, down (towards zero), up (away from zero) or floor.';
