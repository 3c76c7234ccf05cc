-- Whether the lines that a closing carried forward have amounts that include tax.

CREATE OR REPLACE FUNCTION pgbill.is_carried_with_tax(
    p_bucket integer, p_account_id bigint, p_period_end date
)
RETURNS boolean
LANGUAGE sql
STABLE
PARALLEL SAFE
RETURN (
    SELECT carried_line.line ->> 'tax_included_amount' IS NOT NULL
    FROM pgbill.carried_line
    WHERE carried_line.bucket = p_bucket
        AND carried_line.account_id = p_account_id
        AND carried_line.period_end = p_period_end
    ORDER BY carried_line.line_no
    LIMIT 1
);

COMMENT ON FUNCTION pgbill.is_carried_with_tax IS
'Whether the amounts that wait since a closing include tax; null: nothing waits.';
