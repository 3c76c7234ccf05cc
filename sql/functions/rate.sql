-- Rate the earliest open period of accounts: gather what it is made of, price it, and look
-- up the tax rates, unless a service is to be asked for them. It writes nothing and locks
-- nothing, so that a preview may use it too.
--
-- The watermark and the usage are read in ONE statement: usage that an import commits a
-- moment later is late for this period, and is billed by the next.
--
-- One chain of lateral joins: each step carries on the rows of the one before. Steps that
-- were CTEs, joined back by key, were compared each with each, since the planner knows
-- nothing about rows in the making (335 accounts took 27 s; now 0.1 s). The functions that
-- return rows are inlined.

CREATE OR REPLACE FUNCTION pgbill.rate(
    p_buckets integer[],
    p_account_ids bigint[],
    p_through_on date,
    p_max_due_periods integer,
    p_tax_by_table boolean DEFAULT TRUE
)
RETURNS TABLE (
    bucket integer, account_id bigint, outcome text, problem text, draft pgbill.draft
)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = ''
-- Planned once for each connection: planning costs as much as rating some ten accounts.
SET plan_cache_mode = force_generic_plan
-- What it reads is in memory; at the default, small tables are scanned for each account.
SET random_page_cost = 1.1
AS $$
BEGIN
    RETURN QUERY
    WITH target AS MATERIALIZED (
        SELECT
            account.bucket,
            account.account_id,
            account.language,
            account.zone,
            account.country AS buyer_country,
            account.tax_status AS buyer_status,
            account.vat_id AS buyer_vat_id,
            account.anchor_on,
            account.billing_interval,
            account.first_period_on,
            seller.country AS seller_country,
            policy.policy_id,
            policy.line_rounding,
            policy.proration,
            policy.unused_advance = 'credit' AS credits_unused,
            currency.digits,
            lease.due_on AS period_end,
            lease.due_at AS until_at,
            coalesce(previous.period_end, account.first_period_on) AS period_start,
            coalesce(previous.period_end_at, lease.due_at) AS from_at,
            -- A closing without invoice may have kept its lines, and may have handed them on.
            coalesce(previous.outcome <> 'invoiced', FALSE) AS has_kept_lines,
            coalesce(previous.outcome = 'carried_forward', FALSE) AS has_carried,
            lease.approved_on,
            next_boundary.number AS next_number,
            daterange(
                pgbill.boundary(
                    account.anchor_on, account.billing_interval, next_boundary.number - 2
                ),
                pgbill.boundary(
                    account.anchor_on, account.billing_interval, next_boundary.number - 1
                )
            ) AS ending,
            daterange(
                pgbill.boundary(
                    account.anchor_on, account.billing_interval, next_boundary.number - 1
                ),
                pgbill.boundary(
                    account.anchor_on, account.billing_interval, next_boundary.number
                )
            ) AS beginning,
            coalesce(previous.usage_seq, 0) AS previous_seq,
            coalesce(watermark.import_seq, 0) AS usage_seq,
            late.from_at AS late_from_at,
            EXISTS (
                SELECT
                FROM pgbill.discount
                WHERE discount.bucket = asked.bucket AND discount.account_id = asked.account_id
            ) AS has_discounts
        FROM unnest(p_buckets, p_account_ids) AS asked (bucket, account_id)
        INNER JOIN pgbill.account USING (bucket, account_id)
        INNER JOIN pgbill.lease USING (bucket, account_id)
        INNER JOIN pgbill.seller USING (seller_id)
        INNER JOIN pgbill.policy USING (policy_id)
        INNER JOIN pgbill.currency ON account.currency = currency.currency
        CROSS JOIN LATERAL (
            SELECT pgbill.boundary_number(
                account.anchor_on, account.billing_interval, lease.due_on
            )
        ) AS next_boundary (number)
        LEFT JOIN LATERAL (
            SELECT
                billing_period.period_end,
                billing_period.period_end_at,
                billing_period.outcome,
                billing_period.usage_seq
            FROM pgbill.billing_period
            WHERE billing_period.bucket = asked.bucket
                AND billing_period.account_id = asked.account_id
            ORDER BY billing_period.period_end DESC
            LIMIT 1
        ) AS previous ON TRUE
        LEFT JOIN LATERAL (
            SELECT usage_watermark.import_seq
            FROM pgbill.usage_watermark
            WHERE usage_watermark.bucket = asked.bucket
            ORDER BY usage_watermark.import_seq DESC
            LIMIT 1
        ) AS watermark ON TRUE
        -- No usage that is late for this period lies before this time.
        LEFT JOIN LATERAL (
            SELECT min(usage_watermark.earliest_at) AS from_at
            FROM pgbill.usage_watermark
            WHERE usage_watermark.bucket = asked.bucket
                AND usage_watermark.import_seq > previous.usage_seq
                AND usage_watermark.import_seq <= watermark.import_seq
            HAVING min(usage_watermark.earliest_at) < previous.period_end_at
        ) AS late ON TRUE
    )

    SELECT
        rated.bucket,
        rated.account_id,
        rated.outcome,
        rated.problem,
        ROW(
            rated.period_start,
            rated.period_end,
            rated.usage_seq,
            CASE
                WHEN rated.outcome IS NULL AND rated.needs_adjusting
                    THEN pgbill.adjusted(rated.lines, rated.bucket, rated.account_id, rated.period_end)
                ELSE rated.lines
            END,
            rated.policy_id
        )::pgbill.draft
    FROM (
        SELECT
            target.bucket,
            target.account_id,
            min(target.period_start) AS period_start,
            min(target.period_end) AS period_end,
            min(target.usage_seq) AS usage_seq,
            min(target.policy_id) AS policy_id,
            bool_or(target.has_carried OR target.has_discounts OR drafted.has_limits)
                AS needs_adjusting,
            CASE
                WHEN bool_or(overdue.is_too_long) THEN 'parked'
                WHEN count(drafted.problem) + count(tax.problem) > 0 THEN 'failed'
                WHEN bool_or(drafted.tax_included) <> bool_and(drafted.tax_included) THEN 'failed'
            END AS outcome,
            CASE
                WHEN bool_or(overdue.is_too_long)
                    THEN format(
                        'more than %s billing periods are due since %s',
                        p_max_due_periods, min(target.period_start)
                    )
                WHEN count(drafted.problem) + count(tax.problem) > 0
                    THEN coalesce(min(drafted.problem), min(tax.problem))
                WHEN bool_or(drafted.tax_included) <> bool_and(drafted.tax_included)
                    THEN 'amounts that include tax and amounts that do not would stand on one invoice'
            END AS problem,
            array_agg(
                ROW(
                    target.bucket,
                    target.account_id,
                    NULL,
                    NULL,
                    drafted.kind,
                    drafted.subscription_id,
                    drafted.price_id,
                    drafted.meter_id,
                    drafted.description,
                    drafted.quantity,
                    drafted.unit_code,
                    drafted.unit_amount,
                    drafted.amount - drafted.discount_amount,
                    tax.category,
                    tax.rate,
                    tax.legal_text,
                    drafted.service_period,
                    drafted.from_at,
                    drafted.until_at,
                    drafted.after_seq,
                    CASE WHEN drafted.meter_id IS NOT NULL THEN target.usage_seq END,
                    drafted.usage_count,
                    drafted.purchase_order,
                    drafted.contract_number,
                    drafted.cost_centre,
                    drafted.revenue_account,
                    drafted.rating_input,
                    NULL,
                    drafted.discount_amount,
                    NULL,
                    CASE
                        WHEN drafted.tax_included THEN drafted.amount - drafted.discount_amount
                    END,
                    drafted.group_value,
                    drafted.charge_id,
                    drafted.credited_invoice_id,
                    drafted.credited_line_no
                )::pgbill.invoice_line
                ORDER BY
                    drafted.rank, drafted.subscription_key, drafted.price_key,
                    lower(drafted.service_period), drafted.group_value
            ) FILTER (WHERE drafted.kind IS NOT NULL) AS lines
        FROM target
        CROSS JOIN LATERAL (
            SELECT
                target.period_end > coalesce(target.approved_on, '-infinity')
                AND pgbill.boundary(
                    target.anchor_on,
                    target.billing_interval,
                    target.next_number + p_max_due_periods - 1
                ) <= least(
                    coalesce(p_through_on, 'infinity'::date - 1) + 1,
                    (clock_timestamp() AT TIME ZONE target.zone)::date
                )
        ) AS overdue (is_too_long)
        -- Left joins: a target that pays nothing has one row too.
        LEFT JOIN LATERAL (
            SELECT
                part.rank,
                part.kind,
                subscription.subscription_id,
                subscription.key AS subscription_key,
                price.price_id,
                price.key AS price_key,
                CASE WHEN part.from_at IS NOT NULL THEN price.meter_id END AS meter_id,
                coalesce(
                    price.line_texts ->> target.language,
                    price.line_texts ->> left(target.language, 2),
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
                        THEN round(measured.billed_quantity * tier.unit_amount, target.digits)
                    ELSE pgbill.price(rating.rating_input)
                END AS amount,
                0::numeric AS discount_amount,
                part.service_period,
                part.from_at,
                part.until_at,
                CASE part.kind
                    WHEN 'usage' THEN 0
                    WHEN 'late_usage' THEN target.previous_seq
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
                    coalesce(price.billing_interval, target.billing_interval) AS price_interval,
                    CASE
                        WHEN pgbill.boundary(target.anchor_on, price.billing_interval, 1)
                            > pgbill.boundary(target.anchor_on, target.billing_interval, 1)
                            THEN price.billing_interval
                    END AS longer_interval
            ) AS own
            CROSS JOIN LATERAL pgbill.service_parts(
                target.bucket,
                target.account_id,
                subscription_price.subscription_id,
                subscription_price.price_id,
                price.meter_id,
                price.model,
                price.timing,
                subscription_price.active_period,
                own.longer_interval,
                target.anchor_on,
                target.first_period_on,
                target.zone,
                target.period_start,
                target.period_end,
                target.ending,
                target.beginning,
                target.from_at,
                target.until_at,
                target.late_from_at,
                target.has_kept_lines
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
                    AND version.free_quantity = 0
                    AND version.minimum_amount IS NULL
                    AND version.maximum_amount IS NULL AS is_linear
            ) AS way
            CROSS JOIN LATERAL pgbill.measured_parts(
                target.bucket,
                target.account_id,
                price.meter_id,
                price.model,
                price.group_by,
                part.kind,
                part.from_at,
                part.until_at,
                target.previous_seq,
                target.usage_seq,
                subscription_price.quantity,
                way.is_linear,
                version.bills_zero OR version.minimum_amount IS NOT NULL,
                version.minimum_amount IS NOT NULL OR version.maximum_amount IS NOT NULL,
                meter.aggregation,
                meter.unique_dimension,
                meter.quantity_digits,
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
                SELECT
                    (array_agg(price_tier.unit_amount ORDER BY price_tier.tier_no))[1],
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
                    END,
                    CASE WHEN bool_and(price_tier.up_to IS NOT NULL) THEN max(price_tier.up_to) END
                FROM pgbill.price_tier
                WHERE (way.has_tiers OR price.group_by IS NOT NULL)
                    AND price_tier.price_id = price.price_id
                    AND price_tier.begins_on = version.begins_on
                    AND price_tier.group_value = CASE
                        WHEN EXISTS (
                            SELECT
                            FROM pgbill.price_tier AS of_group
                            WHERE of_group.price_id = price.price_id
                                AND of_group.begins_on = version.begins_on
                                AND of_group.group_value = measured.group_value
                        ) THEN measured.group_value
                        ELSE ''
                    END
                HAVING way.has_tiers OR price.group_by IS NOT NULL
            ) AS tier
            -- How much of its period a part is, if it is not all of it.
            LEFT JOIN LATERAL (
                SELECT share.part, share.whole, nullif(earlier.part, 0) AS after_part
                FROM pgbill.share(
                    part.service_period, target.anchor_on, own.price_interval, target.proration,
                    target.zone
                ) AS share
                LEFT JOIN LATERAL (
                    SELECT sum(before.part) AS part
                    FROM pgbill.subscription_price AS segment
                    CROSS JOIN LATERAL pgbill.share(
                        daterange(lower(part.whole_period), lower(part.service_period)),
                        target.anchor_on, own.price_interval, target.proration, target.zone
                    ) AS before
                    WHERE lower(part.whole_period) < lower(part.service_period)
                        AND part.from_at IS NULL
                        AND segment.bucket = target.bucket
                        AND segment.account_id = target.account_id
                        AND segment.subscription_id = subscription_price.subscription_id
                        AND segment.price_id = subscription_price.price_id
                        AND segment.quantity = subscription_price.quantity
                        AND segment.active_period -|- subscription_price.active_period
                        AND upper(segment.active_period) = lower(part.service_period)
                        AND before.whole = share.whole
                ) AS earlier ON TRUE
            ) AS share
                ON
                    part.service_period <> part.whole_period
                    AND (
                        part.from_at IS NULL
                        OR version.minimum_amount IS NOT NULL
                        OR version.maximum_amount IS NOT NULL
                    )
                    OR own.price_interval <> target.billing_interval
                    AND own.longer_interval IS NULL
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
                    AND target.line_rounding = 'half_up'
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
                                'digits', target.digits
                            )
                        ELSE jsonb_strip_nulls(
                            jsonb_build_object(
                                'model', price.model,
                                'quantity', measured.quantity,
                                'unit_amount', CASE WHEN tier.tiers IS NULL THEN tier.unit_amount END,
                                'tiers', tier.tiers,
                                'digits', target.digits,
                                'rounding', nullif(target.line_rounding, 'half_up'),
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
                                'after_part', share.after_part
                            ) || coalesce(measured.terms, '{}')
                        )
                    END AS rating_input
            ) AS rating
            WHERE subscription_price.bucket = target.bucket
                AND subscription_price.account_id = target.account_id
                AND lower(subscription_price.active_period) < upper(target.beginning)
            UNION ALL
            -- What was paid in advance for days on which the price is over.
            SELECT
                6,
                'unused_advance',
                subscription.subscription_id,
                subscription.key,
                price.price_id,
                price.key,
                NULL,
                unused.description,
                -1,
                unused.unit_code,
                credit.amount,
                -credit.amount,
                0,
                unused.unused_period,
                NULL,
                NULL,
                NULL,
                NULL,
                subscription.purchase_order,
                subscription.contract_number,
                subscription.cost_centre,
                price.revenue_account,
                credit.rating_input,
                NULL,
                NULL,
                unused.invoice_id,
                unused.line_no,
                price.tax_class,
                unused.tax_included,
                unused.tax_category,
                unused.tax_rate,
                unused.legal_text,
                FALSE,
                NULL
            FROM pgbill.subscription_price
            INNER JOIN pgbill.subscription
                ON
                    subscription_price.bucket = subscription.bucket
                    AND subscription_price.account_id = subscription.account_id
                    AND subscription_price.subscription_id = subscription.subscription_id
            INNER JOIN pgbill.price ON subscription_price.price_id = price.price_id
            CROSS JOIN LATERAL pgbill.unused_advances(
                target.bucket, target.account_id, subscription_price.subscription_id,
                subscription_price.price_id, subscription_price.active_period,
                target.period_start, target.period_end
            ) AS unused
            CROSS JOIN LATERAL pgbill.share(
                unused.unused_period, target.anchor_on,
                coalesce(price.billing_interval, target.billing_interval), target.proration,
                target.zone
            ) AS given_back
            CROSS JOIN LATERAL pgbill.share(
                unused.service_period, target.anchor_on,
                coalesce(price.billing_interval, target.billing_interval), target.proration,
                target.zone
            ) AS billed
            CROSS JOIN LATERAL (
                SELECT
                    pgbill.price(told.rating_input) AS amount,
                    told.rating_input
                FROM (
                    SELECT
                        jsonb_strip_nulls(jsonb_build_object(
                            'model', 'unused_advance',
                            'quantity', -1,
                            'unit_amount', unused.amount,
                            'part', given_back.part * billed.whole,
                            'whole', given_back.whole * billed.part,
                            'digits', target.digits,
                            'rounding', nullif(target.line_rounding, 'half_up')
                        )) AS rating_input
                ) AS told
            ) AS credit
            WHERE target.credits_unused
                AND price.timing = 'advance'
                AND subscription_price.bucket = target.bucket
                AND subscription_price.account_id = target.account_id
                AND upper(subscription_price.active_period)
                BETWEEN target.period_start AND target.period_end
            UNION ALL
            SELECT
                7,
                'charge',
                NULL,
                NULL,
                NULL,
                charge.key,
                NULL,
                charge.description,
                charge.quantity,
                charge.unit_code,
                charge.unit_amount,
                pgbill.price(told.rating_input),
                charge.discount_amount,
                daterange(charge.service_on, charge.service_on + 1),
                NULL,
                NULL,
                NULL,
                NULL,
                charge.purchase_order,
                charge.contract_number,
                charge.cost_centre,
                charge.revenue_account,
                told.rating_input,
                NULL,
                charge.charge_id,
                NULL,
                NULL,
                charge.tax_class,
                charge.tax_included,
                NULL,
                NULL,
                NULL,
                FALSE,
                NULL
            FROM pgbill.charge
            CROSS JOIN LATERAL (
                SELECT
                    jsonb_strip_nulls(jsonb_build_object(
                        'model', 'charge',
                        'quantity', charge.quantity,
                        'unit_amount', charge.unit_amount,
                        'per_quantity', nullif(charge.per_quantity, 1),
                        'digits', target.digits,
                        'rounding', nullif(target.line_rounding, 'half_up')
                    )) AS rating_input
            ) AS told
            WHERE charge.bucket = target.bucket
                AND charge.account_id = target.account_id
                AND (
                    charge.service_on < target.period_end
                    OR target.period_start = target.period_end
                    AND charge.service_on = target.period_end
                )
                AND NOT pgbill.is_charge_billed(
                    charge.bucket, charge.account_id, charge.charge_id
                )
        ) AS drafted ON TRUE
        LEFT JOIN pgbill.tax_rate
            ON
                p_tax_by_table
                AND drafted.tax_category IS NULL
                AND target.buyer_country = tax_rate.buyer_country
                AND drafted.tax_class = tax_rate.tax_class
                AND target.seller_country = tax_rate.seller_country
                AND target.buyer_status = tax_rate.buyer_status
                AND tax_rate.valid_period @> (upper(drafted.service_period) - 1)
        CROSS JOIN LATERAL (
            SELECT
                coalesce(drafted.tax_category, tax_rate.category) AS category,
                coalesce(drafted.tax_rate, tax_rate.rate) AS rate,
                coalesce(drafted.legal_text, tax_rate.legal_text) AS legal_text,
                CASE
                    WHEN NOT p_tax_by_table OR drafted.kind IS NULL THEN NULL
                    WHEN drafted.tax_category IS NULL AND tax_rate.category IS NULL
                        THEN format(
                            'no tax rate for seller country %s, buyer country %s, %s, class %s on %s',
                            target.seller_country, target.buyer_country, target.buyer_status,
                            drafted.tax_class, upper(drafted.service_period) - 1
                        )
                    -- EN 16931, BR-AE-02 and BR-IC-02.
                    WHEN tax_rate.category IN ('AE', 'K') AND target.buyer_vat_id IS NULL
                        THEN format(
                            'tax category %s needs the VAT id of the buyer', tax_rate.category
                        )
                END AS problem
        ) AS tax
        GROUP BY target.bucket, target.account_id
    ) AS rated;
END;
$$;

COMMENT ON FUNCTION pgbill.rate IS
'The earliest open period of each account, as a draft that pgbill.issue takes; or '
'with outcome failed or parked the problem that stands against it.';
