-- Whether an invoice is cancelled: a credit note has taken all of it back.

CREATE OR REPLACE FUNCTION pgbill.is_cancelled(
    p_bucket integer, p_account_id bigint, p_invoice_id bigint
)
RETURNS boolean
LANGUAGE sql
STABLE
PARALLEL SAFE
AS $$
    SELECT EXISTS (
        SELECT
        FROM pgbill.invoice
        INNER JOIN pgbill.invoice_cancellation
            ON
                invoice.bucket = invoice_cancellation.bucket
                AND invoice.account_id = invoice_cancellation.account_id
                AND invoice.period_end = invoice_cancellation.period_end
                AND invoice.revision = invoice_cancellation.revision
        WHERE invoice.bucket = p_bucket
            AND invoice.account_id = p_account_id
            AND invoice.invoice_id = p_invoice_id
    );
$$;

COMMENT ON FUNCTION pgbill.is_cancelled IS
'Whether the invoice is cancelled; one that is issued again is another revision.';
