-- P4: what is issued, used, tried or told cannot be changed. That a row was changed cannot
-- be seen afterwards; that it could not be is seen here.

CREATE OR REPLACE VIEW pgbill_audit.p4_freeze_missing AS
SELECT
    frozen.table_name,
    refused.operation
FROM (
    VALUES
    ('billing_period', TRUE),
    ('invoice', TRUE),
    ('invoice_line', TRUE),
    ('invoice_tax', TRUE),
    ('invoice_number', TRUE),
    ('invoice_cancellation', TRUE),
    ('seller_snapshot', TRUE),
    ('usage_record', TRUE),
    ('usage_watermark', TRUE),
    ('lease_event', TRUE),
    ('delivery_attempt', TRUE),
    ('delivery_outcome', TRUE),
    ('price_version', TRUE),
    ('price_tier', TRUE),
    ('lease', FALSE),
    ('outbox_message', FALSE)
) AS frozen (table_name, is_insert_only)
CROSS JOIN (
    VALUES ('UPDATE', 16), ('DELETE', 8), ('TRUNCATE', 32)
) AS refused (operation, bit)
WHERE (frozen.is_insert_only OR refused.operation <> 'UPDATE')
    AND NOT EXISTS (
        SELECT
        FROM pg_catalog.pg_trigger
        WHERE pg_trigger.tgrelid = to_regclass('pgbill.' || frozen.table_name)
            AND pg_trigger.tgfoid = to_regprocedure('pgbill.freeze()')
            AND pg_trigger.tgenabled IN ('O', 'A')
            AND pg_trigger.tgtype & refused.bit <> 0
            -- Of columns or under a condition, it would refuse only some.
            AND pg_trigger.tgattr::text = ''
            AND pg_trigger.tgqual IS NULL
    );

COMMENT ON VIEW pgbill_audit.p4_freeze_missing IS
'A table whose rows must never change can be changed: run pgbill migrate, and find '
'out what was done meanwhile.';
