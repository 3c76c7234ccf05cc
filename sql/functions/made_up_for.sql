-- Let the lines of a subscription's minimum bring what is missing to it: the last of them
-- first, and none more than its own part of the minimum.

CREATE OR REPLACE FUNCTION pgbill.made_up_for(
    p_lines pgbill.invoice_line[], p_places integer[], p_missing numeric
)
RETURNS pgbill.invoice_line[]
LANGUAGE plpgsql
IMMUTABLE
PARALLEL SAFE
AS $$
DECLARE
    v_lines pgbill.invoice_line[] := p_lines;
    v_line pgbill.invoice_line;
    v_place integer;
    v_left numeric := greatest(p_missing, 0);
    v_own numeric;
BEGIN
    FOREACH v_place IN ARRAY p_places LOOP
        v_line := v_lines[v_place];
        v_own := coalesce(v_line.tax_included_amount, v_line.net_amount);
        v_line.rating_input := v_line.rating_input
            || jsonb_build_object('reached', v_own - least(v_own, v_left));
        v_line.net_amount := pgbill.price(v_line.rating_input);
        v_line.tax_included_amount := CASE
            WHEN v_line.tax_included_amount IS NOT NULL THEN v_line.net_amount
        END;
        v_line.unit_amount := NULL;
        v_lines[v_place] := v_line;
        v_left := v_left - v_line.net_amount;
    END LOOP;

    RETURN v_lines;
END;
$$;

COMMENT ON FUNCTION pgbill.made_up_for IS
'Lines of which those at some places, of a minimum, bring the missing amount together.';
