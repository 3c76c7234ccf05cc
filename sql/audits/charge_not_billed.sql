-- A charge is billed by the first closing after its service date that has seen it. Which
-- closing that was depends on when the import committed; one that came more than a day after
-- the import has seen it, whatever was going on.

CREATE OR REPLACE VIEW pgbill_audit.charge_not_billed AS
WITH closing AS (
    SELECT
        billing_period.bucket,
        billing_period.account_id,
        max(billing_period.period_end) AS period_end,
        max(billing_period.closed_at) AS closed_at
    FROM pgbill.billing_period
    GROUP BY billing_period.bucket, billing_period.account_id
)

SELECT
    charge.bucket,
    charge.account_id,
    charge.key,
    charge.service_on,
    charge.imported_at,
    closing.period_end,
    closing.closed_at
FROM pgbill.charge
INNER JOIN closing
    ON charge.bucket = closing.bucket AND charge.account_id = closing.account_id
WHERE charge.service_on < closing.period_end
    AND charge.imported_at < closing.closed_at - interval '1 day'
    AND NOT EXISTS (
        SELECT
        FROM pgbill.invoice_line
        WHERE invoice_line.bucket = charge.bucket
            AND invoice_line.account_id = charge.account_id
            AND invoice_line.charge_id = charge.charge_id
    )
    AND NOT EXISTS (
        SELECT
        FROM pgbill.carried_line
        WHERE carried_line.bucket = charge.bucket
            AND carried_line.account_id = charge.account_id
            AND (carried_line.line ->> 'charge_id')::bigint = charge.charge_id
    );

COMMENT ON VIEW pgbill_audit.charge_not_billed IS
'A closing more than a day after a charge was imported should have billed it, and no line, '
'carried or issued, does: it is lost money.';
