-- What an invoice has used of which prepaid credit, less what credit notes have given back.

CREATE OR REPLACE FUNCTION pgbill.prepaid_used(
    p_bucket integer, p_account_id bigint, p_invoice_id bigint
)
RETURNS TABLE (prepaid_credit_id bigint, available_on date, amount numeric)
LANGUAGE sql
STABLE
PARALLEL SAFE
AS $$
    SELECT
        prepaid_credit.prepaid_credit_id,
        prepaid_credit.available_on,
        sum(application.amount)
    FROM pgbill.invoice
    INNER JOIN pgbill.credit_application AS application USING (bucket, account_id, invoice_id)
    INNER JOIN pgbill.prepaid_credit USING (bucket, account_id, prepaid_credit_id)
    WHERE invoice.bucket = p_bucket
        AND invoice.account_id = p_account_id
        AND (invoice.invoice_id = p_invoice_id OR invoice.credited_invoice_id = p_invoice_id)
    GROUP BY prepaid_credit.prepaid_credit_id, prepaid_credit.available_on;
$$;

COMMENT ON FUNCTION pgbill.prepaid_used IS
'The prepaid credits that pay an invoice, and how much of each they still pay.';
