-- Record which credits pay the prepaid amounts of new invoices, the oldest first.

CREATE OR REPLACE FUNCTION pgbill.apply_prepaid(
    p_buckets integer[], p_account_ids bigint[], p_invoice_ids bigint[]
)
RETURNS void
LANGUAGE plpgsql
SET search_path = ''
AS $$
BEGIN
    INSERT INTO pgbill.credit_application (
        bucket, account_id, prepaid_credit_id, invoice_id, amount, fencing_token
    )
    SELECT
        invoice.bucket,
        invoice.account_id,
        spent.prepaid_credit_id,
        invoice.invoice_id,
        spent.amount,
        invoice.fencing_token
    FROM unnest(p_buckets, p_account_ids, p_invoice_ids) AS own (bucket, account_id, invoice_id)
    INNER JOIN pgbill.invoice USING (bucket, account_id, invoice_id)
    CROSS JOIN LATERAL (
        SELECT
            left_over.prepaid_credit_id,
            least(
                left_over.amount,
                invoice.prepaid_amount - coalesce(
                    sum(left_over.amount) OVER (
                        ORDER BY left_over.available_on, left_over.prepaid_credit_id
                        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                    ),
                    0
                )
            ) AS amount
        FROM pgbill.prepaid_left(invoice.bucket, invoice.account_id, invoice.issued_on) AS left_over
    ) AS spent
    WHERE invoice.prepaid_amount > 0 AND spent.amount > 0;
END;
$$;

COMMENT ON FUNCTION pgbill.apply_prepaid IS
'Write what new invoices take of each prepaid credit; sums to their prepaid amounts.';
