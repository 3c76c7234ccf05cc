-- P6: a line of usage bills exactly the records that it names. Plain sums are compared all at
-- once; what is measured in another way is measured again, line by line. A line with usage
-- of a month that was dropped can no longer be compared.

CREATE OR REPLACE VIEW pgbill_audit.p6_line_differs_from_usage AS
WITH dropped AS (
    SELECT DISTINCT
        usage_retention.bucket,
        usage_retention.month_on::timestamp AT TIME ZONE 'UTC' AS from_at,
        (usage_retention.month_on + interval '1 month') AT TIME ZONE 'UTC' AS until_at
    FROM pgbill.usage_retention
),

told AS (
    SELECT
        usage_line.bucket,
        usage_line.account_id,
        usage_line.period_end,
        usage_line.invoice_id,
        usage_line.line_no,
        usage_line.meter_id,
        usage_line.group_value,
        usage_line.usage_from_at,
        usage_line.usage_until_at,
        usage_line.usage_after_seq,
        usage_line.usage_through_seq,
        usage_line.usage_count,
        usage_line.quantity,
        usage_line.is_difference,
        price.group_by,
        meter.aggregation,
        meter.unique_dimension,
        coalesce(meter.quantity_digits, CASE meter.aggregation WHEN 'time_weighted' THEN 12 END)
            AS quantity_digits,
        meter.quantity_rounding,
        meter.aggregation = 'sum'
        AND price.group_by IS NULL
        AND meter.quantity_digits IS NULL
        AND NOT usage_line.is_difference AS is_plain
    FROM pgbill.usage_line
    INNER JOIN pgbill.price ON usage_line.price_id = price.price_id
    INNER JOIN pgbill.meter ON usage_line.meter_id = meter.meter_id
    WHERE NOT EXISTS (
        SELECT
        FROM dropped
        WHERE dropped.bucket = usage_line.bucket
            AND dropped.from_at < usage_line.usage_until_at
            AND usage_line.usage_from_at < dropped.until_at
    )
)

SELECT
    told.bucket,
    told.account_id,
    told.invoice_id,
    told.line_no,
    told.usage_count,
    told.quantity,
    count(usage_record.key) AS record_count,
    coalesce(sum(usage_record.quantity), 0) AS record_quantity
FROM told
LEFT JOIN pgbill.usage_record
    ON
        told.bucket = usage_record.bucket
        AND told.account_id = usage_record.account_id
        AND told.meter_id = usage_record.meter_id
        AND usage_record.occurred_at >= told.usage_from_at
        AND usage_record.occurred_at < told.usage_until_at
        AND usage_record.import_seq > told.usage_after_seq
        AND usage_record.import_seq <= told.usage_through_seq
WHERE told.is_plain
GROUP BY
    told.bucket, told.account_id, told.period_end, told.invoice_id, told.line_no,
    told.usage_count, told.quantity
HAVING count(usage_record.key) <> told.usage_count
    OR coalesce(sum(usage_record.quantity), 0) <> told.quantity
UNION ALL
SELECT
    told.bucket,
    told.account_id,
    told.invoice_id,
    told.line_no,
    told.usage_count,
    told.quantity,
    coalesce(measured.record_count, 0) AS record_count,
    coalesce(measured.quantity, 0) - coalesce(earlier.quantity, 0) AS record_quantity
FROM told
-- All of the period where the line bills a difference, else what the line names.
LEFT JOIN LATERAL (
    SELECT
        usage.record_count,
        pgbill.rounded_quantity(usage.quantity, told.quantity_digits, told.quantity_rounding)
            AS quantity
    FROM pgbill.measured(
        told.bucket, told.account_id, told.meter_id, told.aggregation, told.unique_dimension,
        told.group_by, told.usage_from_at, told.usage_until_at,
        CASE WHEN told.is_difference THEN 0 ELSE told.usage_after_seq END,
        told.usage_through_seq
    ) AS usage
    WHERE usage.group_value IS NOT DISTINCT FROM told.group_value
) AS measured ON TRUE
LEFT JOIN LATERAL (
    SELECT
        usage.record_count,
        pgbill.rounded_quantity(usage.quantity, told.quantity_digits, told.quantity_rounding)
            AS quantity
    FROM pgbill.measured(
        told.bucket, told.account_id, told.meter_id, told.aggregation, told.unique_dimension,
        told.group_by, told.usage_from_at, told.usage_until_at, 0, told.usage_after_seq
    ) AS usage
    WHERE told.is_difference AND usage.group_value IS NOT DISTINCT FROM told.group_value
) AS earlier ON TRUE
WHERE NOT told.is_plain
    AND (
        told.usage_count
        <> coalesce(measured.record_count, 0) - coalesce(earlier.record_count, 0)
        OR told.quantity <> coalesce(measured.quantity, 0) - coalesce(earlier.quantity, 0)
    );

COMMENT ON VIEW pgbill_audit.p6_line_differs_from_usage IS
'Counted and measured again, the usage records that a line names are not what it '
'billed: records were changed, removed, or came in below the watermark. Lines with usage of '
'months that pgbill retention has dropped are left out.';
