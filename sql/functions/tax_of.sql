-- The tax on an amount, or in an amount that includes it, rounded.

CREATE OR REPLACE FUNCTION pgbill.tax_of(
    p_amount numeric, p_is_included boolean, p_tax_rate numeric, p_digits integer, p_rounding text
)
RETURNS numeric
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN pgbill.rounded(
    p_amount * p_tax_rate,
    CASE WHEN p_is_included THEN 100 + p_tax_rate ELSE 100 END,
    p_digits,
    p_rounding
);

COMMENT ON FUNCTION pgbill.tax_of IS
'Amount × tax rate ÷ 100; of an amount that includes the tax, ÷ (100 + tax rate).';
