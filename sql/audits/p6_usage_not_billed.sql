-- P6: a usage record that no line bills is waiting or rejected, and says why.

CREATE OR REPLACE VIEW pgbill_audit.p6_usage_not_billed AS
SELECT
    usage_state.bucket,
    usage_state.account_id,
    usage_state.key,
    usage_state.occurred_at,
    usage_state.meter_id,
    usage_state.quantity,
    usage_state.import_seq,
    usage_state.reason
FROM pgbill.usage_state
WHERE usage_state.state = 'missing';

COMMENT ON VIEW pgbill_audit.p6_usage_not_billed IS
'A price covers a usage record, the closing that should have billed it is over, and '
'no line bills it: it is lost money. It is also shown when a subscription was '
'backdated over a closed period.';
