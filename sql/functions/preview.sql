-- What the next invoice of an account would be if its earliest open period were closed now.
-- It is rated as by a run, which writes nothing and locks nothing. The tax service is not
-- asked: it would take minutes and cost money; what it has answered before, it answers here.
--
-- An account that a run would park is rated all the same: whoever approves it wants to see
-- what comes then.

CREATE OR REPLACE FUNCTION pgbill.preview(
    p_bucket integer, p_account_id bigint, p_max_due_periods integer, p_tax_by_table boolean
)
RETURNS TABLE (
    outcome text,
    problem text,
    is_taxed boolean,
    draft pgbill.draft,
    taxes pgbill.invoice_tax[],
    net_amount numeric,
    tax_amount numeric,
    gross_amount numeric,
    prepaid_left_amount numeric
)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = ''
AS $$
DECLARE
    -- More than can ever be due.
    c_any_number CONSTANT integer := 100000;
    v_account record;
    v_rated record;
    v_draft pgbill.draft;
    v_answer jsonb;
BEGIN
    SELECT
        account.currency,
        currency.digits,
        policy.tax_rounding_scope,
        policy.tax_rounding,
        (clock_timestamp() AT TIME ZONE seller.zone)::date AS today_on
    INTO v_account
    FROM pgbill.account
    INNER JOIN pgbill.currency ON account.currency = currency.currency
    INNER JOIN pgbill.seller ON account.seller_id = seller.seller_id
    INNER JOIN pgbill.policy ON seller.policy_id = policy.policy_id
    WHERE account.bucket = p_bucket AND account.account_id = p_account_id;

    SELECT rate.outcome, rate.problem INTO v_rated
    FROM pgbill.rate(
        ARRAY[p_bucket], ARRAY[p_account_id], NULL, p_max_due_periods, p_tax_by_table
    ) AS rate;

    outcome := v_rated.outcome;
    problem := v_rated.problem;

    IF p_tax_by_table THEN
        SELECT rate.outcome, rate.problem, rate.draft INTO v_rated
        FROM pgbill.rate(
            ARRAY[p_bucket], ARRAY[p_account_id], NULL, c_any_number, TRUE
        ) AS rate;
        v_draft := v_rated.draft;
        is_taxed := v_rated.outcome IS NULL;
    ELSE
        SELECT
            asked.outcome,
            asked.problem,
            asked.question,
            asked.answer,
            jsonb_populate_record(NULL::pgbill.draft, asked.draft) AS draft,
            asked.draft AS told
        INTO v_rated
        FROM pgbill.rate_and_question(
            ARRAY[p_bucket], ARRAY[p_account_id], NULL, c_any_number
        ) AS asked;
        v_draft := v_rated.draft;
        v_answer := v_rated.answer;
        is_taxed := v_rated.outcome IS NULL
            AND (v_rated.question IS NULL OR v_answer IS NOT NULL);

        IF v_answer IS NOT NULL THEN
            v_draft := pgbill.with_tax(v_rated.told, v_answer);
        END IF;
    END IF;

    IF v_rated.outcome IS NOT NULL THEN
        outcome := coalesce(outcome, v_rated.outcome);
        problem := CASE
            WHEN problem = v_rated.problem THEN problem
            ELSE concat_ws('; ', problem, v_rated.problem)
        END;
    ELSIF is_taxed THEN
        outcome := coalesce(
            outcome, pgbill.closing_outcome(v_draft, v_account.currency, v_account.digits)
        );
        SELECT
            array_agg(
                ROW(
                    p_bucket, p_account_id, NULL, tax.tax_category, tax.tax_rate,
                    tax.taxable_amount, tax.tax_amount, tax.legal_text, NULL
                )::pgbill.invoice_tax
                ORDER BY tax.tax_category, tax.tax_rate
            ),
            coalesce(sum(tax.taxable_amount), 0),
            coalesce(sum(tax.tax_amount), 0)
        INTO taxes, net_amount, tax_amount
        FROM pgbill.taxes_of(
            v_draft.lines,
            v_account.digits,
            v_account.tax_rounding_scope,
            v_account.tax_rounding
        ) AS tax;
        gross_amount := net_amount + tax_amount;
        v_draft.lines := pgbill.lines_to_issue(
            p_bucket, p_account_id, v_draft.lines, v_draft.policy_id
        );
    END IF;

    draft := v_draft;
    prepaid_left_amount := coalesce(
        (
            SELECT sum(left_over.amount)
            FROM pgbill.prepaid_left(p_bucket, p_account_id, v_account.today_on) AS left_over
        ),
        0
    );
    RETURN NEXT;
END;
$$;

COMMENT ON FUNCTION pgbill.preview IS
'The next invoice of an account as it would be now, with the problem that stands against it; '
'amounts are null where there is one, or while a tax service has not answered.';
