-- The line that makes up for what is missing to a price's minimum, beside a line of usage.

CREATE OR REPLACE FUNCTION pgbill.line_of_minimum(
    p_line pgbill.invoice_line, p_reached numeric, p_language text, p_digits integer
)
RETURNS pgbill.invoice_line
LANGUAGE plpgsql
IMMUTABLE
PARALLEL SAFE
AS $$
DECLARE
    v_line pgbill.invoice_line := p_line;
BEGIN
    v_line.kind := 'minimum';
    v_line.rating_input := jsonb_strip_nulls(jsonb_build_object(
        'model', 'minimum',
        'quantity', 1,
        'unit_amount', p_line.rating_input -> 'minimum_amount',
        'part', p_line.rating_input -> 'spend_part',
        'whole', p_line.rating_input -> 'spend_whole',
        'rounding', p_line.rating_input -> 'rounding',
        'reached', p_reached,
        'digits', p_digits
    ));
    v_line.description := pgbill.word('minimum', p_language) || ': ' || left(
        p_line.description,
        length(p_line.description) - coalesce(length(': ' || p_line.group_value), 0)
    );
    v_line.quantity := 1;
    v_line.unit_amount := NULL;
    v_line.net_amount := pgbill.price(v_line.rating_input);
    v_line.tax_included_amount := CASE
        WHEN p_line.tax_included_amount IS NOT NULL THEN v_line.net_amount
    END;
    v_line.discount_amount := 0;
    v_line.discounts := NULL;
    v_line.group_value := NULL;
    v_line.meter_id := NULL;
    v_line.usage_from_at := NULL;
    v_line.usage_until_at := NULL;
    v_line.usage_after_seq := NULL;
    v_line.usage_through_seq := NULL;
    v_line.usage_count := NULL;
    RETURN v_line;
END;
$$;

COMMENT ON FUNCTION pgbill.line_of_minimum IS
'A line of kind minimum for the price of a line of usage.';
