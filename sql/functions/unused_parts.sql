-- What was paid in advance for days on which the price is over: lines that give it back. A
-- single SELECT without settings: it is inlined into pgbill.rate.

CREATE OR REPLACE FUNCTION pgbill.unused_parts(
    p_bucket integer,
    p_account_id bigint,
    p_period_start date,
    -- An end that is known before counts where the price that follows is charged.
    p_through_on date,
    p_anchor_on date,
    p_billing_interval text,
    p_zone text,
    p_proration text,
    p_digits integer,
    p_rounding text
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
ROWS 1
AS $$
    SELECT
        7,
        'unused_advance',
        subscription.subscription_id,
        subscription.key,
        price.price_id,
        price.key,
        NULL::integer,
        unused.description,
        -1::numeric,
        unused.unit_code,
        unused.amount,
        credit.amount,
        0::numeric,
        unused.unused_period,
        NULL::timestamptz,
        NULL::timestamptz,
        NULL::bigint,
        NULL::bigint,
        subscription.purchase_order,
        subscription.contract_number,
        subscription.cost_centre,
        price.revenue_account,
        credit.rating_input,
        NULL::text,
        NULL::bigint,
        unused.invoice_id,
        unused.line_no,
        price.tax_class,
        unused.tax_included,
        unused.tax_category,
        unused.tax_rate,
        unused.legal_text,
        FALSE,
        NULL::text
    FROM pgbill.subscription_price
    INNER JOIN pgbill.subscription
        ON
            subscription_price.bucket = subscription.bucket
            AND subscription_price.account_id = subscription.account_id
            AND subscription_price.subscription_id = subscription.subscription_id
    INNER JOIN pgbill.price ON subscription_price.price_id = price.price_id
    CROSS JOIN LATERAL pgbill.unused_advances(
        p_bucket, p_account_id, subscription_price.subscription_id,
        subscription_price.price_id, subscription_price.active_period,
        p_period_start,
        pgbill.boundary(
            p_anchor_on,
            p_billing_interval,
            pgbill.boundary_number(p_anchor_on, p_billing_interval, p_period_start)
        )
    ) AS unused
    -- What was used goes before it: what is kept and what is given back sum to the fee.
    CROSS JOIN LATERAL pgbill.share_after(
        lower(unused.service_period), unused.unused_period, p_anchor_on,
        coalesce(price.billing_interval, p_billing_interval), p_proration, p_zone
    ) AS given_back
    CROSS JOIN LATERAL pgbill.share(
        unused.service_period, p_anchor_on,
        coalesce(price.billing_interval, p_billing_interval), p_proration, p_zone
    ) AS billed
    CROSS JOIN LATERAL (
        SELECT
            coalesce(given_back.after_part, 0) * billed.whole AS after_part,
            given_back.part * billed.whole AS part,
            given_back.whole * billed.part AS whole
    ) AS fraction
    CROSS JOIN LATERAL (
        SELECT gcd(gcd(fraction.after_part, fraction.part), fraction.whole) AS divisor
    ) AS common
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
                    'after_part', nullif(div(fraction.after_part, common.divisor), 0),
                    'part', div(fraction.part, common.divisor),
                    'whole', div(fraction.whole, common.divisor),
                    'digits', p_digits,
                    'rounding', nullif(p_rounding, 'half_up')
                )) AS rating_input
        ) AS told
    ) AS credit
    WHERE price.timing = 'advance'
        AND subscription_price.bucket = p_bucket
        AND subscription_price.account_id = p_account_id
        AND upper(subscription_price.active_period) BETWEEN p_period_start AND p_through_on
        -- By days of 30 all of it may be used up before its end.
        AND credit.amount <> 0;
$$;

COMMENT ON FUNCTION pgbill.unused_parts IS
'Lines of kind unused_advance of a closing, at the tax rate of the fee that they give '
'back, as pgbill.rate takes them.';
