-- Rate the earliest open period of accounts, or closed periods whose invoices are issued
-- again: gather what it is made of, price it, and look up the tax rates, unless a service is
-- to be asked for them. It writes nothing and locks nothing, so that a preview may use it too.
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
    p_tax_by_table boolean DEFAULT TRUE,
    -- Closed periods, one for each account; null: the earliest open ones.
    p_period_ends date[] DEFAULT NULL
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
            period.bucket,
            period.account_id,
            period.language,
            period.zone,
            period.buyer_country,
            period.buyer_status,
            period.buyer_vat_id,
            period.anchor_on,
            period.billing_interval,
            period.first_period_on,
            period.seller_country,
            period.policy_id,
            period.line_rounding,
            period.proration,
            period.credits_unused,
            period.digits,
            period.period_end,
            period.until_at,
            period.period_start,
            period.from_at,
            period.has_kept_lines,
            period.has_carried,
            period.approved_on,
            period.next_number,
            period.ending,
            period.beginning,
            period.previous_seq,
            period.usage_seq,
            period.late_from_at,
            period.has_discounts
        FROM pgbill.periods_to_rate(p_buckets, p_account_ids, p_period_ends) AS period
    )

    SELECT
        rated.bucket,
        rated.account_id,
        CASE
            WHEN rated.is_too_long THEN 'parked'
            WHEN rated.problem IS NOT NULL THEN 'failed'
        END,
        rated.problem,
        ROW(
            rated.period_start,
            rated.period_end,
            rated.usage_seq,
            CASE
                WHEN rated.problem IS NULL AND rated.needs_adjusting
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
            bool_or(overdue.is_too_long) AS is_too_long,
            CASE
                WHEN bool_or(overdue.is_too_long)
                    THEN format(
                        'more than %s billing periods are due since %s',
                        p_max_due_periods, min(target.period_start)
                    )
                WHEN count(drafted.problem) + count(tax.problem) > 0
                    THEN coalesce(min(drafted.problem), min(tax.problem))
                WHEN bool_or(drafted.tax_included) <> bool_and(drafted.tax_included)
                    OR bool_or(target.has_carried) AND bool_or(drafted.tax_included)
                    <> pgbill.is_carried_with_tax(
                        target.bucket, target.account_id, min(target.period_start)
                    )
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
                subscribed.rank,
                subscribed.kind,
                subscribed.subscription_id,
                subscribed.subscription_key,
                subscribed.price_id,
                subscribed.price_key,
                subscribed.meter_id,
                subscribed.description,
                subscribed.quantity,
                subscribed.unit_code,
                subscribed.unit_amount,
                subscribed.amount,
                subscribed.discount_amount,
                subscribed.service_period,
                subscribed.from_at,
                subscribed.until_at,
                subscribed.after_seq,
                subscribed.usage_count,
                subscribed.purchase_order,
                subscribed.contract_number,
                subscribed.cost_centre,
                subscribed.revenue_account,
                subscribed.rating_input,
                subscribed.group_value,
                subscribed.charge_id,
                subscribed.credited_invoice_id,
                subscribed.credited_line_no,
                subscribed.tax_class,
                subscribed.tax_included,
                subscribed.tax_category,
                subscribed.tax_rate,
                subscribed.legal_text,
                subscribed.has_limits,
                subscribed.problem
            FROM pgbill.subscription_parts(
                target.bucket,
                target.account_id,
                target.language,
                target.zone,
                target.anchor_on,
                target.billing_interval,
                target.first_period_on,
                target.line_rounding,
                target.proration,
                target.digits,
                target.period_start,
                target.period_end,
                target.from_at,
                target.until_at,
                target.ending,
                target.beginning,
                target.previous_seq,
                target.usage_seq,
                target.late_from_at,
                target.has_kept_lines
            ) AS subscribed
            -- The closing after it has billed what was not there yet.
            WHERE p_period_ends IS NULL
                OR subscribed.kind <> 'advance'
                OR NOT pgbill.is_billed_by_next(
                    target.bucket,
                    target.account_id,
                    subscribed.subscription_id,
                    subscribed.price_id,
                    target.period_end,
                    lower(subscribed.service_period)
                )
            UNION ALL
            SELECT
                unused.rank,
                unused.kind,
                unused.subscription_id,
                unused.subscription_key,
                unused.price_id,
                unused.price_key,
                unused.meter_id,
                unused.description,
                unused.quantity,
                unused.unit_code,
                unused.unit_amount,
                unused.amount,
                unused.discount_amount,
                unused.service_period,
                unused.from_at,
                unused.until_at,
                unused.after_seq,
                unused.usage_count,
                unused.purchase_order,
                unused.contract_number,
                unused.cost_centre,
                unused.revenue_account,
                unused.rating_input,
                unused.group_value,
                unused.charge_id,
                unused.credited_invoice_id,
                unused.credited_line_no,
                unused.tax_class,
                unused.tax_included,
                unused.tax_category,
                unused.tax_rate,
                unused.legal_text,
                unused.has_limits,
                unused.problem
            -- Through the days that are billed in advance now: a change in them that is known
            -- already gives back and charges on one invoice.
            FROM pgbill.unused_parts(
                target.bucket, target.account_id, target.period_start,
                upper(target.beginning) - 1,
                target.anchor_on, target.billing_interval, target.zone, target.proration,
                target.digits, target.line_rounding
            ) AS unused
            WHERE target.credits_unused
            UNION ALL
            SELECT
                charged.rank,
                charged.kind,
                charged.subscription_id,
                charged.subscription_key,
                charged.price_id,
                charged.price_key,
                charged.meter_id,
                charged.description,
                charged.quantity,
                charged.unit_code,
                charged.unit_amount,
                charged.amount,
                charged.discount_amount,
                charged.service_period,
                charged.from_at,
                charged.until_at,
                charged.after_seq,
                charged.usage_count,
                charged.purchase_order,
                charged.contract_number,
                charged.cost_centre,
                charged.revenue_account,
                charged.rating_input,
                charged.group_value,
                charged.charge_id,
                charged.credited_invoice_id,
                charged.credited_line_no,
                charged.tax_class,
                charged.tax_included,
                charged.tax_category,
                charged.tax_rate,
                charged.legal_text,
                charged.has_limits,
                charged.problem
            FROM pgbill.charge_parts(
                target.bucket, target.account_id, target.period_start, target.period_end,
                target.digits, target.line_rounding, p_period_ends IS NOT NULL
            ) AS charged
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
'The earliest open period of each account, or a closed one, as a draft that pgbill.issue '
'takes; or with outcome failed or parked the problem that stands against it.';
