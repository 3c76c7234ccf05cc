-- Whether a charge stands on an invoice that holds, or on the lines of a closing that kept
-- them.

CREATE OR REPLACE FUNCTION pgbill.is_charge_billed(
    p_bucket integer, p_account_id bigint, p_charge_id bigint
)
RETURNS boolean
LANGUAGE sql
STABLE
PARALLEL SAFE
RETURN EXISTS (
    SELECT
    FROM pgbill.invoice_line
    WHERE invoice_line.bucket = p_bucket
        AND invoice_line.account_id = p_account_id
        AND invoice_line.charge_id = p_charge_id
) OR EXISTS (
    SELECT
    FROM pgbill.carried_line
    WHERE carried_line.bucket = p_bucket
        AND carried_line.account_id = p_account_id
        AND (carried_line.line ->> 'charge_id')::bigint = p_charge_id
);

COMMENT ON FUNCTION pgbill.is_charge_billed IS
'Whether a line of an invoice, or of a closing without one, bills the charge.';
