-- The least and the most that a subscription is billed for a period, by prices of the models
-- minimum and maximum. What counts is what is billed for service that begins in the period,
-- on this invoice or on earlier ones, before discounts.

CREATE OR REPLACE FUNCTION pgbill.limited_subscriptions(
    p_lines pgbill.invoice_line[],
    p_bucket integer,
    p_account_id bigint,
    p_language text,
    p_digits integer
)
RETURNS pgbill.invoice_line[]
LANGUAGE plpgsql
STABLE
PARALLEL SAFE
AS $$
DECLARE
    v_lines pgbill.invoice_line[] := p_lines;
    v_limit record;
    v_line pgbill.invoice_line;
    v_reached record;
    v_amount numeric;
BEGIN
    FOR v_limit IN
        SELECT line.ordinality::integer AS place
        FROM unnest(p_lines) WITH ORDINALITY AS line
        WHERE line.kind = 'maximum'
            OR line.kind = 'minimum' AND NOT line.rating_input ? 'reached'
        -- What a maximum takes off does not count for a minimum.
        ORDER BY line.kind, line.ordinality
    LOOP
        v_line := v_lines[v_limit.place];
        v_amount := coalesce(v_line.tax_included_amount, v_line.net_amount);

        SELECT
            coalesce(sum(coalesce(line.tax_included_amount, line.net_amount)), 0) AS amount,
            array_agg(line.ordinality::integer ORDER BY line.ordinality) FILTER (
                WHERE coalesce(line.tax_included_amount, line.net_amount) > 0
            ) AS places
        INTO v_reached
        FROM unnest(v_lines) WITH ORDINALITY AS line
        WHERE line.subscription_id = v_line.subscription_id
            AND line.kind <> 'maximum'
            AND (line.kind <> 'minimum' OR line.rating_input ? 'reached')
            AND lower(line.service_period) <@ v_line.service_period;

        v_reached.amount := v_reached.amount + pgbill.spent_before(
            p_bucket, p_account_id, v_line.subscription_id, v_line.service_period
        );

        IF v_line.kind = 'minimum' THEN
            v_line.rating_input := v_line.rating_input
                || jsonb_build_object('reached', v_reached.amount);
            v_line.net_amount := pgbill.price(v_line.rating_input);
            v_line.tax_included_amount := CASE
                WHEN v_line.tax_included_amount IS NOT NULL THEN v_line.net_amount
            END;
            v_line.unit_amount := NULL;
            v_lines[v_limit.place] := v_line;
        ELSIF v_reached.amount > v_amount AND v_reached.places IS NOT NULL THEN
            v_lines := pgbill.take_off(
                v_lines,
                v_reached.places,
                least(
                    v_reached.amount - v_amount,
                    (
                        SELECT sum(coalesce(v_lines[place].tax_included_amount, v_lines[place].net_amount))
                        FROM unnest(v_reached.places) AS taken (place)
                    )
                ),
                'maximum',
                pgbill.word('maximum', p_language),
                p_digits
            );
        END IF;
    END LOOP;

    RETURN ARRAY(
        SELECT v_lines[place]
        FROM generate_subscripts(v_lines, 1) AS place
        WHERE v_lines[place].kind NOT IN ('minimum', 'maximum')
            OR v_lines[place].kind = 'minimum' AND v_lines[place].net_amount <> 0
        ORDER BY place
    );
END;
$$;

COMMENT ON FUNCTION pgbill.limited_subscriptions IS
'Lines with what prices of the models minimum and maximum add to, or take off, their '
'subscription.';
