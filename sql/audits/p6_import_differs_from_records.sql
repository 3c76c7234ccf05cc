-- P6: every import left its mark on the buckets that it touched, or closings would pass its
-- records by. What was dropped with its month is told, and counts as if it were there.

CREATE OR REPLACE VIEW pgbill_audit.p6_import_differs_from_records AS
WITH counted AS (
    SELECT
        usage_record.bucket,
        usage_record.import_seq,
        count(*) AS record_count,
        min(usage_record.occurred_at) AS earliest_at
    FROM pgbill.usage_record
    GROUP BY usage_record.bucket, usage_record.import_seq
    UNION ALL
    SELECT
        usage_retention.bucket,
        usage_retention.import_seq,
        usage_retention.record_count,
        usage_retention.earliest_at
    FROM pgbill.usage_retention
),

imported AS (
    SELECT
        counted.bucket,
        counted.import_seq,
        sum(counted.record_count) AS record_count,
        min(counted.earliest_at) AS earliest_at
    FROM counted
    GROUP BY counted.bucket, counted.import_seq
)

SELECT
    imported.bucket,
    imported.import_seq,
    imported.record_count,
    usage_watermark.record_count AS told_count,
    imported.earliest_at,
    usage_watermark.earliest_at AS told_earliest_at
FROM imported
LEFT JOIN pgbill.usage_watermark
    ON
        imported.bucket = usage_watermark.bucket
        AND imported.import_seq = usage_watermark.import_seq
WHERE imported.record_count IS DISTINCT FROM usage_watermark.record_count
    OR imported.earliest_at < usage_watermark.earliest_at
UNION ALL
SELECT
    usage_watermark.bucket,
    usage_watermark.import_seq,
    0 AS record_count,
    usage_watermark.record_count AS told_count,
    NULL AS earliest_at,
    usage_watermark.earliest_at AS told_earliest_at
FROM pgbill.usage_watermark
LEFT JOIN imported
    ON
        usage_watermark.bucket = imported.bucket
        AND usage_watermark.import_seq = imported.import_seq
WHERE imported.bucket IS NULL AND usage_watermark.record_count > 0;

COMMENT ON VIEW pgbill_audit.p6_import_differs_from_records IS
'The records of an import in a bucket are not those that its watermark tells of, in '
'number or earliest time: closings may pass them by.';
