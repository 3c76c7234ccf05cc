-- What is left of each line of an invoice: less what credit notes have taken back, and less
-- what later invoices have given back of a fee that was not used.

CREATE OR REPLACE FUNCTION pgbill.credit_left(
    p_bucket integer, p_account_id bigint, p_invoice_id bigint
)
RETURNS TABLE (
    line_no integer,
    tax_category text,
    tax_rate numeric,
    is_included boolean,
    amount numeric,
    net_amount numeric,
    given_elsewhere boolean
)
LANGUAGE sql
STABLE
PARALLEL SAFE
AS $$
    SELECT
        line.line_no,
        line.tax_category,
        line.tax_rate,
        line.tax_included_amount IS NOT NULL,
        coalesce(line.tax_included_amount, line.net_amount)
        + coalesce(taken.amount, 0) + coalesce(given.amount, 0),
        line.net_amount + coalesce(taken.net_amount, 0) + coalesce(given.net_amount, 0),
        given.amount IS NOT NULL
    FROM pgbill.invoice_line AS line
    CROSS JOIN LATERAL (
        SELECT
            sum(coalesce(credit.tax_included_amount, credit.net_amount)) AS amount,
            sum(credit.net_amount) AS net_amount
        FROM pgbill.invoice_line AS credit
        WHERE credit.bucket = p_bucket
            AND credit.account_id = p_account_id
            AND credit.credited_invoice_id = p_invoice_id
            AND credit.credited_line_no = line.line_no
            AND credit.kind = 'credit'
    ) AS taken
    CROSS JOIN LATERAL (
        SELECT
            sum(coalesce(unused.tax_included_amount, unused.net_amount)) AS amount,
            sum(unused.net_amount) AS net_amount
        FROM pgbill.billed_line AS unused
        WHERE unused.bucket = p_bucket
            AND unused.account_id = p_account_id
            AND unused.credited_invoice_id = p_invoice_id
            AND unused.credited_line_no = line.line_no
    ) AS given
    WHERE line.bucket = p_bucket
        AND line.account_id = p_account_id
        AND line.invoice_id = p_invoice_id;
$$;

COMMENT ON FUNCTION pgbill.credit_left IS
'The lines of an invoice with what is left of each: amount is with tax where the line '
'includes it; given_elsewhere: a later invoice gives back a part of it.';
