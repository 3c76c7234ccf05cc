-- P10: whatever happened to a lease is told. Each closing was claimed and released.

CREATE OR REPLACE VIEW pgbill_audit.lease_event_missing AS
SELECT
    billing_period.bucket,
    billing_period.account_id,
    billing_period.period_end,
    billing_period.fencing_token
FROM pgbill.billing_period
WHERE NOT EXISTS (
    SELECT
    FROM pgbill.lease_event
    WHERE lease_event.bucket = billing_period.bucket
        AND lease_event.account_id = billing_period.account_id
        AND lease_event.fencing_token = billing_period.fencing_token
        AND lease_event.due_on = billing_period.period_end
        AND lease_event.kind = 'released'
        AND lease_event.outcome = billing_period.outcome
);

COMMENT ON VIEW pgbill_audit.lease_event_missing IS
'A period was closed, and the lease does not tell that its claim ended with that: it '
'was written by hand, past the protocol.';
