-- P1 and P8: the lease of an account is due at the boundary after its newest closed period: at
-- midnight in the zone that the account had when that period was closed, since a change of
-- zone counts from the next boundary on.

CREATE OR REPLACE VIEW pgbill_audit.lease_due_on_wrong AS
WITH open_period AS (
    SELECT
        account.bucket,
        account.account_id,
        coalesce(newest_period.zone, account.zone) AS zone,
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
    LEFT JOIN LATERAL (
        SELECT billing_period.period_end, billing_period.zone
        FROM pgbill.billing_period
        WHERE billing_period.bucket = account.bucket
            AND billing_period.account_id = account.account_id
        ORDER BY billing_period.period_end DESC
        LIMIT 1
    ) AS newest_period ON TRUE
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
'An account has no lease, or one that is due at another time than the end of its '
'earliest open period: it would be billed too early, too late, or never.';
