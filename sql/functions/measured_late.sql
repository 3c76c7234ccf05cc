-- Late usage of a closed period, as the difference between two measures: of all records that
-- are known now, and of those that were known before. Rare, so it may take its time.

CREATE OR REPLACE FUNCTION pgbill.measured_late(
    p_bucket integer,
    p_account_id bigint,
    p_meter_id integer,
    p_model text,
    p_group_by text,
    p_from_at timestamptz,
    p_until_at timestamptz,
    p_previous_seq bigint,
    p_usage_seq bigint,
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
    quantity numeric,
    quantity_before numeric,
    record_count bigint,
    terms jsonb
)
LANGUAGE plpgsql
STABLE
PARALLEL SAFE
AS $$
BEGIN
    RETURN QUERY
    WITH measure AS MATERIALIZED (
        SELECT
            known.is_before,
            usage.group_value,
            pgbill.rounded_quantity(usage.quantity, p_quantity_digits, p_quantity_rounding)
                AS quantity,
            usage.record_count,
            NULL::jsonb AS content
        FROM (VALUES (TRUE, p_previous_seq), (FALSE, p_usage_seq)) AS known (is_before, through_seq)
        CROSS JOIN LATERAL pgbill.measured(
            p_bucket, p_account_id, p_meter_id, p_aggregation, p_unique_dimension, p_group_by,
            p_from_at, p_until_at, 0, known.through_seq
        ) AS usage
        WHERE p_model <> 'percentage'
        UNION ALL
        SELECT
            known.is_before,
            usage.group_value,
            usage.quantity,
            usage.record_count,
            jsonb_build_object(
                'charged_amount', usage.charged_amount,
                'charged_count', usage.charged_count,
                'minimum_count', usage.minimum_count,
                'maximum_count', usage.maximum_count
            )
        FROM (VALUES (TRUE, p_previous_seq), (FALSE, p_usage_seq)) AS known (is_before, through_seq)
        CROSS JOIN LATERAL pgbill.measured_records(
            p_bucket, p_account_id, p_meter_id, p_group_by, p_from_at, p_until_at, 0,
            known.through_seq, p_fraction, p_fixed_amount, p_free_amount, p_free_count,
            p_record_minimum, p_record_maximum
        ) AS usage
        WHERE p_model = 'percentage'
    ),

    compared AS (
        SELECT
            now.group_value,
            now.quantity,
            coalesce(before.quantity, 0) AS quantity_before,
            now.record_count - coalesce(before.record_count, 0) AS record_count,
            now.content,
            coalesce(
                before.content,
                CASE
                    WHEN p_model = 'percentage'
                        THEN '{"charged_amount": 0, "charged_count": 0, "minimum_count": 0, '
                        '"maximum_count": 0}'
                END::jsonb
            ) AS content_before
        FROM measure AS now
        LEFT JOIN measure AS before
            ON before.is_before AND now.group_value IS NOT DISTINCT FROM before.group_value
        WHERE NOT now.is_before
    )

    SELECT
        compared.group_value,
        compared.quantity,
        compared.quantity_before,
        compared.record_count,
        coalesce(compared.content, '{}') || jsonb_build_object(
            'before',
            jsonb_build_object('quantity', compared.quantity_before)
            || coalesce(compared.content_before, '{}')
        )
    FROM compared
    -- Within limits of spending, what the other groups bring counts too.
    WHERE compared.record_count > 0
        OR p_has_limits AND EXISTS (SELECT FROM compared AS other WHERE other.record_count > 0);
END;
$$;

COMMENT ON FUNCTION pgbill.measured_late IS
'What late usage changes in the measure of a closed period, by value of a dimension if it is '
'grouped; no row if nothing is late.';
