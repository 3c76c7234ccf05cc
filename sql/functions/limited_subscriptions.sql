-- The least and the most that a subscription is billed for a period, by prices of the models
-- minimum and maximum. What counts is what is billed for service that begins in the billing
-- period, also before a limit that begins within it; on this invoice or on earlier ones,
-- within the limits of prices and before discounts. What the limits did before is taken into
-- account, so that late usage costs what it would have cost in time.

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
    v_before record;
    v_now record;
    v_change numeric;
BEGIN
    -- A limit that changes within the period is several lines, which count together.
    FOR v_limit IN
        SELECT
            line.kind,
            line.subscription_id,
            (line.rating_input ->> 'period')::daterange AS period,
            array_agg(line.ordinality::integer ORDER BY lower(line.service_period) DESC) AS places,
            sum(coalesce(line.tax_included_amount, line.net_amount)) AS amount
        FROM unnest(p_lines) WITH ORDINALITY AS line
        WHERE line.kind = 'maximum'
            OR line.kind = 'minimum' AND NOT line.rating_input ? 'reached'
        GROUP BY line.kind, line.subscription_id, line.rating_input ->> 'period'
        ORDER BY line.kind, line.subscription_id, line.rating_input ->> 'period'
    LOOP
        v_before := pgbill.spent_before(
            p_bucket, p_account_id, v_limit.subscription_id, v_limit.period
        );

        SELECT
            coalesce(sum(coalesce(line.tax_included_amount, line.net_amount)), 0) AS spent,
            array_agg(line.ordinality::integer ORDER BY line.ordinality) FILTER (
                WHERE coalesce(line.tax_included_amount, line.net_amount) > 0
            ) AS places,
            coalesce(sum(greatest(coalesce(line.tax_included_amount, line.net_amount), 0)), 0)
                AS at_most
        INTO v_now
        FROM unnest(p_lines) WITH ORDINALITY AS line
        WHERE line.subscription_id = v_limit.subscription_id
            AND line.kind <> 'maximum'
            AND (line.kind <> 'minimum' OR line.rating_input ? 'reached')
            AND lower(line.service_period) <@ v_limit.period;

        IF v_limit.kind = 'minimum' THEN
            v_change := greatest(v_limit.amount - v_before.spent - v_now.spent, 0)
                - v_before.added;
            v_lines := pgbill.made_up_for(v_lines, v_limit.places, v_change);
            -- What the minimum brought before has paid for what is late.
            v_change := -v_change;
        ELSE
            v_change := greatest(v_before.spent + v_now.spent - v_limit.amount, 0)
                - v_before.taken_off;
        END IF;

        IF v_change > 0 AND v_now.places IS NOT NULL THEN
            v_lines := pgbill.take_off(
                v_lines,
                v_now.places,
                least(v_change, v_now.at_most),
                'subscription_' || v_limit.kind,
                pgbill.word(
                    CASE v_limit.kind WHEN 'minimum' THEN 'minimum_billed' ELSE 'maximum' END,
                    p_language
                ),
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
