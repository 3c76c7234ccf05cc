-- Alerts that nobody has looked at and that are in no mail, each with the mode that it
-- belongs to: a copy of production must not mail what production has raised.

CREATE OR REPLACE VIEW pgbill.alert_not_mailed AS
SELECT
    alert.bucket,
    alert.alert_id,
    coalesce(
        (
            SELECT billing_run.mode
            FROM pgbill.billing_run
            WHERE billing_run.run_id = alert.run_id
        ),
        (
            SELECT invoice.mode
            FROM pgbill.outbox_message
            INNER JOIN pgbill.invoice
                ON
                    outbox_message.bucket = invoice.bucket
                    AND outbox_message.account_id = invoice.account_id
                    AND outbox_message.invoice_id = invoice.invoice_id
            WHERE outbox_message.bucket = alert.bucket
                AND outbox_message.account_id = alert.account_id
                AND outbox_message.message_id = alert.message_id
        ),
        'live'
    ) AS mode
FROM pgbill.alert
WHERE alert.digest_id IS NULL AND alert.acked_at IS NULL;

COMMENT ON VIEW pgbill.alert_not_mailed IS 'Open alerts that the next mail about alerts is for.';
COMMENT ON COLUMN pgbill.alert_not_mailed.mode IS
'That of its run, or of the invoice of its message.';
