-- Whether the closing at a boundary has billed a charge: on any revision of its invoice. What
-- it had from the lines that the closing before has carried forward comes with these.

CREATE OR REPLACE FUNCTION pgbill.is_charge_of(
    p_bucket integer, p_account_id bigint, p_charge_id bigint, p_boundary_on date
)
RETURNS boolean
LANGUAGE sql
STABLE
PARALLEL SAFE
AS $$
    SELECT EXISTS (
        SELECT
        FROM pgbill.invoice
        INNER JOIN pgbill.invoice_line USING (bucket, account_id, invoice_id)
        WHERE invoice.bucket = p_bucket
            AND invoice.account_id = p_account_id
            AND invoice.period_end = p_boundary_on
            AND invoice_line.charge_id = p_charge_id
    ) AND NOT EXISTS (
        SELECT
        FROM pgbill.carried_line
        WHERE carried_line.bucket = p_bucket
            AND carried_line.account_id = p_account_id
            AND (carried_line.line ->> 'charge_id')::bigint = p_charge_id
    );
$$;

COMMENT ON FUNCTION pgbill.is_charge_of IS
'Whether the charge stands on an invoice of the closing at a boundary, and on no line that '
'was carried forward.';
