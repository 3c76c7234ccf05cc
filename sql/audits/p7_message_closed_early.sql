-- P7: a message is closed by an outcome that is final, and by nothing else; and at once.

CREATE OR REPLACE VIEW pgbill_audit.p7_message_closed_early AS
SELECT
    outbox_message.bucket,
    outbox_message.account_id,
    outbox_message.message_id,
    outbox_message.invoice_id,
    outbox_message.closed_at,
    final.outcome
FROM pgbill.outbox_message
LEFT JOIN pgbill.delivery_outcome AS final
    ON
        outbox_message.bucket = final.bucket
        AND outbox_message.account_id = final.account_id
        AND outbox_message.message_id = final.message_id
        AND final.outcome <> 'deferred'
WHERE (outbox_message.closed_at IS NOT NULL) <> (final.outcome IS NOT NULL);

COMMENT ON VIEW pgbill_audit.p7_message_closed_early IS
'A message is closed and was neither accepted nor has it failed, so nobody will send '
'it; or it is open although it was, and a relay may look at it again.';
