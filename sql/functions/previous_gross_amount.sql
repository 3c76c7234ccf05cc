-- What the invoice before was: of the newest earlier closing that has one, as it stands after
-- corrections.

CREATE OR REPLACE FUNCTION pgbill.previous_gross_amount(
    p_bucket integer, p_account_id bigint, p_period_end date
)
RETURNS numeric
LANGUAGE sql
STABLE
PARALLEL SAFE
AS $$
    SELECT invoice.gross_amount
    FROM pgbill.invoice
    WHERE invoice.bucket = p_bucket
        AND invoice.account_id = p_account_id
        AND invoice.period_end < p_period_end
    ORDER BY invoice.period_end DESC, invoice.revision DESC
    LIMIT 1;
$$;

COMMENT ON FUNCTION pgbill.previous_gross_amount IS
'The gross amount of the last invoice of a closing before a day; null: there is none.';
