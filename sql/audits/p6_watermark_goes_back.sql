-- P6: each closing has seen all that the one before had seen, and nothing from the future.

CREATE OR REPLACE VIEW pgbill_audit.p6_watermark_goes_back AS
SELECT
    closed.bucket,
    closed.account_id,
    closed.period_end,
    closed.usage_seq,
    closed.previous_seq,
    usage_import_state.last_import_seq
FROM (
    SELECT
        billing_period.bucket,
        billing_period.account_id,
        billing_period.period_end,
        billing_period.usage_seq,
        lag(billing_period.usage_seq) OVER (
            PARTITION BY billing_period.bucket, billing_period.account_id
            ORDER BY billing_period.period_end
        ) AS previous_seq
    FROM pgbill.billing_period
) AS closed
CROSS JOIN pgbill.usage_import_state
WHERE closed.usage_seq < closed.previous_seq
    OR closed.usage_seq > usage_import_state.last_import_seq;

COMMENT ON VIEW pgbill_audit.p6_watermark_goes_back IS
'The watermark of a closing is below that of the closing before, or above every '
'import: usage between the two is billed twice, or never.';
