-- P4: what is issued, used, tried or told cannot be changed. That a row was changed cannot
-- be seen afterwards; that it could not be is seen here. A trigger for statements is not
-- inherited, so each partition needs its own.

CREATE OR REPLACE VIEW pgbill_audit.p4_freeze_missing AS
WITH frozen AS (
    SELECT
        named.is_insert_only,
        to_regclass('pgbill.' || named.table_name) AS table_id,
        named.table_name::text AS table_name
    FROM (
        VALUES
        ('billing_period', TRUE),
        ('invoice', TRUE),
        ('invoice_line', TRUE),
        ('invoice_tax', TRUE),
        ('invoice_number', TRUE),
        ('invoice_cancellation', TRUE),
        ('tax_answer', TRUE),
        ('held_draft', TRUE),
        ('draft_decision', TRUE),
        ('seller_snapshot', TRUE),
        ('usage_record', TRUE),
        ('usage_watermark', TRUE),
        ('lease_event', TRUE),
        ('delivery_attempt', TRUE),
        ('delivery_outcome', TRUE),
        ('alert_digest', TRUE),
        ('alert_digest_outcome', TRUE),
        ('price_version', TRUE),
        ('price_tier', TRUE),
        ('policy', TRUE),
        ('charge', TRUE),
        ('prepaid_credit', TRUE),
        ('credit_application', TRUE),
        ('carried_line', TRUE),
        ('usage_retention', TRUE),
        ('payment', TRUE),
        ('unmatched_payment', TRUE),
        ('imported_invoice', TRUE),
        ('closed_month', TRUE),
        ('journal_export', TRUE),
        ('journal_entry', TRUE),
        ('journal_file', TRUE),
        ('discount', FALSE),
        ('lease', FALSE),
        ('outbox_message', FALSE),
        ('billing_run', FALSE),
        ('alert', FALSE)
    ) AS named (table_name, is_insert_only)
    UNION ALL
    SELECT
        TRUE AS is_insert_only,
        pg_class.oid AS table_id,
        pg_class.relname::text AS table_name
    FROM pg_catalog.pg_inherits
    INNER JOIN pg_catalog.pg_class ON pg_inherits.inhrelid = pg_class.oid
    WHERE pg_inherits.inhparent = to_regclass('pgbill.usage_record')
)

SELECT
    frozen.table_name,
    refused.operation
FROM frozen
CROSS JOIN (
    VALUES ('UPDATE', 16), ('DELETE', 8), ('TRUNCATE', 32)
) AS refused (operation, bit)
WHERE (frozen.is_insert_only OR refused.operation <> 'UPDATE')
    AND NOT EXISTS (
        SELECT
        FROM pg_catalog.pg_trigger
        WHERE pg_trigger.tgrelid = frozen.table_id
            AND pg_trigger.tgfoid = to_regprocedure('pgbill.freeze()')
            AND pg_trigger.tgenabled IN ('O', 'A')
            AND pg_trigger.tgtype & refused.bit <> 0
            -- Of columns or under a condition, it would refuse only some.
            AND pg_trigger.tgattr::text = ''
            AND pg_trigger.tgqual IS NULL
    );

COMMENT ON VIEW pgbill_audit.p4_freeze_missing IS
'A table whose rows must never change can be changed: run pgbill migrate, and find out '
'what was done meanwhile.';
