-- The taxes of a credit note, below zero, by the rates of its invoice: computed as the policy
-- of the invoice says, never more than is left, and all that is left once no line of the rate
-- has anything left. So all credit notes of an invoice together are exactly the invoice.

CREATE OR REPLACE FUNCTION pgbill.credit_taxes(
    p_bucket integer,
    p_account_id bigint,
    p_invoice_id bigint,
    p_lines pgbill.invoice_line[],
    -- What of each line's rate is taken with tax, or null.
    p_rate_gross_amounts numeric[],
    p_digits integer
)
RETURNS pgbill.invoice_tax[]
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
                taken.tax_category,
                taken.tax_rate,
                taken.net_amount,
                CASE
                    WHEN taken.is_last THEN -remaining.tax_amount
                    WHEN taken.included_amount IS NOT NULL
                        THEN taken.included_amount - taken.net_amount
                    WHEN taken.rate_gross_amount IS NOT NULL
                        THEN -taken.rate_gross_amount - taken.net_amount
                    WHEN taken.tax_amount < 0 AND remaining.tax_amount >= 0
                        THEN greatest(taken.tax_amount, -remaining.tax_amount)
                    ELSE taken.tax_amount
                END,
                remaining.legal_text,
                NULL
            )::pgbill.invoice_tax
            ORDER BY taken.tax_category, taken.tax_rate
        )
    FROM (
        SELECT
            line.tax_category,
            line.tax_rate,
            sum(line.net_amount) AS net_amount,
            sum(line.tax_included_amount) AS included_amount,
            max(gross.amount) AS rate_gross_amount,
            CASE policy.tax_rounding_scope
                WHEN 'line'
                    THEN -sum(
                        pgbill.tax_of(
                            -line.net_amount, FALSE, line.tax_rate, p_digits, policy.tax_rounding
                        )
                    )
                ELSE -pgbill.tax_of(
                    -sum(line.net_amount), FALSE, line.tax_rate, p_digits, policy.tax_rounding
                )
            END AS tax_amount,
            NOT EXISTS (
                SELECT
                FROM pgbill.credit_left(p_bucket, p_account_id, p_invoice_id) AS before
                LEFT JOIN unnest(p_lines) AS credit ON before.line_no = credit.credited_line_no
                WHERE before.tax_category = line.tax_category
                    AND before.tax_rate = line.tax_rate
                    AND (
                        before.given_elsewhere
                        OR before.net_amount + coalesce(credit.net_amount, 0) <> 0
                    )
            ) AS is_last
        FROM unnest(p_lines) WITH ORDINALITY AS line
        INNER JOIN unnest(p_rate_gross_amounts) WITH ORDINALITY AS gross (amount, ordinality)
            USING (ordinality)
        INNER JOIN pgbill.invoice
            ON
                invoice.bucket = p_bucket
                AND invoice.account_id = p_account_id
                AND invoice.invoice_id = p_invoice_id
        INNER JOIN pgbill.policy USING (policy_id)
        GROUP BY line.tax_category, line.tax_rate, policy.tax_rounding_scope, policy.tax_rounding
    ) AS taken
    INNER JOIN pgbill.credit_left_by_rate(p_bucket, p_account_id, p_invoice_id) AS remaining
        USING (tax_category, tax_rate);
$$;

COMMENT ON FUNCTION pgbill.credit_taxes IS
'What a credit note takes back of the taxes of its invoice, with lines as '
'pgbill.credit_lines makes them.';
