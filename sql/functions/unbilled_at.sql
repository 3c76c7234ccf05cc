-- What is earned at the end of a day and not invoiced yet, and what is invoiced and not earned
-- yet: for the accruals of a month's end. A day of service is earned when it is over.
--
-- Documents dated after the day count as not issued: their lines are earned as far as their
-- service was before. What no closing has billed is rated as a run would rate it, by the same
-- functions, for every open period up to the day; the last one is cut there, so that its fees
-- are parts of a period by the seller's policy, and usage is what there is.

CREATE OR REPLACE FUNCTION pgbill.unbilled_at(p_on date)
RETURNS TABLE (
    bucket integer,
    account_id bigint,
    currency text,
    revenue_account text,
    accrued_amount numeric,
    deferred_amount numeric,
    problem text
)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = ''
SET plan_cache_mode = force_generic_plan
SET random_page_cost = 1.1
AS $$
DECLARE
    -- Longer than any period of a price: where its end is looked for.
    c_days CONSTANT integer := 800;
    v_until date := p_on + 1;
BEGIN
    -- Documents. A line and what credits take back of it are apportioned as a sum: each by
    -- itself would be rounded, and a line that was credited whole would leave a cent.
    RETURN QUERY
    SELECT
        document.bucket,
        document.account_id,
        document.currency,
        document.revenue_account,
        CASE WHEN document.is_later THEN earned.amount ELSE 0 END,
        CASE WHEN document.is_later THEN 0 ELSE document.net_amount - earned.amount END,
        NULL::text
    FROM (
        SELECT
            invoice.bucket,
            invoice.account_id,
            invoice.currency,
            line.revenue_account,
            line.service_period,
            invoice.issued_on > p_on AS is_later,
            sum(line.net_amount) AS net_amount
        FROM pgbill.invoice
        INNER JOIN pgbill.invoice_line AS line
            ON
                invoice.bucket = line.bucket
                AND invoice.account_id = line.account_id
                AND invoice.invoice_id = line.invoice_id
        WHERE invoice.mode = 'live'
            AND (
                invoice.issued_on <= p_on AND upper(line.service_period) > v_until
                OR invoice.issued_on > p_on AND lower(line.service_period) < v_until
            )
        GROUP BY
            invoice.bucket,
            invoice.account_id,
            invoice.currency,
            line.revenue_account,
            line.service_period,
            invoice.issued_on > p_on,
            coalesce(line.credited_invoice_id, line.invoice_id),
            coalesce(line.credited_line_no, line.line_no)
    ) AS document
    INNER JOIN pgbill.currency ON document.currency = currency.currency
    CROSS JOIN LATERAL (
        SELECT
            pgbill.earned_amount(
                document.net_amount, document.service_period, v_until, currency.digits
            )
    ) AS earned (amount);

    -- Lines that wait for an invoice.
    RETURN QUERY
    SELECT
        last_closing.bucket,
        last_closing.account_id,
        account.currency,
        line.revenue_account,
        pgbill.earned_amount(
            coalesce(
                round(line.tax_included_amount / (1 + line.tax_rate / 100), currency.digits),
                line.net_amount
            ),
            line.service_period, v_until, currency.digits
        ),
        0::numeric,
        NULL::text
    FROM pgbill.account
    INNER JOIN pgbill.currency ON account.currency = currency.currency
    CROSS JOIN LATERAL (
        SELECT
            billing_period.bucket,
            billing_period.account_id,
            billing_period.period_end,
            billing_period.outcome
        FROM pgbill.billing_period
        WHERE billing_period.bucket = account.bucket
            AND billing_period.account_id = account.account_id
        ORDER BY billing_period.period_end DESC
        LIMIT 1
    ) AS last_closing
    INNER JOIN pgbill.carried_line
        ON
            last_closing.bucket = carried_line.bucket
            AND last_closing.account_id = carried_line.account_id
            AND last_closing.period_end = carried_line.period_end
    CROSS JOIN LATERAL jsonb_populate_record(NULL::pgbill.invoice_line, carried_line.line) AS line
    WHERE last_closing.outcome = 'carried_forward';

    -- What no closing has billed.
    RETURN QUERY
    WITH target AS MATERIALIZED (
        SELECT
            open_period.bucket,
            open_period.account_id,
            account.currency,
            account.country AS buyer_country,
            account.tax_status AS buyer_status,
            open_period.language,
            open_period.zone,
            open_period.anchor_on,
            open_period.billing_interval,
            open_period.first_period_on,
            open_period.seller_country,
            open_period.line_rounding,
            open_period.proration,
            open_period.credits_unused,
            open_period.digits,
            open_period.period_start,
            open_period.period_end,
            open_period.from_at,
            open_period.until_at,
            open_period.next_number,
            open_period.ending,
            open_period.previous_seq,
            open_period.usage_seq,
            open_period.late_from_at,
            open_period.has_kept_lines
        FROM (
            SELECT
                array_agg(account.bucket ORDER BY account.bucket, account.account_id) AS buckets,
                array_agg(account.account_id ORDER BY account.bucket, account.account_id) AS ids
            FROM pgbill.account
        ) AS everyone
        CROSS JOIN LATERAL pgbill.periods_to_rate(everyone.buckets, everyone.ids, NULL)
            AS open_period
        INNER JOIN pgbill.account
            ON
                open_period.bucket = account.bucket
                AND open_period.account_id = account.account_id
    ),

    -- Amounts that include tax are told without, by the table of rates.
    drafted AS (
        SELECT
            target.bucket,
            target.account_id,
            target.currency,
            target.digits,
            coalesce(
                min(part.problem),
                min(
                    CASE
                        WHEN part.tax_included AND coalesce(part.tax_rate, found.rate) IS NULL
                            THEN format('no tax rate for class %s', part.tax_class)
                    END
                )
            ) AS problem,
            array_agg(
                jsonb_populate_record(
                    NULL::pgbill.invoice_line,
                    jsonb_build_object(
                        'kind', part.kind,
                        'subscription_id', part.subscription_id,
                        'price_id', part.price_id,
                        'meter_id', part.meter_id,
                        'description', part.description,
                        'quantity', part.quantity,
                        'unit_code', part.unit_code,
                        'unit_amount', part.unit_amount,
                        'net_amount', part.amount - part.discount_amount,
                        'tax_rate', coalesce(part.tax_rate, found.rate),
                        'tax_included_amount',
                        CASE WHEN part.tax_included THEN part.amount - part.discount_amount END,
                        'service_period', part.service_period,
                        'usage_count', part.usage_count,
                        'revenue_account', part.revenue_account,
                        'rating_input', part.rating_input,
                        'discount_amount', part.discount_amount,
                        'group_value', part.group_value,
                        'charge_id', part.charge_id
                    )
                )
            ) AS lines
        FROM target
        -- The earliest open period, and those after it, up to the day. The earliest one is
        -- there even if it begins later: what came late for closed periods belongs to it.
        CROSS JOIN LATERAL (
            SELECT
                0 AS place,
                target.period_start,
                greatest(target.period_start, least(target.period_end, v_until)) AS period_end,
                target.from_at,
                CASE
                    WHEN v_until < target.period_end
                        THEN greatest(
                            target.from_at,
                            pgbill.local_midnight(v_until, target.zone)
                        )
                    ELSE target.until_at
                END AS until_at,
                target.ending,
                target.previous_seq,
                target.late_from_at,
                target.has_kept_lines
            UNION ALL
            SELECT
                later.place,
                bounds.begins_on,
                least(bounds.ends_on, v_until),
                pgbill.local_midnight(bounds.begins_on, target.zone),
                pgbill.local_midnight(least(bounds.ends_on, v_until), target.zone),
                daterange(bounds.whole_on, bounds.ends_on),
                0::bigint,
                NULL::timestamptz,
                FALSE
            FROM generate_series(
                1,
                pgbill.boundary_number(target.anchor_on, target.billing_interval, p_on)
                - target.next_number + 1
            ) AS later (place)
            CROSS JOIN LATERAL (
                SELECT
                    numbered.whole_on,
                    greatest(numbered.whole_on, target.period_end) AS begins_on,
                    numbered.ends_on
                FROM (
                    VALUES (
                        pgbill.boundary(
                            target.anchor_on, target.billing_interval,
                            target.next_number - 2 + later.place
                        ),
                        pgbill.boundary(
                            target.anchor_on, target.billing_interval,
                            target.next_number - 1 + later.place
                        )
                    )
                ) AS numbered (whole_on, ends_on)
            ) AS bounds
            WHERE bounds.begins_on < v_until
        ) AS period
        CROSS JOIN LATERAL (
            SELECT
                subscribed.kind, subscribed.subscription_id, subscribed.price_id,
                    subscribed.meter_id, subscribed.description, subscribed.quantity,
                subscribed.unit_code, subscribed.unit_amount, subscribed.amount,
                subscribed.discount_amount, subscribed.tax_rate, subscribed.service_period,
                subscribed.usage_count, subscribed.revenue_account, subscribed.rating_input,
                subscribed.group_value, subscribed.charge_id, subscribed.tax_class,
                subscribed.tax_included, subscribed.problem
            FROM pgbill.subscription_parts(
                target.bucket, target.account_id, target.language, target.zone,
                target.anchor_on, target.billing_interval, target.first_period_on,
                target.line_rounding, target.proration, target.digits, period.period_start,
                period.period_end, period.from_at, period.until_at, period.ending,
                daterange(period.period_end, period.period_end + 1), period.previous_seq,
                target.usage_seq, period.late_from_at, period.has_kept_lines
            ) AS subscribed
            -- What would be billed in advance on the next day is not earned.
            WHERE lower(subscribed.service_period) < greatest(period.period_end, v_until)
                AND (subscribed.kind <> 'advance' OR lower(subscribed.service_period) < period.period_end)
            UNION ALL
            -- Periods of prices that are longer than the account's, and go on.
            SELECT
                longer.kind, longer.subscription_id, longer.price_id, longer.meter_id,
                longer.description, longer.quantity, longer.unit_code, longer.unit_amount,
                longer.amount, longer.discount_amount, longer.tax_rate, longer.service_period,
                longer.usage_count, longer.revenue_account, longer.rating_input,
                longer.group_value, longer.charge_id, longer.tax_class, longer.tax_included,
                longer.problem
            FROM pgbill.subscription_parts(
                target.bucket, target.account_id, target.language, target.zone,
                target.anchor_on, target.billing_interval, target.first_period_on,
                target.line_rounding, target.proration, target.digits, v_until,
                v_until + c_days, NULL, NULL, daterange(v_until, v_until + c_days),
                daterange(v_until + c_days, v_until + c_days + 1), 0, 0, NULL, FALSE
            ) AS longer
            WHERE period.place = 0
                AND longer.kind = 'arrears'
                AND lower(longer.service_period) < v_until
                AND upper(longer.service_period) > v_until
            UNION ALL
            SELECT
                unused.kind, unused.subscription_id, unused.price_id, unused.meter_id,
                unused.description, unused.quantity, unused.unit_code, unused.unit_amount,
                unused.amount, unused.discount_amount, unused.tax_rate, unused.service_period,
                unused.usage_count, unused.revenue_account, unused.rating_input,
                unused.group_value, unused.charge_id, unused.tax_class, unused.tax_included,
                unused.problem
            FROM pgbill.unused_parts(
                target.bucket, target.account_id, target.period_start, p_on, target.anchor_on,
                target.billing_interval, target.zone, target.proration, target.digits,
                target.line_rounding
            ) AS unused
            WHERE period.place = 0 AND target.credits_unused
            UNION ALL
            SELECT
                charged.kind, charged.subscription_id, charged.price_id, charged.meter_id,
                charged.description, charged.quantity, charged.unit_code, charged.unit_amount,
                charged.amount, charged.discount_amount, charged.tax_rate, charged.service_period,
                charged.usage_count, charged.revenue_account, charged.rating_input,
                charged.group_value, charged.charge_id, charged.tax_class, charged.tax_included,
                charged.problem
            FROM pgbill.charge_parts(
                target.bucket, target.account_id, NULL, v_until, target.digits,
                target.line_rounding, FALSE
            ) AS charged
            WHERE period.place = 0
        ) AS part
        LEFT JOIN LATERAL (
            SELECT tax_rate.rate
            FROM pgbill.tax_rate
            WHERE part.tax_included
                AND tax_rate.seller_country = target.seller_country
                AND tax_rate.buyer_country = target.buyer_country
                AND tax_rate.buyer_status = target.buyer_status
                AND tax_rate.tax_class = part.tax_class
                AND tax_rate.valid_period @> (upper(part.service_period) - 1)
            ORDER BY tax_rate.tax_rate_id
            LIMIT 1
        ) AS found ON TRUE
        GROUP BY target.bucket, target.account_id, target.currency, target.digits, period.place
    )

    SELECT
        drafted.bucket,
        drafted.account_id,
        drafted.currency,
        line.revenue_account,
        earned.amount,
        -- What is given back of a fee was deferred with it.
        CASE WHEN line.kind = 'unused_advance' THEN net.amount - earned.amount ELSE 0 END,
        NULL::text
    FROM drafted
    CROSS JOIN LATERAL unnest(
        pgbill.adjusted(drafted.lines, drafted.bucket, drafted.account_id, '-infinity')
    ) AS line
    CROSS JOIN LATERAL (
        SELECT
            coalesce(
                round(line.tax_included_amount / (1 + line.tax_rate / 100), drafted.digits),
                line.net_amount
            )
    ) AS net (amount)
    CROSS JOIN LATERAL (
        SELECT pgbill.earned_amount(net.amount, line.service_period, v_until, drafted.digits)
    ) AS earned (amount)
    WHERE drafted.problem IS NULL
    UNION ALL
    SELECT
        drafted.bucket,
        drafted.account_id,
        drafted.currency,
        NULL,
        0,
        0,
        drafted.problem
    FROM drafted
    WHERE drafted.problem IS NOT NULL;
END;
$$;

COMMENT ON FUNCTION pgbill.unbilled_at IS
'Revenue by account of the ledger that is earned at the end of a day and not invoiced, and '
'that is invoiced and not earned; or, of accounts that cannot be rated, the problem.';
