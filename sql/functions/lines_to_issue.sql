-- The lines of a draft as an invoice has them: net of tax, where their amounts include it.

CREATE OR REPLACE FUNCTION pgbill.lines_to_issue(
    p_bucket integer, p_account_id bigint, p_lines pgbill.invoice_line[], p_policy_id integer
)
RETURNS pgbill.invoice_line[]
LANGUAGE plpgsql
STABLE
PARALLEL SAFE
AS $$
BEGIN
    IF p_lines IS NULL OR p_lines[1].tax_included_amount IS NULL THEN
        RETURN p_lines;
    END IF;

    RETURN (
        SELECT pgbill.without_tax(
            p_lines, currency.digits, policy.tax_rounding_scope, policy.tax_rounding
        )
        FROM pgbill.account
        INNER JOIN pgbill.currency ON account.currency = currency.currency
        CROSS JOIN pgbill.policy
        WHERE account.bucket = p_bucket
            AND account.account_id = p_account_id
            AND policy.policy_id = p_policy_id
    );
END;
$$;

COMMENT ON FUNCTION pgbill.lines_to_issue IS
'Lines with net amounts; all of an invoice include tax, or none.';
