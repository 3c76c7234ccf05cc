-- A credit note takes back, and never more than is left: whatever its lines come to. Where the
-- buyer's favours are taken back by line, they might charge, or leave less than nothing.

CREATE OR REPLACE FUNCTION pgbill.check_credit_total(
    p_bucket integer,
    p_account_id bigint,
    p_invoice_id bigint,
    p_taxes pgbill.invoice_tax[],
    p_number_text text,
    p_currency text
)
RETURNS void
LANGUAGE plpgsql
STABLE
SET search_path = ''
AS $$
DECLARE
    v_left_amount numeric;
    v_amount numeric;
BEGIN
    SELECT sum(remaining.gross_amount) INTO v_left_amount
    FROM pgbill.credit_left_by_rate(p_bucket, p_account_id, p_invoice_id) AS remaining;

    SELECT -sum(tax.taxable_amount + tax.tax_amount) INTO v_amount
    FROM unnest(p_taxes) AS tax;

    IF v_amount NOT BETWEEN 0 AND v_left_amount THEN
        RAISE EXCEPTION USING
            ERRCODE = 'IV007',
            MESSAGE = CASE
                WHEN v_amount < 0 THEN 'a credit note does not charge: credit these lines with others'
                ELSE format(
                    'only %s %s with tax is left of %s', v_left_amount, p_currency, p_number_text
                )
            END;
    END IF;
END;
$$;

COMMENT ON FUNCTION pgbill.check_credit_total IS
'Raise IV007 if a credit note would charge, or take more than is left.';
