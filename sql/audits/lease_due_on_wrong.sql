-- P1 and P8: the lease of an account is due at the boundary after its newest closed period.

CREATE OR REPLACE VIEW pgbill_audit.lease_due_on_wrong AS
WITH newest_period AS (
    SELECT
        billing_period.bucket,
        billing_period.account_id,
        max(billing_period.period_end) AS period_end
    FROM pgbill.billing_period
    GROUP BY billing_period.bucket, billing_period.account_id
),

open_period AS (
    SELECT
        account.bucket,
        account.account_id,
        account.zone,
        CASE
            WHEN newest_period.period_end IS NULL THEN account.first_period_on
            ELSE pgbill.boundary(
                account.anchor_on,
                account.billing_interval,
                pgbill.boundary_number(
                    account.anchor_on, account.billing_interval, newest_period.period_end
                )
            )
        END AS due_on
    FROM pgbill.account
    LEFT JOIN newest_period
        ON
            account.bucket = newest_period.bucket
            AND account.account_id = newest_period.account_id
)

SELECT
    open_period.bucket,
    open_period.account_id,
    lease.due_on,
    open_period.due_on AS expected_on,
    lease.due_at,
    pgbill.local_midnight(open_period.due_on, open_period.zone) AS expected_at
FROM open_period
LEFT JOIN pgbill.lease
    ON open_period.bucket = lease.bucket AND open_period.account_id = lease.account_id
WHERE lease.due_on IS DISTINCT FROM open_period.due_on
    OR lease.due_at
    IS DISTINCT FROM pgbill.local_midnight(open_period.due_on, open_period.zone);

COMMENT ON VIEW pgbill_audit.lease_due_on_wrong IS
'An account has no lease, or one that is due on another day than the end of its '
'earliest open period: it would be billed too early, too late, or never.';
