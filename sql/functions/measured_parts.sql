-- The quantity that a part of a closing is billed for: that of the subscription, or that of
-- the usage, by value of a dimension if the price groups. A single SELECT without settings:
-- it is inlined into pgbill.rate, and only one branch runs.
--
-- Late usage of a price whose amounts depend on each other (tiers, a maximum, …) is billed as
-- the difference between what all of it costs and what was known before: terms then holds
-- the measure from before.

CREATE OR REPLACE FUNCTION pgbill.measured_parts(
    p_bucket integer,
    p_account_id bigint,
    p_meter_id integer,
    p_model text,
    p_group_by text,
    p_kind text,
    p_from_at timestamptz,
    p_until_at timestamptz,
    p_previous_seq bigint,
    p_usage_seq bigint,
    p_subscribed_quantity numeric,
    p_is_linear boolean,
    -- Whether it is billed without any usage, too.
    p_bills_zero boolean,
    -- Whether late usage of one group changes what is billed of another.
    p_has_limits boolean,
    p_aggregation text,
    p_unique_dimension text,
    p_quantity_digits integer,
    p_quantity_rounding text,
    p_fraction numeric,
    p_fixed_amount numeric,
    p_free_amount numeric,
    p_free_count bigint,
    p_record_minimum numeric,
    p_record_maximum numeric
)
RETURNS TABLE (
    group_value text,
    -- What is priced, and what the line tells: of late usage only the difference.
    quantity numeric,
    billed_quantity numeric,
    record_count bigint,
    terms jsonb
)
LANGUAGE sql
STABLE
PARALLEL SAFE
ROWS 1
AS $$
    SELECT
        NULL::text,
        p_subscribed_quantity,
        p_subscribed_quantity,
        NULL::bigint,
        NULL::jsonb
    WHERE p_kind IN ('advance', 'arrears', 'minimum', 'maximum')
    UNION ALL
    SELECT
        usage.group_value,
        pgbill.rounded_quantity(usage.quantity, p_quantity_digits, p_quantity_rounding),
        pgbill.rounded_quantity(usage.quantity, p_quantity_digits, p_quantity_rounding),
        usage.record_count,
        NULL
    FROM pgbill.measured(
        p_bucket, p_account_id, p_meter_id, p_aggregation, p_unique_dimension, p_group_by,
        p_from_at, p_until_at, 0, p_usage_seq
    ) AS usage
    WHERE p_kind = 'usage' AND p_model <> 'percentage'
    UNION ALL
    SELECT
        usage.group_value,
        usage.quantity,
        usage.quantity,
        usage.record_count,
        jsonb_build_object(
            'charged_amount', usage.charged_amount,
            'charged_count', usage.charged_count,
            'minimum_count', usage.minimum_count,
            'maximum_count', usage.maximum_count
        )
    FROM pgbill.measured_records(
        p_bucket, p_account_id, p_meter_id, p_group_by, p_from_at, p_until_at, 0, p_usage_seq,
        p_fraction, p_fixed_amount, p_free_amount, p_free_count, p_record_minimum,
        p_record_maximum
    ) AS usage
    WHERE p_kind = 'usage' AND p_model = 'percentage'
    UNION ALL
    SELECT
        NULL,
        0,
        0,
        0,
        CASE
            WHEN p_model = 'percentage'
                THEN '{"charged_amount": 0, "charged_count": 0, "minimum_count": 0, "maximum_count": 0}'
        END::jsonb
    WHERE p_kind = 'usage'
        AND p_bills_zero
        AND NOT EXISTS (
            SELECT
            FROM pgbill.usage_record
            WHERE usage_record.bucket = p_bucket
                AND usage_record.account_id = p_account_id
                AND usage_record.meter_id = p_meter_id
                AND usage_record.occurred_at >= p_from_at
                AND usage_record.occurred_at < p_until_at
                AND usage_record.import_seq <= p_usage_seq
        )
    UNION ALL
    SELECT late.group_value, late.quantity, late.quantity, late.record_count, NULL
    FROM pgbill.measured_since(
        p_bucket, p_account_id, p_meter_id, p_aggregation, p_unique_dimension, p_group_by,
        p_from_at, p_until_at, p_previous_seq, p_usage_seq
    ) AS late
    WHERE p_kind = 'late_usage' AND p_is_linear
    UNION ALL
    SELECT
        late.group_value, late.quantity, late.quantity - late.quantity_before, late.record_count,
        late.terms
    FROM pgbill.measured_late(
        p_bucket, p_account_id, p_meter_id, p_model, p_group_by, p_from_at, p_until_at,
        p_previous_seq, p_usage_seq, p_has_limits, p_aggregation, p_unique_dimension,
        p_quantity_digits, p_quantity_rounding, p_fraction, p_fixed_amount, p_free_amount,
        p_free_count, p_record_minimum, p_record_maximum
    ) AS late
    WHERE p_kind = 'late_usage' AND NOT p_is_linear;
$$;

COMMENT ON FUNCTION pgbill.measured_parts IS
'The quantities that a part of a closing is billed for, each with what a price needs to '
'know besides; no row if there is nothing to bill.';
