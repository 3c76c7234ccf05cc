-- Take an amount off some lines, in proportion to what is left of each.

CREATE OR REPLACE FUNCTION pgbill.take_off(
    p_lines pgbill.invoice_line[],
    p_places integer[],
    p_amount numeric,
    p_key text,
    p_text text,
    p_digits integer
)
RETURNS pgbill.invoice_line[]
LANGUAGE plpgsql
IMMUTABLE
PARALLEL SAFE
AS $$
DECLARE
    v_lines pgbill.invoice_line[] := p_lines;
    v_line pgbill.invoice_line;
    v_shares numeric[];
    v_index integer;
BEGIN
    SELECT pgbill.spread(
        p_amount,
        array_agg(
            coalesce(p_lines[place].tax_included_amount, p_lines[place].net_amount)
            ORDER BY ordinality
        ),
        p_digits
    )
    INTO v_shares
    FROM unnest(p_places) WITH ORDINALITY AS asked (place, ordinality);

    -- A single line takes all of it, also if it has nothing, or less.
    IF cardinality(p_places) = 1 THEN
        v_shares := ARRAY[pgbill.rounded(p_amount, 1, p_digits, 'half_down')];
    END IF;

    FOR v_index IN 1 .. cardinality(p_places) LOOP
        CONTINUE WHEN v_shares[v_index] = 0;

        v_line := v_lines[p_places[v_index]];
        v_line.discount_amount := v_line.discount_amount + v_shares[v_index];
        v_line.net_amount := v_line.net_amount - v_shares[v_index];
        v_line.tax_included_amount := v_line.tax_included_amount - v_shares[v_index];
        v_line.discounts := coalesce(v_line.discounts, '[]') || jsonb_build_object(
            'key', p_key, 'text', p_text, 'amount', v_shares[v_index]
        );
        v_lines[p_places[v_index]] := v_line;
    END LOOP;

    RETURN v_lines;
END;
$$;

COMMENT ON FUNCTION pgbill.take_off IS
'Lines with an amount taken off those at some places, told as a discount.';
