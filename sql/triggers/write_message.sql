-- No invoice without its message, and no message without its invoice: both commit together.
-- If the run holds its mail, no relay takes the message before a person has released it.

CREATE OR REPLACE FUNCTION pgbill.write_message()
RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    INSERT INTO pgbill.outbox_message (
        bucket, account_id, invoice_id, channel, address, held_at, due_at
    )
    SELECT
        written.bucket,
        written.account_id,
        written.invoice_id,
        written.delivery_channel,
        recipient.address,
        CASE WHEN holding.run_id IS NOT NULL THEN v_now END,
        CASE WHEN holding.run_id IS NOT NULL THEN 'infinity' ELSE v_now END
    FROM written
    LEFT JOIN pgbill.billing_run AS holding
        ON
            written.run_id = holding.run_id
            AND holding.hold_mail
            AND holding.mail_released_at IS NULL
    CROSS JOIN LATERAL unnest(written.recipients) AS recipient (address)
    ON CONFLICT DO NOTHING;

    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION pgbill.write_message IS
'Write the outbox messages of new invoices, one for each recipient.';

CREATE OR REPLACE TRIGGER _30_write_message
AFTER INSERT ON pgbill.invoice
REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION pgbill.write_message();
