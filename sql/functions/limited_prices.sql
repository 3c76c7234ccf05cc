-- The least and the most that a price brings in a period. What is missing to a minimum is a
-- line of its own; what is beyond a maximum is taken off. Of late usage only the difference
-- is billed that it makes within the limits.

CREATE OR REPLACE FUNCTION pgbill.limited_prices(
    p_lines pgbill.invoice_line[], p_language text, p_digits integer
)
RETURNS pgbill.invoice_line[]
LANGUAGE plpgsql
STABLE
PARALLEL SAFE
AS $$
DECLARE
    v_lines pgbill.invoice_line[] := p_lines;
    v_line pgbill.invoice_line;
    v_of_price record;
    v_limit record;
    v_excess numeric;
    v_name text;
BEGIN
    FOR v_of_price IN
        SELECT
            line.kind,
            array_agg(line.ordinality::integer ORDER BY line.ordinality) AS places,
            sum(coalesce(line.tax_included_amount, line.net_amount)) AS amount,
            coalesce(sum(
                pgbill.price(
                    (line.rating_input - 'before') || (line.rating_input -> 'before')
                )
            ), 0) AS amount_before
        FROM unnest(p_lines) WITH ORDINALITY AS line
        WHERE line.kind IN ('usage', 'late_usage')
            AND line.rating_input ?| ARRAY['minimum_amount', 'maximum_amount']
        GROUP BY line.kind, line.subscription_id, line.price_id, line.service_period
    LOOP
        v_line := v_lines[v_of_price.places[1]];
        SELECT
            pgbill.spend_limit(v_line.rating_input, 'minimum_amount') AS minimum,
            pgbill.spend_limit(v_line.rating_input, 'maximum_amount') AS maximum
        INTO v_limit;

        v_excess := v_of_price.amount
            - greatest(
                least(v_of_price.amount_before + v_of_price.amount, v_limit.maximum),
                v_limit.minimum
            )
            + CASE
                WHEN v_of_price.kind = 'late_usage'
                    THEN greatest(least(v_of_price.amount_before, v_limit.maximum), v_limit.minimum)
                ELSE 0
            END;

        IF v_excess < 0 AND v_of_price.kind = 'usage' THEN
            v_lines := v_lines || pgbill.line_of_minimum(
                v_line, v_of_price.amount, p_language, p_digits
            );
        ELSIF v_excess > 0 AND v_of_price.kind = 'usage' THEN
            v_lines := pgbill.take_off(
                v_lines, v_of_price.places, v_excess, 'maximum',
                pgbill.word('maximum', p_language), p_digits
            );
        ELSIF v_excess <> 0 THEN
            -- Late: a minimum that was billed before has paid for it, or still has to hold.
            v_name := CASE
                WHEN v_excess < 0 OR v_of_price.amount_before < v_limit.minimum THEN 'minimum'
                ELSE 'maximum'
            END;
            v_lines := pgbill.take_off(
                v_lines, v_of_price.places[1:1], v_excess, v_name,
                pgbill.word(v_name || CASE v_name WHEN 'minimum' THEN '_billed' ELSE '' END, p_language),
                p_digits
            );
        END IF;
    END LOOP;

    -- Lines that were only there for their limits.
    RETURN ARRAY(
        SELECT v_lines[place]
        FROM generate_subscripts(v_lines, 1) AS place
        WHERE v_lines[place].usage_count IS DISTINCT FROM 0
            OR v_lines[place].net_amount <> 0
            OR v_lines[place].discount_amount <> 0
        ORDER BY place
    );
END;
$$;

COMMENT ON FUNCTION pgbill.limited_prices IS
'Lines with what the minimum and maximum amounts of their prices add or take off.';
