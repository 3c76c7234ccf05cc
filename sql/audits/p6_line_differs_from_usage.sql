-- P6: a line of usage bills exactly the records that it names.

CREATE OR REPLACE VIEW pgbill_audit.p6_line_differs_from_usage AS
SELECT
    usage_line.bucket,
    usage_line.account_id,
    usage_line.invoice_id,
    usage_line.line_no,
    usage_line.usage_count,
    usage_line.quantity,
    count(usage_record.key) AS record_count,
    coalesce(sum(usage_record.quantity), 0) AS record_quantity
FROM pgbill.usage_line
LEFT JOIN pgbill.usage_record
    ON
        usage_line.bucket = usage_record.bucket
        AND usage_line.account_id = usage_record.account_id
        AND usage_line.meter_id = usage_record.meter_id
        AND usage_record.occurred_at >= usage_line.usage_from_at
        AND usage_record.occurred_at < usage_line.usage_until_at
        AND usage_record.import_seq > usage_line.usage_after_seq
        AND usage_record.import_seq <= usage_line.usage_through_seq
GROUP BY
    usage_line.bucket, usage_line.account_id, usage_line.invoice_id, usage_line.line_no,
    usage_line.usage_count, usage_line.quantity
HAVING count(usage_record.key) <> usage_line.usage_count
    OR coalesce(sum(usage_record.quantity), 0) <> usage_line.quantity;

COMMENT ON VIEW pgbill_audit.p6_line_differs_from_usage IS
'Counted and summed again, the usage records that a line names are not what it '
'billed: records were changed, removed, or came in below the watermark.';
