-- What has become of each usage record (P6). Nothing of it is stored with the record: a
-- line says which records it bills, and a closed period says which imports it has seen.
--
-- A record is seen by the closing of its own period if its import is not newer than the
-- period's watermark, else by the first later closing whose watermark reaches it. So it
-- still waits if it is not older than the newest closing's end, or newer than its watermark;
-- otherwise its closing is over, and a line must bill it if a price covered it, by the days of
-- the zone that the account had then. Whether one did is only looked up for records that no
-- line bills.

CREATE OR REPLACE VIEW pgbill.usage_state AS
WITH newest_period AS (
    SELECT
        billing_period.bucket,
        billing_period.account_id,
        min(billing_period.period_end_at) AS first_from_at,
        max(billing_period.period_end_at) AS last_until_at,
        max(billing_period.usage_seq) AS usage_seq
    FROM pgbill.billing_period
    GROUP BY billing_period.bucket, billing_period.account_id
),

closing AS (
    SELECT
        account.bucket,
        account.account_id,
        account.key AS account_key,
        newest_period.usage_seq,
        coalesce(
            newest_period.first_from_at,
            pgbill.local_midnight(account.first_period_on, account.zone)
        ) AS first_from_at,
        newest_period.last_until_at
    FROM pgbill.account
    LEFT JOIN newest_period
        ON
            account.bucket = newest_period.bucket
            AND account.account_id = newest_period.account_id
)

SELECT
    known.bucket,
    known.account_id,
    known.account_key,
    known.key,
    known.occurred_at,
    known.meter_id,
    known.quantity,
    known.import_seq,
    known.invoice_id,
    known.line_no,
    split_part(known.verdict, ': ', 1) AS state,
    nullif(split_part(known.verdict, ': ', 2), '') AS reason
FROM (
    SELECT
        usage_record.bucket,
        usage_record.account_id,
        closing.account_key,
        usage_record.key,
        usage_record.occurred_at,
        usage_record.meter_id,
        usage_record.quantity,
        usage_record.import_seq,
        usage_line.invoice_id,
        usage_line.line_no,
        CASE
            WHEN usage_line.is_cancelled
                THEN 'cancelled: its invoice is cancelled and not reissued'
            WHEN usage_line.is_carried THEN 'waiting: carried forward to the next invoice'
            WHEN usage_line.invoice_id IS NOT NULL THEN 'billed'
            WHEN usage_line.line_no IS NOT NULL
                THEN 'billed: at zero, without an invoice'
            WHEN usage_record.occurred_at < closing.first_from_at
                THEN 'rejected: before the first period of the account'
            WHEN closing.last_until_at IS NULL
                OR usage_record.occurred_at >= closing.last_until_at
                THEN 'waiting: its period is not closed'
            WHEN usage_record.import_seq > closing.usage_seq
                THEN 'waiting: late, the next closing takes it'
            WHEN EXISTS (
                SELECT
                FROM (
                    SELECT
                        billing_period.period_start,
                        billing_period.period_end,
                        billing_period.period_end_at,
                        billing_period.zone
                    FROM pgbill.billing_period
                    WHERE billing_period.bucket = usage_record.bucket
                        AND billing_period.account_id = usage_record.account_id
                        AND billing_period.period_end_at > usage_record.occurred_at
                    ORDER BY billing_period.period_end
                    LIMIT 1
                ) AS own
                INNER JOIN pgbill.billing_period AS begun
                    ON
                        begun.bucket = usage_record.bucket
                        AND begun.account_id = usage_record.account_id
                        AND own.period_start = begun.period_end
                INNER JOIN pgbill.subscription_price
                    ON
                        subscription_price.bucket = usage_record.bucket
                        AND subscription_price.account_id = usage_record.account_id
                        AND subscription_price.meter_id = usage_record.meter_id
                        AND subscription_price.active_period
                        && daterange(own.period_start, own.period_end)
                WHERE usage_record.occurred_at >= pgbill.instant_within(
                    lower(subscription_price.active_period), own.zone,
                    own.period_start, own.period_end, begun.period_end_at, own.period_end_at
                )
                AND usage_record.occurred_at < pgbill.instant_within(
                    upper(subscription_price.active_period), own.zone,
                    own.period_start, own.period_end, begun.period_end_at, own.period_end_at
                )
            )
                THEN 'missing: its closing is over and has not billed it'
            ELSE 'rejected: no price of the account covers the meter at that time'
        END AS verdict
    FROM pgbill.usage_record
    INNER JOIN closing
        ON
            usage_record.bucket = closing.bucket
            AND usage_record.account_id = closing.account_id
    LEFT JOIN pgbill.usage_line
        ON
            usage_record.bucket = usage_line.bucket
            AND usage_record.account_id = usage_line.account_id
            AND usage_record.meter_id = usage_line.meter_id
            AND usage_record.occurred_at >= usage_line.usage_from_at
            AND usage_record.occurred_at < usage_line.usage_until_at
            AND usage_record.import_seq > usage_line.usage_after_seq
            AND usage_record.import_seq <= usage_line.usage_through_seq
            AND (
                usage_line.group_by IS NULL
                OR usage_line.group_value
                IS NOT DISTINCT FROM usage_record.dimensions ->> usage_line.group_by
            )
) AS known;

COMMENT ON VIEW pgbill.usage_state IS
'Every usage record with the line that bills it, or why none does. One row for each '
'record, unless two lines bill it: see pgbill_audit.p6_usage_billed_twice.';
COMMENT ON COLUMN pgbill.usage_state.state IS
'billed, waiting, rejected, cancelled (billed, then credited), or missing: see '
'pgbill_audit.p6_usage_not_billed.';
COMMENT ON COLUMN pgbill.usage_state.reason IS 'Why it is not billed; null if it is on an invoice.';
