-- P2: the fence stands on every table that workers write.

CREATE OR REPLACE VIEW pgbill_audit.p2_fence_missing AS
SELECT fenced.table_name
FROM (
    VALUES
    ('billing_period'),
    ('invoice'),
    ('invoice_line'),
    ('invoice_tax'),
    ('invoice_cancellation'),
    ('tax_answer'),
    ('carried_line'),
    ('credit_application'),
    ('held_draft')
) AS fenced (table_name)
WHERE NOT EXISTS (
    SELECT
    FROM pg_catalog.pg_trigger
    WHERE pg_trigger.tgrelid = to_regclass('pgbill.' || fenced.table_name)
        AND pg_trigger.tgfoid = to_regprocedure('pgbill.fence()')
        AND pg_trigger.tgenabled IN ('O', 'A')
        -- After insert, for each statement.
        AND pg_trigger.tgtype = 4
);

COMMENT ON VIEW pgbill_audit.p2_fence_missing IS
'A table that workers write has no enabled fence, so a worker that has lost its '
'lease could write to it: run pgbill migrate, then look at the other findings.';
