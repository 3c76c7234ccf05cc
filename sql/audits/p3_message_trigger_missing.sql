-- P3: the trigger that writes the message with the invoice is there.

CREATE OR REPLACE VIEW pgbill_audit.p3_message_trigger_missing AS
SELECT written.table_name
FROM (VALUES ('invoice')) AS written (table_name)
WHERE NOT EXISTS (
    SELECT
    FROM pg_catalog.pg_trigger
    WHERE pg_trigger.tgrelid = to_regclass('pgbill.' || written.table_name)
        AND pg_trigger.tgfoid = to_regprocedure('pgbill.write_message()')
        AND pg_trigger.tgenabled IN ('O', 'A')
        -- After insert, for each statement.
        AND pg_trigger.tgtype = 4
);

COMMENT ON VIEW pgbill_audit.p3_message_trigger_missing IS
'Invoices are issued without their messages: run pgbill migrate, then look at '
'p3_invoice_without_message.';
