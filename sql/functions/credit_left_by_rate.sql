-- What is left of an invoice for each tax category and rate, with the tax as the invoice has
-- it: not computed, but what its credit notes have not taken back.

CREATE OR REPLACE FUNCTION pgbill.credit_left_by_rate(
    p_bucket integer, p_account_id bigint, p_invoice_id bigint
)
RETURNS TABLE (
    tax_category text,
    tax_rate numeric,
    is_included boolean,
    net_amount numeric,
    tax_amount numeric,
    gross_amount numeric,
    legal_text text,
    tax_rounding text,
    tax_rounding_scope text
)
LANGUAGE sql
STABLE
PARALLEL SAFE
AS $$
    SELECT
        tax.tax_category,
        tax.tax_rate,
        line.is_included,
        line.net_amount,
        tax.tax_amount + taken.tax_amount,
        line.net_amount + tax.tax_amount + taken.tax_amount,
        tax.legal_text,
        policy.tax_rounding,
        policy.tax_rounding_scope
    FROM pgbill.invoice
    INNER JOIN pgbill.policy USING (policy_id)
    INNER JOIN pgbill.invoice_tax AS tax USING (bucket, account_id, invoice_id)
    INNER JOIN (
        SELECT
            remaining.tax_category,
            remaining.tax_rate,
            bool_or(remaining.is_included) AS is_included,
            sum(remaining.net_amount) AS net_amount
        FROM pgbill.credit_left(p_bucket, p_account_id, p_invoice_id) AS remaining
        GROUP BY remaining.tax_category, remaining.tax_rate
    ) AS line USING (tax_category, tax_rate)
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(note_tax.tax_amount), 0) AS tax_amount
        FROM pgbill.invoice AS note
        INNER JOIN pgbill.invoice_tax AS note_tax
            ON
                note.bucket = note_tax.bucket
                AND note.account_id = note_tax.account_id
                AND note.invoice_id = note_tax.invoice_id
        WHERE note.bucket = p_bucket
            AND note.account_id = p_account_id
            AND note.credited_invoice_id = p_invoice_id
            AND note_tax.tax_category = tax.tax_category
            AND note_tax.tax_rate = tax.tax_rate
    ) AS taken
    WHERE invoice.bucket = p_bucket
        AND invoice.account_id = p_account_id
        AND invoice.invoice_id = p_invoice_id;
$$;

COMMENT ON FUNCTION pgbill.credit_left_by_rate IS
'What is left of an invoice, by tax category and rate, and how its policy rounds tax.';
