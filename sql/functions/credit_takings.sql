-- How much of which line a credit note takes back: all that is left, so much of some lines,
-- or an amount with tax, which is spread over the tax rates, and within each over its lines,
-- in proportion to what is left. Amounts have the sign of their line.
--
-- An amount that is not all that is left leaves a cent of a tax rate that it does not reach:
-- so whoever takes the last of a rate takes exactly the tax that is left of it.

CREATE OR REPLACE FUNCTION pgbill.credit_takings(
    p_bucket integer,
    p_account_id bigint,
    p_invoice_id bigint,
    p_line_nos integer[],
    p_amounts numeric[],
    p_amount numeric,
    p_digits integer
)
RETURNS TABLE (line_no integer, amount numeric, rate_gross_amount numeric)
LANGUAGE plpgsql
STABLE
PARALLEL SAFE
AS $$
DECLARE
    v_rate record;
    v_shares numeric[];
    v_net_amount numeric;
BEGIN
    IF p_line_nos IS NOT NULL THEN
        RETURN QUERY
        SELECT
            remaining.line_no,
            -- 10 is kept, and so shown, as 10.00.
            coalesce(round(asked.amount, p_digits), remaining.amount),
            NULL::numeric
        FROM unnest(p_line_nos, p_amounts) AS asked (line_no, amount)
        INNER JOIN pgbill.credit_left(p_bucket, p_account_id, p_invoice_id) AS remaining
            USING (line_no);
        RETURN;
    END IF;

    IF p_amount IS NULL OR p_amount = (
        SELECT sum(remaining.gross_amount)
        FROM pgbill.credit_left_by_rate(p_bucket, p_account_id, p_invoice_id) AS remaining
    ) THEN
        RETURN QUERY
        SELECT remaining.line_no, remaining.amount, NULL::numeric
        FROM pgbill.credit_left(p_bucket, p_account_id, p_invoice_id) AS remaining
        WHERE remaining.amount <> 0
            -- An invoice of zeros is taken back as it stands.
            OR NOT EXISTS (
                SELECT
                FROM pgbill.credit_left(p_bucket, p_account_id, p_invoice_id) AS other
                WHERE other.amount <> 0
            );
        RETURN;
    END IF;

    SELECT pgbill.spread(
        p_amount,
        array_agg(
            remaining.gross_amount
            ORDER BY remaining.tax_rate, remaining.tax_category
        ),
        p_digits
    )
    INTO v_shares
    FROM pgbill.credit_left_by_rate(p_bucket, p_account_id, p_invoice_id) AS remaining
    WHERE remaining.gross_amount > 0;

    FOR v_rate IN
        SELECT
            remaining.*,
            v_shares[row_number() OVER (ORDER BY remaining.tax_rate, remaining.tax_category)]
                AS share_amount
        FROM pgbill.credit_left_by_rate(p_bucket, p_account_id, p_invoice_id) AS remaining
        WHERE remaining.gross_amount > 0
    LOOP
        v_net_amount := v_rate.share_amount;

        IF NOT v_rate.is_included THEN
            v_net_amount := v_rate.share_amount - least(
                v_rate.tax_amount,
                pgbill.tax_of(
                    v_rate.share_amount, TRUE, v_rate.tax_rate, p_digits, v_rate.tax_rounding
                )
            );

            IF v_rate.share_amount < v_rate.gross_amount THEN
                v_net_amount := least(
                    v_net_amount, v_rate.net_amount - 1 / 10 ^ p_digits::numeric
                );
            END IF;
        END IF;

        RETURN QUERY
        WITH remaining AS (
            SELECT line_left.line_no, line_left.amount
            FROM pgbill.credit_left(p_bucket, p_account_id, p_invoice_id) AS line_left
            WHERE line_left.tax_category = v_rate.tax_category
                AND line_left.tax_rate = v_rate.tax_rate
                -- A line in the buyer's favour gives nothing more.
                AND line_left.amount > 0
        ),

        shares AS (
            SELECT
                array_agg(remaining.line_no ORDER BY remaining.line_no) AS line_nos,
                pgbill.spread(
                    round(v_net_amount, p_digits),
                    array_agg(remaining.amount ORDER BY remaining.line_no),
                    p_digits
                ) AS amounts
            FROM remaining
        )

        SELECT
            share.line_no,
            share.amount,
            CASE WHEN NOT v_rate.is_included THEN v_rate.share_amount END
        FROM shares
        CROSS JOIN LATERAL unnest(shares.line_nos, shares.amounts) AS share (line_no, amount)
        WHERE share.amount <> 0;
    END LOOP;
END;
$$;

COMMENT ON FUNCTION pgbill.credit_takings IS
'What a credit note takes back of which line; rate_gross_amount, in all lines of a tax rate: '
'what it takes of that rate with tax, or null where the lines decide.';
