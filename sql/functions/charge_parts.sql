-- The one-off charges that a closing bills: those of days before its boundary that no line
-- bills yet. Issued again, it bills those that it has billed; what came later waits for the
-- next. A single SELECT without settings: it is inlined into pgbill.rate.

CREATE OR REPLACE FUNCTION pgbill.charge_parts(
    p_bucket integer,
    p_account_id bigint,
    p_period_start date,
    p_period_end date,
    p_digits integer,
    p_rounding text,
    -- Whether the invoice of the closing is issued again.
    p_is_again boolean
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
        8,
        'charge',
        NULL::bigint,
        NULL::text,
        NULL::integer,
        charge.key,
        NULL::integer,
        charge.description,
        charge.quantity,
        charge.unit_code,
        charge.unit_amount,
        pgbill.price(told.rating_input),
        charge.discount_amount,
        daterange(charge.service_on, charge.service_on + 1),
        NULL::timestamptz,
        NULL::timestamptz,
        NULL::bigint,
        NULL::bigint,
        charge.purchase_order,
        charge.contract_number,
        charge.cost_centre,
        charge.revenue_account,
        told.rating_input,
        NULL::text,
        charge.charge_id,
        NULL::bigint,
        NULL::integer,
        charge.tax_class,
        charge.tax_included,
        NULL::text,
        NULL::numeric,
        NULL::text,
        FALSE,
        NULL::text
    FROM pgbill.charge
    CROSS JOIN LATERAL (
        SELECT
            jsonb_strip_nulls(jsonb_build_object(
                'model', 'charge',
                'quantity', charge.quantity,
                'unit_amount', charge.unit_amount,
                'per_quantity', nullif(charge.per_quantity, 1),
                'digits', p_digits,
                'rounding', nullif(p_rounding, 'half_up')
            )) AS rating_input
    ) AS told
    WHERE charge.bucket = p_bucket
        AND charge.account_id = p_account_id
        AND (
            charge.service_on < p_period_end
            OR p_period_start = p_period_end
            AND charge.service_on = p_period_end
        )
        AND CASE
            WHEN p_is_again
                THEN pgbill.is_charge_of(
                    charge.bucket, charge.account_id, charge.charge_id, p_period_end
                )
            ELSE NOT pgbill.is_charge_billed(
                charge.bucket, charge.account_id, charge.charge_id
            )
        END;
$$;

COMMENT ON FUNCTION pgbill.charge_parts IS
'Lines of kind charge of a closing, as pgbill.rate takes them.';
