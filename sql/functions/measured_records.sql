-- Usage records that are priced one by one, by a percentage of each: which of them cost what.
--
-- In the order of their time they are free until their sum or their number has reached its
-- limit; the record that crosses the limit of the sum pays on the excess. What a record costs
-- is kept within a minimum and a maximum. Told is how much is charged by the percentage, and
-- how many records at the fixed amount, at the minimum, at the maximum: all that a price
-- needs to be computed again.

CREATE OR REPLACE FUNCTION pgbill.measured_records(
    p_bucket integer,
    p_account_id bigint,
    p_meter_id integer,
    p_group_by text,
    p_from_at timestamptz,
    p_until_at timestamptz,
    p_after_seq bigint,
    p_through_seq bigint,
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
    record_count bigint,
    charged_amount numeric,
    charged_count bigint,
    minimum_count bigint,
    maximum_count bigint
)
LANGUAGE sql
STABLE
PARALLEL SAFE
ROWS 1
AS $$
    SELECT
        priced.group_value,
        sum(priced.quantity),
        sum(priced.record_count)::bigint,
        coalesce(sum(priced.charged) FILTER (WHERE priced.kind = 'charged'), 0),
        count(*) FILTER (WHERE priced.kind = 'charged'),
        count(*) FILTER (WHERE priced.kind = 'minimum'),
        count(*) FILTER (WHERE priced.kind = 'maximum')
    FROM (
        SELECT
            counted.group_value,
            counted.quantity,
            counted.record_count,
            charge.charged,
            CASE
                WHEN counted.is_void OR charge.charged = 0 AND counted.is_free THEN 'free'
                WHEN p_fixed_amount + p_fraction * charge.charged > p_record_maximum
                    THEN 'maximum'
                WHEN p_fixed_amount + p_fraction * charge.charged < p_record_minimum
                    THEN 'minimum'
                ELSE 'charged'
            END AS kind
        FROM (
            SELECT
                corrected.group_value,
                corrected.quantity,
                corrected.record_count,
                corrected.is_void,
                corrected.quantity + coalesce(sum(corrected.quantity) OVER earlier, 0)
                    AS running_amount,
                (p_free_amount IS NOT NULL OR p_free_count IS NOT NULL)
                AND coalesce(
                    coalesce(sum(corrected.quantity) OVER earlier, 0) < p_free_amount, TRUE
                )
                AND coalesce(
                    count(*) FILTER (WHERE NOT corrected.is_void) OVER earlier < p_free_count,
                    TRUE
                ) AS is_free
            FROM (
                SELECT
                    coalesce(usage_record.corrects_key, usage_record.key) AS key,
                    usage_record.occurred_at,
                    sum(usage_record.quantity) AS quantity,
                    count(*) AS record_count,
                    count(*) > 1 AND sum(usage_record.quantity) = 0 AS is_void,
                    min(usage_record.dimensions ->> p_group_by) AS group_value
                FROM pgbill.usage_record
                WHERE usage_record.bucket = p_bucket
                    AND usage_record.account_id = p_account_id
                    AND usage_record.meter_id = p_meter_id
                    AND usage_record.occurred_at >= p_from_at
                    AND usage_record.occurred_at < p_until_at
                    AND usage_record.import_seq > p_after_seq
                    AND usage_record.import_seq <= p_through_seq
                GROUP BY
                    coalesce(usage_record.corrects_key, usage_record.key),
                    usage_record.occurred_at
            ) AS corrected
            WINDOW earlier AS (
                PARTITION BY corrected.group_value
                ORDER BY corrected.occurred_at, corrected.key
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            )
        ) AS counted
        CROSS JOIN LATERAL (
            SELECT
                CASE
                    WHEN counted.is_free
                        THEN greatest(counted.running_amount - p_free_amount, 0)
                    ELSE counted.quantity
                END
        ) AS charge (charged)
    ) AS priced
    GROUP BY priced.group_value;
$$;

COMMENT ON FUNCTION pgbill.measured_records IS
'The usage records of a meter within a time, as a percentage prices them one by one; by '
'value of a dimension if it is grouped; no row if there is no usage.';
