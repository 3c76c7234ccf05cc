-- The lines of a credit note, from what it takes back of which line. One that takes all of an
-- untouched line mirrors it: the same quantity, below zero, at the same price. Any other is
-- one piece at the amount.

CREATE OR REPLACE FUNCTION pgbill.credit_lines(
    p_bucket integer,
    p_account_id bigint,
    p_invoice_id bigint,
    p_line_nos integer[],
    p_amounts numeric[],
    p_digits integer,
    p_tax_rounding text
)
RETURNS pgbill.invoice_line[]
LANGUAGE sql
STABLE
PARALLEL SAFE
AS $$
    SELECT
        array_agg(
            ROW(
                p_bucket,
                p_account_id,
                NULL,
                NULL,
                'credit',
                NULL,
                NULL,
                NULL,
                line.description,
                CASE WHEN mirrored.is_exact THEN -line.quantity ELSE -1 END,
                CASE WHEN mirrored.is_exact THEN line.unit_code ELSE 'C62' END,
                CASE WHEN mirrored.is_exact THEN line.unit_amount ELSE asked.amount END,
                -taken.net_amount,
                line.tax_category,
                line.tax_rate,
                line.legal_text,
                line.service_period,
                NULL,
                NULL,
                NULL,
                NULL,
                NULL,
                line.purchase_order,
                line.contract_number,
                line.cost_centre,
                line.revenue_account,
                jsonb_build_object(
                    'model', 'credit',
                    'quantity', CASE WHEN mirrored.is_exact THEN -line.quantity ELSE -1 END,
                    'unit_amount',
                    CASE WHEN mirrored.is_exact THEN line.unit_amount ELSE asked.amount END,
                    'digits', p_digits
                ),
                NULL,
                0,
                NULL,
                CASE WHEN line.tax_included_amount IS NOT NULL THEN -asked.amount END,
                NULL,
                NULL,
                p_invoice_id,
                line.line_no
            )::pgbill.invoice_line
            ORDER BY line.line_no
        )
    FROM unnest(p_line_nos, p_amounts) AS asked (line_no, amount)
    INNER JOIN pgbill.credit_left(p_bucket, p_account_id, p_invoice_id) AS remaining
        USING (line_no)
    INNER JOIN pgbill.invoice_line AS line
        ON
            line.bucket = p_bucket
            AND line.account_id = p_account_id
            AND line.invoice_id = p_invoice_id
            AND asked.line_no = line.line_no
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN asked.amount = remaining.amount THEN remaining.net_amount
            WHEN line.tax_included_amount IS NULL THEN asked.amount
            -- Neither more net nor more tax than is left.
            ELSE greatest(
                least(
                    asked.amount - pgbill.tax_of(
                        asked.amount, TRUE, line.tax_rate, p_digits, p_tax_rounding
                    ),
                    remaining.net_amount
                ),
                asked.amount - (remaining.amount - remaining.net_amount)
            )
        END
    ) AS taken (net_amount)
    CROSS JOIN LATERAL (
        SELECT coalesce(
            asked.amount = coalesce(line.tax_included_amount, line.net_amount)
            AND line.discount_amount = 0
            AND round(line.quantity * line.unit_amount, p_digits) = asked.amount,
            FALSE
        )
    ) AS mirrored (is_exact);
$$;

COMMENT ON FUNCTION pgbill.credit_lines IS
'Lines of kind credit, which name the lines that they take back of, without number.';
