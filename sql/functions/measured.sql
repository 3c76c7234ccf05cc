-- One quantity out of the usage records of a meter, or one for each value of a dimension.
--
-- It is a single SELECT without settings, so it is inlined where it is called; only one of
-- its parts runs. The first, for plain sums, is what nearly all usage takes. In the last a
-- record is taken together with those that correct it; one that is corrected to nothing
-- counts no more.

CREATE OR REPLACE FUNCTION pgbill.measured(
    p_bucket integer,
    p_account_id bigint,
    p_meter_id integer,
    p_aggregation text,
    p_unique_dimension text,
    p_group_by text,
    p_from_at timestamptz,
    p_until_at timestamptz,
    p_after_seq bigint,
    p_through_seq bigint
)
RETURNS TABLE (group_value text, quantity numeric, record_count bigint)
LANGUAGE sql
STABLE
PARALLEL SAFE
ROWS 1
AS $$
    SELECT NULL::text, sum(usage_record.quantity), count(*)
    FROM pgbill.usage_record
    WHERE p_aggregation = 'sum'
        AND p_group_by IS NULL
        AND usage_record.bucket = p_bucket
        AND usage_record.account_id = p_account_id
        AND usage_record.meter_id = p_meter_id
        AND usage_record.occurred_at >= p_from_at
        AND usage_record.occurred_at < p_until_at
        AND usage_record.import_seq > p_after_seq
        AND usage_record.import_seq <= p_through_seq
    HAVING count(*) > 0
    UNION ALL
    SELECT
        grouped.group_value,
        grouped.quantity,
        grouped.record_count
    FROM (
        SELECT
            usage_record.dimensions ->> p_group_by AS group_value,
            sum(usage_record.quantity) AS quantity,
            count(*) AS record_count
        FROM pgbill.usage_record
        WHERE usage_record.bucket = p_bucket
            AND usage_record.account_id = p_account_id
            AND usage_record.meter_id = p_meter_id
            AND usage_record.occurred_at >= p_from_at
            AND usage_record.occurred_at < p_until_at
            AND usage_record.import_seq > p_after_seq
            AND usage_record.import_seq <= p_through_seq
        GROUP BY usage_record.dimensions ->> p_group_by
    ) AS grouped
    -- Out here, where it keeps all of the above from running.
    WHERE p_aggregation = 'sum' AND p_group_by IS NOT NULL
    UNION ALL
    SELECT measure.group_value, measure.quantity, measure.record_count
    FROM (
        SELECT
            corrected.group_value,
            coalesce(
                CASE p_aggregation
                    WHEN 'count' THEN count(*) FILTER (WHERE NOT corrected.is_void)
                    WHEN 'maximum' THEN max(corrected.quantity) FILTER (WHERE NOT corrected.is_void)
                    WHEN 'last'
                        THEN (
                            array_agg(
                                corrected.quantity
                                ORDER BY corrected.occurred_at DESC, corrected.key DESC
                            ) FILTER (WHERE NOT corrected.is_void AND p_aggregation = 'last')
                        )[1]
                    WHEN 'unique_count'
                        THEN count(DISTINCT corrected.unique_value)
                            FILTER (WHERE NOT corrected.is_void AND p_aggregation = 'unique_count')
                    -- Twenty digits, of which at most twelve are used.
                    WHEN 'time_weighted'
                        THEN pgbill.rounded(
                            sum(
                                corrected.quantity
                                * extract(EPOCH FROM p_until_at - corrected.occurred_at)
                            ),
                            extract(EPOCH FROM p_until_at - p_from_at),
                            20,
                            'half_up'
                        )
                END,
                0
            ),
            sum(corrected.record_count)::bigint
        FROM (
            SELECT
                coalesce(usage_record.corrects_key, usage_record.key) AS key,
                usage_record.occurred_at,
                sum(usage_record.quantity) AS quantity,
                count(*) AS record_count,
                count(*) > 1 AND sum(usage_record.quantity) = 0 AS is_void,
                min(usage_record.dimensions ->> p_group_by) AS group_value,
                min(usage_record.dimensions ->> p_unique_dimension) AS unique_value
            FROM pgbill.usage_record
            WHERE usage_record.bucket = p_bucket
                AND usage_record.account_id = p_account_id
                AND usage_record.meter_id = p_meter_id
                AND usage_record.occurred_at >= p_from_at
                AND usage_record.occurred_at < p_until_at
                AND usage_record.import_seq > p_after_seq
                AND usage_record.import_seq <= p_through_seq
            GROUP BY coalesce(usage_record.corrects_key, usage_record.key), usage_record.occurred_at
        ) AS corrected
        GROUP BY corrected.group_value
    ) AS measure (group_value, quantity, record_count)
    WHERE p_aggregation <> 'sum';
$$;

COMMENT ON FUNCTION pgbill.measured IS
'The quantity of a meter within a time, of the imports after one and through another, by '
'value of a dimension if it is grouped; no row if there is no usage.';
