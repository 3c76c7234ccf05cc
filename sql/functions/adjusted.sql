-- What becomes of the rated lines of a closing: limits of prices, limits of subscriptions,
-- discounts; before them stand the lines that were carried forward. Called only for accounts
-- that have any of these.

CREATE OR REPLACE FUNCTION pgbill.adjusted(
    p_lines pgbill.invoice_line[], p_bucket integer, p_account_id bigint, p_period_end date
)
RETURNS pgbill.invoice_line[]
LANGUAGE plpgsql
STABLE
PARALLEL SAFE
AS $$
DECLARE
    v_lines pgbill.invoice_line[] := coalesce(p_lines, '{}');
    v_account pgbill.account;
    v_digits integer;
    v_rounding text;
    v_carried pgbill.invoice_line[];
BEGIN
    SELECT account.* INTO v_account
    FROM pgbill.account
    WHERE account.bucket = p_bucket AND account.account_id = p_account_id;

    SELECT currency.digits, policy.line_rounding INTO v_digits, v_rounding
    FROM pgbill.seller
    INNER JOIN pgbill.policy USING (policy_id)
    CROSS JOIN pgbill.currency
    WHERE seller.seller_id = v_account.seller_id AND currency.currency = v_account.currency;

    v_lines := pgbill.limited_prices(v_lines, v_account.language, v_digits);
    v_lines := pgbill.limited_subscriptions(
        v_lines, p_bucket, p_account_id, v_account.language, v_digits
    );
    v_lines := pgbill.discounted(v_lines, v_account, v_digits, v_rounding);

    SELECT array_agg(kept ORDER BY carried_line.line_no) INTO v_carried
    FROM (
        SELECT billing_period.period_end, billing_period.outcome
        FROM pgbill.billing_period
        WHERE billing_period.bucket = p_bucket
            AND billing_period.account_id = p_account_id
            AND billing_period.period_end < p_period_end
        ORDER BY billing_period.period_end DESC
        LIMIT 1
    ) AS previous
    INNER JOIN pgbill.carried_line
        ON
            carried_line.bucket = p_bucket
            AND carried_line.account_id = p_account_id
            AND previous.period_end = carried_line.period_end
    CROSS JOIN LATERAL jsonb_populate_record(NULL::pgbill.invoice_line, carried_line.line) AS kept
    WHERE previous.outcome = 'carried_forward';

    v_lines := coalesce(v_carried, '{}') || v_lines;
    RETURN CASE WHEN cardinality(v_lines) > 0 THEN v_lines END;
END;
$$;

COMMENT ON FUNCTION pgbill.adjusted IS
'The lines of a closing after limits, discounts and what was carried forward; null: none.';
