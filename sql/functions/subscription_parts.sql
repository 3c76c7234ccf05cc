-- What a closing bills of an account's subscriptions: parts, measured, priced, each with what
-- stands against it. A single SELECT without settings: it is inlined into pgbill.rate.

CREATE OR REPLACE FUNCTION pgbill.subscription_parts(
    p_bucket integer,
    p_account_id bigint,
    p_language text,
    p_zone text,
    p_anchor_on date,
    p_billing_interval text,
    p_first_period_on date,
    p_line_rounding text,
    p_proration text,
    p_digits integer,
    p_period_start date,
    p_period_end date,
    p_from_at timestamptz,
    p_until_at timestamptz,
    p_ending daterange,
    p_beginning daterange,
    p_previous_seq bigint,
    p_usage_seq bigint,
    p_late_from_at timestamptz,
    p_has_kept_lines boolean
)
RETURNS TABLE (
    rank integer,
    kind text,
    subscription_id bigint,
    subscription_key text,
    price_id integer,
    price_key text,
    meter_id integer,
    description text,
    quantity numeric,
    unit_code text,
    unit_amount numeric,
    amount numeric,
    discount_amount numeric,
    service_period daterange,
    from_at timestamptz,
    until_at timestamptz,
    after_seq bigint,
    usage_count bigint,
    purchase_order text,
    contract_number text,
    cost_centre text,
    revenue_account text,
    rating_input jsonb,
    group_value text,
    charge_id bigint,
    credited_invoice_id bigint,
    credited_line_no integer,
    tax_class text,
    tax_included boolean,
    tax_category text,
    tax_rate numeric,
    legal_text text,
    has_limits boolean,
    problem text
)
LANGUAGE sql
STABLE
PARALLEL SAFE
ROWS 10
AS $$
    SELECT
        part.rank,
        part.kind,
        subscription.subscription_id,
        subscription.key AS subscription_key,
        price.price_id,
        price.key AS price_key,
        CASE WHEN part.from_at IS NOT NULL THEN price.meter_id END AS meter_id,
        coalesce(
            price.line_texts ->> p_language,
            price.line_texts ->> left(p_language, 2),
            price.line_texts ->> 'en',
            price.key
        ) || CASE
            WHEN measured.group_value IS NULL THEN ''
            ELSE ': ' || measured.group_value
        END AS description,
        measured.billed_quantity AS quantity,
        price.unit_code,
        CASE WHEN terms.has_unit_amount THEN tier.unit_amount END AS unit_amount,
        CASE
            WHEN terms.is_simple
                THEN round(measured.billed_quantity * tier.unit_amount, p_digits)
            ELSE pgbill.price(rating.rating_input)
        END AS amount,
        0::numeric AS discount_amount,
        part.service_period,
        part.from_at,
        part.until_at,
        CASE part.kind
            WHEN 'usage' THEN 0::bigint
            WHEN 'late_usage' THEN p_previous_seq
        END AS after_seq,
        measured.record_count AS usage_count,
        subscription.purchase_order,
        subscription.contract_number,
        subscription.cost_centre,
        price.revenue_account,
        rating.rating_input,
        measured.group_value,
        NULL::bigint AS charge_id,
        NULL::bigint AS credited_invoice_id,
        NULL::integer AS credited_line_no,
        price.tax_class,
        price.tax_included,
        NULL::text AS tax_category,
        NULL::numeric AS tax_rate,
        NULL::text AS legal_text,
        terms.has_limits OR part.kind IN ('minimum', 'maximum') AS has_limits,
        CASE
            WHEN tier.unit_amount IS NULL
                THEN format(
                    'price %s has no amount on %s', price.key, lower(part.service_period)
                ) || coalesce(' for ' || measured.group_value, '')
            WHEN tier.last_up_to IS NOT NULL AND pgbill.price(rating.rating_input) IS NULL
                THEN format(
                    'price %s: %s is more than its last tier holds (%s)',
                    price.key, trim_scale(measured.quantity), trim_scale(tier.last_up_to)
                )
        END AS problem
    FROM pgbill.subscription_price
    INNER JOIN pgbill.subscription
        ON
            subscription_price.bucket = subscription.bucket
            AND subscription_price.account_id = subscription.account_id
            AND subscription_price.subscription_id = subscription.subscription_id
    INNER JOIN pgbill.price ON subscription_price.price_id = price.price_id
    LEFT JOIN pgbill.meter ON price.meter_id = meter.meter_id
    CROSS JOIN LATERAL (
        SELECT
            coalesce(price.billing_interval, p_billing_interval) AS price_interval,
            CASE
                WHEN price.billing_interval IS NULL THEN NULL
                WHEN pgbill.boundary(p_anchor_on, price.billing_interval, 1)
                    > pgbill.boundary(p_anchor_on, p_billing_interval, 1)
                    THEN price.billing_interval
            END AS longer_interval
    ) AS own
    CROSS JOIN LATERAL pgbill.service_parts(
        p_bucket,
        p_account_id,
        subscription_price.subscription_id,
        subscription_price.price_id,
        price.meter_id,
        price.model,
        price.timing,
        subscription_price.active_period,
        p_billing_interval,
        own.longer_interval,
        p_anchor_on,
        p_first_period_on,
        p_zone,
        p_period_start,
        p_period_end,
        p_ending,
        p_beginning,
        p_from_at,
        p_until_at,
        p_late_from_at,
        p_has_kept_lines
    ) AS part
    -- The version of the day on which the service begins.
    LEFT JOIN LATERAL (
        SELECT
            price_version.begins_on,
            price_version.per_quantity,
            price_version.package_size,
            price_version.free_quantity,
            price_version.fixed_amount,
            price_version.free_amount,
            price_version.free_count,
            price_version.record_minimum,
            price_version.record_maximum,
            price_version.bills_zero,
            price_version.minimum_amount,
            price_version.maximum_amount,
            price_tier.unit_amount,
            price_tier.up_to
        FROM pgbill.price_version
        LEFT JOIN pgbill.price_tier
            ON
                price_version.price_id = price_tier.price_id
                AND price_version.begins_on = price_tier.begins_on
                AND price_tier.group_value = ''
                AND price_tier.tier_no = 1
        WHERE price_version.price_id = price.price_id
            AND price_version.begins_on <= lower(part.service_period)
        ORDER BY price_version.begins_on DESC
        LIMIT 1
    ) AS version ON TRUE
    CROSS JOIN LATERAL (
        SELECT
            price.model IN (
                'graduated', 'volume', 'stairstep', 'stairstep_cumulative', 'capacity',
                'graduated_percentage'
            ) AS has_tiers,
            -- Amounts of which each can be told alone, whatever was billed before.
            price.model = 'per_unit'
            AND meter.aggregation = 'sum'
            AND meter.quantity_digits IS NULL
            AND version.free_quantity = 0
            AND version.minimum_amount IS NULL
            AND version.maximum_amount IS NULL AS is_linear
    ) AS way
    CROSS JOIN LATERAL pgbill.measured_parts(
        p_bucket,
        p_account_id,
        price.meter_id,
        price.model,
        price.group_by,
        part.kind,
        part.from_at,
        part.until_at,
        p_previous_seq,
        p_usage_seq,
        subscription_price.quantity,
        way.is_linear,
        version.bills_zero OR version.minimum_amount IS NOT NULL,
        version.minimum_amount IS NOT NULL OR version.maximum_amount IS NOT NULL,
        meter.aggregation,
        meter.unique_dimension,
        -- An average seldom ends: twelve decimals of it are priced, and shown.
        coalesce(meter.quantity_digits, CASE meter.aggregation WHEN 'time_weighted' THEN 12 END),
        meter.quantity_rounding,
        version.unit_amount,
        version.fixed_amount,
        version.free_amount,
        version.free_count,
        version.record_minimum,
        version.record_maximum
    ) AS measured
    -- The amounts of the group, or of all that have none of their own.
    CROSS JOIN LATERAL (
        SELECT version.unit_amount, NULL::jsonb AS tiers, NULL::numeric AS last_up_to
        WHERE NOT way.has_tiers AND price.group_by IS NULL
        UNION ALL
        SELECT of_price.unit_amount, of_price.tiers, of_price.last_up_to
        FROM (
            SELECT
                min(price_tier.unit_amount) FILTER (WHERE price_tier.tier_no = 1)
                    AS unit_amount,
                CASE
                    WHEN way.has_tiers
                        THEN jsonb_agg(
                            jsonb_build_object(
                                'up_to', price_tier.up_to,
                                'unit_amount', price_tier.unit_amount,
                                'flat_amount', price_tier.flat_amount
                            )
                            ORDER BY price_tier.tier_no
                        )
                END AS tiers,
                CASE
                    WHEN bool_and(price_tier.up_to IS NOT NULL) THEN max(price_tier.up_to)
                END AS last_up_to
            FROM pgbill.price_tier
            WHERE price_tier.price_id = price.price_id
                AND price_tier.begins_on = version.begins_on
                AND price_tier.group_value = CASE
                    WHEN measured.group_value IS NOT NULL AND EXISTS (
                        SELECT
                        FROM pgbill.price_tier AS of_group
                        WHERE of_group.price_id = price.price_id
                            AND of_group.begins_on = version.begins_on
                            AND of_group.group_value = measured.group_value
                    ) THEN measured.group_value
                    ELSE ''
                END
            -- As below: it is not even begun where it is not wanted.
            OFFSET 0
        ) AS of_price
        WHERE way.has_tiers OR price.group_by IS NOT NULL
    ) AS tier
    -- How much of its period a part is, if it is not all of it.
    LEFT JOIN LATERAL (
        SELECT share.part, share.whole, share.after_part
        FROM pgbill.share_after(
            CASE
                WHEN part.from_at IS NULL
                    THEN least(
                        greatest(
                            pgbill.unchanged_since(
                                p_bucket, p_account_id, subscription_price.subscription_id,
                                subscription_price.price_id, subscription_price.quantity,
                                lower(subscription_price.active_period)
                            ),
                            lower(part.whole_period),
                            p_first_period_on
                        ),
                        lower(part.service_period)
                    )
                ELSE lower(part.service_period)
            END,
            part.service_period, p_anchor_on, own.price_interval, p_proration, p_zone
        ) AS share
        WHERE part.service_period <> part.whole_period
            AND (
                part.from_at IS NULL
                OR version.minimum_amount IS NOT NULL
                OR version.maximum_amount IS NOT NULL
            )
            OR own.price_interval <> p_billing_interval
            AND own.longer_interval IS NULL
        -- A fence for the planner: where that is false, nothing is computed.
        OFFSET 0
    ) AS share ON TRUE
    CROSS JOIN LATERAL (
        SELECT
            tier.tiers IS NULL
            AND price.model <> 'package'
            AND price.model <> 'percentage' AS has_unit_amount,
            version.minimum_amount IS NOT NULL OR version.maximum_amount IS NOT NULL
                AS has_limits,
            tier.tiers IS NULL
            AND price.model IN ('flat', 'per_unit')
            AND measured.terms IS NULL
            AND share.part IS NULL
            AND version.per_quantity = 1
            AND version.free_quantity = 0
            AND p_line_rounding = 'half_up'
            AND version.minimum_amount IS NULL
            AND version.maximum_amount IS NULL AS is_simple
    ) AS terms
    CROSS JOIN LATERAL (
        SELECT
            CASE
                WHEN terms.is_simple
                    THEN jsonb_build_object(
                        'model', price.model,
                        'quantity', measured.quantity,
                        'unit_amount', tier.unit_amount,
                        'digits', p_digits
                    )
                ELSE jsonb_strip_nulls(
                    jsonb_build_object(
                        'model', price.model,
                        'quantity', measured.quantity,
                        'unit_amount', CASE WHEN tier.tiers IS NULL THEN tier.unit_amount END,
                        'tiers', tier.tiers,
                        'digits', p_digits,
                        'rounding', nullif(p_line_rounding, 'half_up'),
                        'per_quantity', nullif(version.per_quantity, 1),
                        'package_size', version.package_size,
                        'free_quantity', nullif(version.free_quantity, 0),
                        'bills_zero', nullif(version.bills_zero, FALSE),
                        'fixed_amount', nullif(version.fixed_amount, 0),
                        'free_amount', version.free_amount,
                        'free_count', version.free_count,
                        'record_minimum', version.record_minimum,
                        'record_maximum', version.record_maximum,
                        'minimum_amount', version.minimum_amount,
                        'maximum_amount', version.maximum_amount,
                        CASE WHEN part.from_at IS NULL THEN 'part' ELSE 'spend_part' END, share.part,
                        CASE WHEN part.from_at IS NULL THEN 'whole' ELSE 'spend_whole' END, share.whole,
                        'after_part', share.after_part,
                        -- What a limit counts is service that begins in this period.
                        'period', CASE
                            WHEN part.kind IN ('minimum', 'maximum') THEN part.whole_period
                        END
                    ) || coalesce(measured.terms, '{}')
                )
            END AS rating_input
        -- Built once, though the amount and the line both want it.
        OFFSET 0
    ) AS rating
    WHERE subscription_price.bucket = p_bucket
        AND subscription_price.account_id = p_account_id
        AND lower(subscription_price.active_period) < upper(p_beginning);
$$;

COMMENT ON FUNCTION pgbill.subscription_parts IS
'The lines that the subscriptions of an account bring at a closing, as pgbill.rate takes '
'them.';
