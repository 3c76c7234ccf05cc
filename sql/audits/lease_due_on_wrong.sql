-- P1 and P8: the lease of an account is due at the boundary after its newest closed period.
--
-- The boundary is a midnight of the account's zone, or of the zone that the account had when
-- that period was closed: a change counts from the next boundary on. The invoice of the
-- closing tells which zone it was. Where it issued none, any place's midnight is believed:
-- from 14 hours before to 12 hours after that of UTC, at a quarter of an hour.

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
        newest_period.period_end AS closed_on,
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
    OR lease.due_at <> pgbill.local_midnight(open_period.due_on, open_period.zone)
    AND NOT EXISTS (
        SELECT
        FROM pgbill.billing_period
        LEFT JOIN pgbill.invoice
            ON
                billing_period.bucket = invoice.bucket
                AND billing_period.account_id = invoice.account_id
                AND billing_period.period_end = invoice.period_end
                AND invoice.revision = 1
        WHERE billing_period.bucket = open_period.bucket
            AND billing_period.account_id = open_period.account_id
            AND billing_period.period_end = open_period.closed_on
            AND CASE
                WHEN invoice.invoice_id IS NOT NULL
                    THEN lease.due_at
                    = pgbill.local_midnight(open_period.due_on, invoice.buyer ->> 'zone')
                ELSE lease.due_at = date_bin('15 minutes', lease.due_at, 'epoch')
                    AND lease.due_at - pgbill.local_midnight(open_period.due_on, 'UTC')
                    BETWEEN interval '-14 hours' AND interval '12 hours'
            END
    );

COMMENT ON VIEW pgbill_audit.lease_due_on_wrong IS
'An account has no lease, or one that is due at another time than the end of its '
'earliest open period: it would be billed too early, too late, or never.';
