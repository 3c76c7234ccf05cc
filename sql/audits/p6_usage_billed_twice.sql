-- P6: no usage record is billed by two lines. Pairs of lines whose claims overlap are rare,
-- so records are only looked up for those.

CREATE OR REPLACE VIEW pgbill_audit.p6_usage_billed_twice AS
SELECT
    usage_record.bucket,
    usage_record.account_id,
    usage_record.key,
    usage_record.occurred_at,
    usage_record.meter_id,
    usage_record.quantity,
    line.invoice_id,
    line.line_no,
    other.invoice_id AS other_invoice_id,
    other.line_no AS other_line_no
FROM pgbill.usage_line AS line
INNER JOIN pgbill.usage_line AS other
    ON
        line.bucket = other.bucket
        AND line.account_id = other.account_id
        AND line.meter_id = other.meter_id
        AND line.usage_from_at < other.usage_until_at
        AND other.usage_from_at < line.usage_until_at
        AND line.usage_after_seq < other.usage_through_seq
        AND other.usage_after_seq < line.usage_through_seq
        AND (line.period_end, line.line_no) < (other.period_end, other.line_no)
        AND line.group_value IS NOT DISTINCT FROM other.group_value
INNER JOIN pgbill.usage_record
    ON
        line.bucket = usage_record.bucket
        AND line.account_id = usage_record.account_id
        AND line.meter_id = usage_record.meter_id
        AND usage_record.occurred_at >= greatest(line.usage_from_at, other.usage_from_at)
        AND usage_record.occurred_at < least(line.usage_until_at, other.usage_until_at)
        AND usage_record.import_seq > greatest(line.usage_after_seq, other.usage_after_seq)
        AND usage_record.import_seq <= least(line.usage_through_seq, other.usage_through_seq)
WHERE NOT line.is_cancelled AND NOT other.is_cancelled;

COMMENT ON VIEW pgbill_audit.p6_usage_billed_twice IS
'Two lines bill the same usage record: the account pays for it twice.';
