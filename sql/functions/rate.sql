-- Rate the earliest open period of accounts: gather what it is made of, price it, and look
-- up the tax rates. It writes nothing and locks nothing, so that a preview may use it too.
--
-- The watermark and the usage are read in ONE statement: usage that an import commits a
-- moment later is late for this period, and is billed by the next.

CREATE OR REPLACE FUNCTION pgbill.rate(
    p_buckets integer [],
    p_account_ids bigint [],
    p_through_on date,
    p_max_due_periods integer
)
RETURNS TABLE (bucket integer, account_id bigint, problem text, draft jsonb)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = ''
-- Planned once for each connection: planning costs as much as rating some ten accounts.
SET plan_cache_mode = force_generic_plan
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
            account.anchor_on,
            account.first_period_on,
            seller.country AS seller_country,
            currency.digits,
            coalesce(previous.period_end, account.first_period_on) AS period_start,
            lease.due_on AS period_end,
            lease.approved_on,
            next_boundary.number AS next_number,
            pgbill.boundary(account.anchor_on, next_boundary.number) AS next_end,
            coalesce(previous.usage_seq, 0) AS previous_seq,
            coalesce(watermark.import_seq, 0) AS usage_seq
        FROM unnest(p_buckets, p_account_ids) AS asked (bucket, account_id)
        INNER JOIN pgbill.account USING (bucket, account_id)
        INNER JOIN pgbill.lease USING (bucket, account_id)
        INNER JOIN pgbill.seller USING (seller_id)
        INNER JOIN pgbill.currency ON account.currency = currency.currency
        CROSS JOIN LATERAL (
            SELECT pgbill.boundary_number(account.anchor_on, lease.due_on)
        ) AS next_boundary (number)
        LEFT JOIN LATERAL (
            SELECT billing_period.period_end, billing_period.usage_seq
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
    ),

    late AS MATERIALIZED (
        SELECT
            target.bucket,
            target.account_id,
            (
                SELECT min(usage_watermark.earliest_at)
                FROM pgbill.usage_watermark
                WHERE usage_watermark.bucket = target.bucket
                    AND usage_watermark.import_seq > target.previous_seq
                    AND usage_watermark.import_seq <= target.usage_seq
            ) AS late_from_at
        FROM target
    ),

    item AS MATERIALIZED (
        SELECT
            target.bucket,
            target.account_id,
            subscription_price.subscription_id,
            subscription_price.price_id,
            subscription_price.meter_id,
            subscription_price.quantity,
            subscription_price.active_period,
            subscription.key AS subscription_key,
            subscription.purchase_order,
            subscription.contract_number,
            subscription.cost_centre,
            price.key AS price_key,
            price.timing,
            price.unit_code,
            price.tax_class,
            price.revenue_account,
            coalesce(
                price.line_texts ->> target.language,
                price.line_texts ->> left(target.language, 2),
                price.line_texts ->> 'en',
                price.key
            ) AS description,
            greatest(late.late_from_at, pgbill.local_midnight(target.first_period_on, target.zone))
                AS late_from_at,
            pgbill.local_midnight(target.period_start, target.zone) AS period_from_at
        FROM target
        INNER JOIN late USING (bucket, account_id)
        INNER JOIN pgbill.subscription_price USING (bucket, account_id)
        INNER JOIN pgbill.subscription USING (bucket, account_id, subscription_id)
        INNER JOIN pgbill.price ON subscription_price.price_id = price.price_id
        WHERE lower(subscription_price.active_period) < target.next_end
    ),

    -- What is billed for which days: [whole_start, whole_end) is the full period that a flat
    -- amount is for, service_period the part of it in which the subscription is active.
    service AS (
        SELECT
            item.bucket, item.account_id, item.subscription_id, item.price_id,
            1 AS rank, 'advance' AS kind,
            item.active_period * daterange(target.period_end, target.next_end) AS service_period,
            pgbill.boundary(target.anchor_on, target.next_number - 1) AS whole_start,
            target.next_end AS whole_end,
            item.quantity,
            NULL::bigint AS usage_count, NULL::bigint AS usage_after_seq,
            NULL::timestamptz AS usage_from_at, NULL::timestamptz AS usage_until_at
        FROM item
        INNER JOIN target USING (bucket, account_id)
        WHERE item.timing = 'advance'
        UNION ALL
        -- An advance fee of the period that ends, if the boundary before did not bill it:
        -- the subscription was not there yet.
        SELECT
            item.bucket, item.account_id, item.subscription_id, item.price_id,
            2, 'advance',
            item.active_period * daterange(target.period_start, target.period_end),
            pgbill.boundary(target.anchor_on, target.next_number - 2),
            pgbill.boundary(target.anchor_on, target.next_number - 1),
            item.quantity, NULL, NULL, NULL, NULL
        FROM item
        INNER JOIN target USING (bucket, account_id)
        WHERE item.timing = 'advance'
            AND target.period_start < target.period_end
            AND NOT EXISTS (
                SELECT
                FROM pgbill.invoice
                INNER JOIN pgbill.invoice_line USING (bucket, account_id, invoice_id)
                WHERE invoice.bucket = item.bucket
                    AND invoice.account_id = item.account_id
                    AND invoice.period_end = target.period_start
                    AND invoice_line.subscription_id = item.subscription_id
                    AND invoice_line.price_id = item.price_id
                    AND invoice_line.kind = 'advance'
                    AND upper(invoice_line.service_period) > target.period_start
            )
        UNION ALL
        SELECT
            item.bucket, item.account_id, item.subscription_id, item.price_id,
            3, 'arrears',
            item.active_period * daterange(target.period_start, target.period_end),
            pgbill.boundary(target.anchor_on, target.next_number - 2),
            pgbill.boundary(target.anchor_on, target.next_number - 1),
            item.quantity, NULL, NULL, NULL, NULL
        FROM item
        INNER JOIN target USING (bucket, account_id)
        WHERE item.timing = 'arrears'
            AND item.meter_id IS NULL
            AND target.period_start < target.period_end
        UNION ALL
        SELECT
            item.bucket, item.account_id, item.subscription_id, item.price_id,
            4, 'usage', span.service_period, NULL, NULL,
            summed.quantity, summed.record_count, 0, span.from_at, span.until_at
        FROM item
        INNER JOIN target USING (bucket, account_id)
        CROSS JOIN LATERAL (
            SELECT
                part.service_period,
                pgbill.local_midnight(lower(part.service_period), target.zone) AS from_at,
                pgbill.local_midnight(upper(part.service_period), target.zone) AS until_at
            FROM (
                SELECT item.active_period * daterange(target.period_start, target.period_end)
            ) AS part (service_period)
        ) AS span
        CROSS JOIN LATERAL (
            SELECT sum(usage_record.quantity) AS quantity, count(*) AS record_count
            FROM pgbill.usage_record
            WHERE usage_record.bucket = item.bucket
                AND usage_record.account_id = item.account_id
                AND usage_record.meter_id = item.meter_id
                AND usage_record.occurred_at >= span.from_at
                AND usage_record.occurred_at < span.until_at
                AND usage_record.import_seq <= target.usage_seq
        ) AS summed
        WHERE item.meter_id IS NOT NULL
            AND target.period_start < target.period_end
            AND summed.record_count > 0
        UNION ALL
        -- Usage of earlier periods that was imported after they were closed: a line for
        -- each of those periods.
        SELECT
            item.bucket, item.account_id, item.subscription_id, item.price_id,
            5, 'late_usage', summed.service_period, NULL, NULL,
            summed.quantity, summed.record_count, target.previous_seq,
            pgbill.local_midnight(lower(summed.service_period), target.zone),
            pgbill.local_midnight(upper(summed.service_period), target.zone)
        FROM item
        INNER JOIN target USING (bucket, account_id)
        CROSS JOIN LATERAL (
            SELECT
                original.service_period,
                sum(usage_record.quantity) AS quantity,
                count(*) AS record_count
            FROM pgbill.usage_record
            CROSS JOIN LATERAL (
                SELECT pgbill.boundary_number(
                    target.anchor_on, (usage_record.occurred_at AT TIME ZONE target.zone)::date
                )
            ) AS ending (number)
            CROSS JOIN LATERAL (
                SELECT
                    item.active_period * daterange(
                        greatest(
                            pgbill.boundary(target.anchor_on, ending.number - 1),
                            target.first_period_on
                        ),
                        pgbill.boundary(target.anchor_on, ending.number)
                    )
            ) AS original (service_period)
            WHERE usage_record.bucket = item.bucket
                AND usage_record.account_id = item.account_id
                AND usage_record.meter_id = item.meter_id
                AND usage_record.occurred_at >= item.late_from_at
                AND usage_record.occurred_at < item.period_from_at
                AND usage_record.import_seq > target.previous_seq
                AND usage_record.import_seq <= target.usage_seq
                AND item.active_period @> (usage_record.occurred_at AT TIME ZONE target.zone)::date
            GROUP BY original.service_period
        ) AS summed
        WHERE item.meter_id IS NOT NULL AND item.late_from_at < item.period_from_at
    ),

    line AS (
        SELECT
            item.bucket,
            item.account_id,
            row_number() OVER (
                PARTITION BY item.bucket, item.account_id
                ORDER BY
                    service.rank, item.subscription_key, item.price_key,
                    lower(service.service_period)
            ) AS line_no,
            service.kind,
            item.subscription_id,
            item.price_id,
            CASE WHEN service.usage_count IS NOT NULL THEN item.meter_id END AS meter_id,
            item.description,
            service.quantity,
            item.unit_code,
            version.unit_amount,
            rated.rating_input,
            tax_rate.category AS tax_category,
            tax_rate.rate AS tax_rate,
            tax_rate.legal_text,
            service.service_period,
            service.usage_from_at,
            service.usage_until_at,
            service.usage_after_seq,
            CASE WHEN service.usage_count IS NOT NULL THEN target.usage_seq END AS usage_through_seq,
            service.usage_count,
            item.purchase_order,
            item.contract_number,
            item.cost_centre,
            item.revenue_account,
            CASE
                WHEN version.unit_amount IS NULL
                    THEN format(
                        'price %s has no amount on %s', item.price_key, lower(service.service_period)
                    )
                WHEN tax_rate.rate IS NULL
                    THEN format(
                        'no tax rate for seller country %s, buyer country %s, %s, class %s on %s',
                        target.seller_country, target.buyer_country, target.buyer_status,
                        item.tax_class, upper(service.service_period) - 1
                    )
            END AS problem
        FROM service
        INNER JOIN target USING (bucket, account_id)
        INNER JOIN item USING (bucket, account_id, subscription_id, price_id)
        LEFT JOIN LATERAL (
            SELECT price_tier.unit_amount
            FROM pgbill.price_tier
            WHERE price_tier.price_id = item.price_id
                AND price_tier.begins_on <= lower(service.service_period)
            ORDER BY price_tier.begins_on DESC
            LIMIT 1
        ) AS version ON TRUE
        LEFT JOIN pgbill.tax_rate
            ON
                target.seller_country = tax_rate.seller_country
                AND target.buyer_country = tax_rate.buyer_country
                AND target.buyer_status = tax_rate.buyer_status
                AND item.tax_class = tax_rate.tax_class
                AND tax_rate.valid_period @> (upper(service.service_period) - 1)
        CROSS JOIN LATERAL (
            SELECT
                CASE
                    WHEN service.whole_end - service.whole_start
                        <> upper(service.service_period) - lower(service.service_period)
                        THEN jsonb_build_object(
                            'model', 'flat',
                            'quantity', service.quantity,
                            'unit_amount', version.unit_amount,
                            'part_days',
                            upper(service.service_period) - lower(service.service_period),
                            'whole_days', service.whole_end - service.whole_start,
                            'digits', target.digits
                        )
                    ELSE jsonb_build_object(
                        'model',
                        CASE WHEN service.usage_count IS NULL THEN 'flat' ELSE 'per_unit' END,
                        'quantity', service.quantity,
                        'unit_amount', version.unit_amount,
                        'digits', target.digits
                    )
                END
        ) AS rated (rating_input)
        WHERE NOT isempty(service.service_period)
    )

    SELECT
        target.bucket,
        target.account_id,
        coalesce(
            CASE
                WHEN overdue.is_too_long
                    THEN format(
                        'more than %s billing periods are due since %s',
                        p_max_due_periods, target.period_start
                    )
            END,
            rated.problem
        ),
        jsonb_build_object(
            'period_start', target.period_start,
            'period_end', target.period_end,
            'usage_seq', target.usage_seq,
            'digits', target.digits,
            'lines', coalesce(rated.lines, '[]')
        )
    FROM target
    CROSS JOIN LATERAL (
        SELECT
            latest.due_on
            <= least(
                coalesce(p_through_on, 'infinity'::date - 1) + 1,
                (clock_timestamp() AT TIME ZONE target.zone)::date
            )
            AND target.period_end > coalesce(target.approved_on, '-infinity')
        FROM (
            SELECT
                pgbill.boundary(
                    target.anchor_on, target.next_number + p_max_due_periods - 1
                )
        ) AS latest (due_on)
    ) AS overdue (is_too_long)
    LEFT JOIN (
        SELECT
            line.bucket,
            line.account_id,
            min(line.problem) AS problem,
            jsonb_agg(
                jsonb_build_object(
                    'line_no', line.line_no,
                    'kind', line.kind,
                    'subscription_id', line.subscription_id,
                    'price_id', line.price_id,
                    'meter_id', line.meter_id,
                    'description', line.description,
                    'quantity', line.quantity,
                    'unit_code', line.unit_code,
                    'unit_amount', line.unit_amount,
                    'net_amount', pgbill.price(line.rating_input),
                    'tax_category', line.tax_category,
                    'tax_rate', line.tax_rate,
                    'legal_text', line.legal_text,
                    'service_period', line.service_period,
                    'usage_from_at', line.usage_from_at,
                    'usage_until_at', line.usage_until_at,
                    'usage_after_seq', line.usage_after_seq,
                    'usage_through_seq', line.usage_through_seq,
                    'usage_count', line.usage_count,
                    'purchase_order', line.purchase_order,
                    'contract_number', line.contract_number,
                    'cost_centre', line.cost_centre,
                    'revenue_account', line.revenue_account,
                    'rating_input', line.rating_input
                )
                ORDER BY line.line_no
            ) AS lines
        FROM line
        GROUP BY line.bucket, line.account_id
    ) AS rated USING (bucket, account_id);
END;
$$;

COMMENT ON FUNCTION pgbill.rate IS
'The lines of the earliest open period of each account, as a draft that pgbill.issue takes, or the problem that stands against it.';
