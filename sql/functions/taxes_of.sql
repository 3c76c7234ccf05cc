-- The tax of an invoice, from its lines: once for each category and rate, on the sum of
-- their net amounts (EN 16931, BR-CO-17 and BR-S-08).

CREATE OR REPLACE FUNCTION pgbill.taxes_of(p_lines pgbill.invoice_line[], p_digits integer)
RETURNS TABLE (
    tax_category text,
    tax_rate numeric,
    taxable_amount numeric,
    tax_amount numeric,
    legal_text text
)
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
ROWS 2
AS $$
    SELECT
        line.tax_category,
        line.tax_rate,
        sum(line.net_amount),
        round(sum(line.net_amount) * line.tax_rate / 100, p_digits),
        min(line.legal_text)
    FROM unnest(p_lines) AS line
    GROUP BY line.tax_category, line.tax_rate;
$$;

COMMENT ON FUNCTION pgbill.taxes_of IS
'Taxable and tax amount for each tax category and rate of some lines, rounded to so '
'many digits.';
