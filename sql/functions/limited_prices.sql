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
            -- The line that stands for all, and those of which something can be taken off.
            (
                array_agg(
                    line.ordinality::integer ORDER BY abs(billed.amount) DESC, line.ordinality
                )
            )[1] AS place,
            array_agg(line.ordinality::integer ORDER BY line.ordinality)
                FILTER (WHERE billed.amount > 0) AS places,
            coalesce(sum(billed.amount) FILTER (WHERE billed.amount > 0), 0) AS places_amount,
            sum(billed.amount) AS amount,
            coalesce(sum(
                pgbill.price(
                    (line.rating_input - 'before') || (line.rating_input -> 'before')
                )
            ), 0) AS amount_before
        FROM unnest(p_lines) WITH ORDINALITY AS line
        CROSS JOIN LATERAL (
            SELECT coalesce(line.tax_included_amount, line.net_amount)
        ) AS billed (amount)
        WHERE line.kind IN ('usage', 'late_usage')
            AND line.rating_input ?| ARRAY['minimum_amount', 'maximum_amount']
        GROUP BY line.kind, line.subscription_id, line.price_id, line.service_period
    LOOP
        v_line := v_lines[v_of_price.place];
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
        ELSIF v_excess <> 0 THEN
            -- Late: a minimum that was billed before has paid for it, or still has to hold;
            -- what a maximum has left out before is not given back.
            v_name := CASE
                WHEN v_of_price.kind = 'usage' THEN 'maximum'
                WHEN v_excess > 0 AND v_of_price.amount_before < v_limit.minimum THEN 'minimum'
                WHEN v_excess < 0 AND v_of_price.amount_before <= v_limit.maximum THEN 'minimum'
                WHEN v_excess < 0 AND v_limit.maximum IS NULL THEN 'minimum'
                ELSE 'maximum'
            END;
            v_lines := pgbill.take_off(
                v_lines,
                CASE
                    WHEN v_excess BETWEEN 0 AND v_of_price.places_amount THEN v_of_price.places
                    ELSE ARRAY[v_of_price.place]
                END,
                v_excess,
                v_name,
                pgbill.word(
                    v_name || CASE WHEN v_name = 'minimum' AND v_excess > 0 THEN '_billed' ELSE '' END,
                    p_language
                ),
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
