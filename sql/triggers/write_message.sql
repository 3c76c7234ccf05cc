-- No invoice without its message, and no message without its invoice: both commit together.

CREATE OR REPLACE FUNCTION pgbill.write_message()
RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
AS $$
BEGIN
    INSERT INTO pgbill.outbox_message (bucket, account_id, invoice_id, channel, address)
    SELECT
        written.bucket,
        written.account_id,
        written.invoice_id,
        written.delivery_channel,
        recipient.address
    FROM written
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
