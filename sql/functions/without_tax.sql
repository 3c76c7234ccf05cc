-- The net amounts of lines whose amounts include tax: so that they sum to the taxable
-- amounts of their tax rates. Rounded line by line where the policy rounds tax there; else
-- by running sums, so that the last line of a rate takes the remainder.

CREATE OR REPLACE FUNCTION pgbill.without_tax(
    p_lines pgbill.invoice_line[], p_digits integer, p_scope text, p_rounding text
)
RETURNS pgbill.invoice_line[]
LANGUAGE plpgsql
IMMUTABLE
PARALLEL SAFE
AS $$
DECLARE
    v_lines pgbill.invoice_line[] := p_lines;
    v_line pgbill.invoice_line;
    v_of_rate record;
    v_place integer;
    v_amount_before numeric;
    v_net_before numeric;
    v_net numeric;
BEGIN
    FOR v_of_rate IN
        SELECT
            line.tax_category,
            line.tax_rate,
            array_agg(line.ordinality::integer ORDER BY line.ordinality) AS places
        FROM unnest(p_lines) WITH ORDINALITY AS line
        WHERE line.tax_included_amount IS NOT NULL
        GROUP BY line.tax_category, line.tax_rate
    LOOP
        v_amount_before := 0;
        v_net_before := 0;

        FOREACH v_place IN ARRAY v_of_rate.places LOOP
            v_line := v_lines[v_place];

            IF p_scope = 'line' THEN
                v_line.net_amount := v_line.tax_included_amount - pgbill.tax_of(
                    v_line.tax_included_amount, TRUE, v_line.tax_rate, p_digits, p_rounding
                );
            ELSE
                v_amount_before := v_amount_before + v_line.tax_included_amount;
                v_net := CASE
                    WHEN v_place = v_of_rate.places[cardinality(v_of_rate.places)]
                        THEN (
                            SELECT tax.taxable_amount
                            FROM pgbill.taxes_of(p_lines, p_digits, p_scope, p_rounding) AS tax
                            WHERE tax.tax_category = v_of_rate.tax_category
                                AND tax.tax_rate = v_of_rate.tax_rate
                        )
                    ELSE v_amount_before - pgbill.tax_of(
                        v_amount_before, TRUE, v_line.tax_rate, p_digits, p_rounding
                    )
                END;
                v_line.net_amount := v_net - v_net_before;
                v_net_before := v_net;
            END IF;

            v_lines[v_place] := v_line;
        END LOOP;
    END LOOP;

    RETURN v_lines;
END;
$$;

COMMENT ON FUNCTION pgbill.without_tax IS
'Lines with their net amounts, where their amounts include tax; the others as they are.';
