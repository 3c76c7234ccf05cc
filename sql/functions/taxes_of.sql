-- The tax of an invoice, from its lines, by category and rate. Where it is rounded is a
-- policy: once for each category and rate, on the sum of the lines (EN 16931, BR-CO-17 and
-- BR-S-08); on each line; or once for the invoice, whose tax is then divided over the rates by
-- running sums, so that the last takes the remainder.
--
-- A single SELECT without settings, so it is inlined; only one of its parts runs.

CREATE OR REPLACE FUNCTION pgbill.taxes_of(
    p_lines pgbill.invoice_line[], p_digits integer, p_scope text, p_rounding text
)
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
        CASE
            WHEN bool_or(line.tax_included_amount IS NOT NULL)
                THEN sum(line.tax_included_amount)
                - pgbill.tax_of(
                    sum(line.tax_included_amount), TRUE, line.tax_rate, p_digits, p_rounding
                )
            ELSE sum(line.net_amount)
        END,
        pgbill.tax_of(
            sum(coalesce(line.tax_included_amount, line.net_amount)),
            bool_or(line.tax_included_amount IS NOT NULL),
            line.tax_rate,
            p_digits,
            p_rounding
        ),
        min(line.legal_text)
    FROM unnest(p_lines) AS line
    WHERE p_scope = 'rate'
    GROUP BY line.tax_category, line.tax_rate
    UNION ALL
    SELECT
        line.tax_category,
        line.tax_rate,
        CASE
            WHEN bool_or(line.tax_included_amount IS NOT NULL)
                THEN sum(line.tax_included_amount) - sum(taxed.tax_amount)
            ELSE sum(line.net_amount)
        END,
        sum(taxed.tax_amount),
        min(line.legal_text)
    FROM unnest(p_lines) AS line
    CROSS JOIN LATERAL (
        SELECT pgbill.tax_of(
            coalesce(line.tax_included_amount, line.net_amount),
            line.tax_included_amount IS NOT NULL,
            line.tax_rate,
            p_digits,
            p_rounding
        )
    ) AS taxed (tax_amount)
    WHERE p_scope = 'line'
    GROUP BY line.tax_category, line.tax_rate
    UNION ALL
    SELECT
        divided.tax_category,
        divided.tax_rate,
        CASE
            WHEN divided.is_included THEN divided.amount - divided.tax_amount
            ELSE divided.amount
        END,
        divided.tax_amount,
        divided.legal_text
    FROM (
        SELECT
            summed.tax_category,
            summed.tax_rate,
            summed.amount,
            summed.is_included,
            summed.legal_text,
            pgbill.rounded(sum(summed.exact_tax) OVER through_this, 1, p_digits, p_rounding)
            - coalesce(
                pgbill.rounded(sum(summed.exact_tax) OVER before_this, 1, p_digits, p_rounding), 0
            ) AS tax_amount
        FROM (
            SELECT
                line.tax_category,
                line.tax_rate,
                sum(coalesce(line.tax_included_amount, line.net_amount)) AS amount,
                bool_or(line.tax_included_amount IS NOT NULL) AS is_included,
                min(line.legal_text) AS legal_text,
                -- Exact where tax comes on top; else to thirty digits.
                pgbill.rounded(
                    sum(coalesce(line.tax_included_amount, line.net_amount)) * line.tax_rate,
                    CASE
                        WHEN bool_or(line.tax_included_amount IS NOT NULL)
                            THEN 100 + line.tax_rate
                        ELSE 100
                    END,
                    30,
                    'half_up'
                ) AS exact_tax
            FROM unnest(p_lines) AS line
            WHERE p_scope = 'total'
            GROUP BY line.tax_category, line.tax_rate
        ) AS summed
        WINDOW
            through_this AS (
                ORDER BY summed.tax_rate, summed.tax_category ROWS UNBOUNDED PRECEDING
            ),
            before_this AS (
                ORDER BY summed.tax_rate, summed.tax_category
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            )
    ) AS divided;
$$;

COMMENT ON FUNCTION pgbill.taxes_of IS
'Taxable and tax amount for each tax category and rate of some lines, rounded to so many '
'digits where and how a policy says (line, rate, total; half_up, half_even, …).';
