-- P1: the closed periods of an account follow each other from its first day.

CREATE OR REPLACE VIEW pgbill_audit.p1_periods_broken_chain AS
SELECT
    chained.bucket,
    chained.account_id,
    chained.period_start,
    chained.period_end,
    chained.expected_start,
    CASE
        WHEN chained.is_first THEN 'does not begin with the empty period of the first day'
        WHEN chained.period_start > chained.expected_start THEN 'gap'
        WHEN chained.period_start < chained.expected_start THEN 'overlap'
        ELSE 'empty'
    END AS problem
FROM (
    SELECT
        billing_period.bucket,
        billing_period.account_id,
        billing_period.period_start,
        billing_period.period_end,
        lag(billing_period.period_end) OVER own IS NULL AS is_first,
        coalesce(lag(billing_period.period_end) OVER own, account.first_period_on)
            AS expected_start
    FROM pgbill.billing_period
    INNER JOIN pgbill.account
        ON
            billing_period.bucket = account.bucket
            AND billing_period.account_id = account.account_id
    WINDOW own AS (
        PARTITION BY billing_period.bucket, billing_period.account_id
        ORDER BY billing_period.period_end, billing_period.period_start
    )
) AS chained
WHERE chained.period_start <> chained.expected_start
    OR (chained.period_start = chained.period_end) <> chained.is_first;

COMMENT ON VIEW pgbill_audit.p1_periods_broken_chain IS
'The closed periods of an account do not form one line from its first day: days '
'between two of them are billed twice, or never.';
