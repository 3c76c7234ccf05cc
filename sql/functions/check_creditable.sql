-- Say why an invoice cannot be credited so, in one sentence for the clerk (IV007). Asked under
-- the lease: the answer holds until the transaction ends.

CREATE OR REPLACE FUNCTION pgbill.check_creditable(
    p_bucket integer,
    p_account_id bigint,
    p_invoice_id bigint,
    p_line_nos integer[],
    p_amounts numeric[],
    p_amount numeric,
    p_is_cancellation boolean
)
RETURNS void
LANGUAGE plpgsql
STABLE
SET search_path = ''
AS $$
DECLARE
    v_invoice record;
    v_problem text;
BEGIN
    SELECT
        overview.number_text,
        overview.kind,
        overview.state,
        overview.currency,
        currency.digits,
        remaining.gross_amount,
        remaining.has_left,
        remaining.is_given_elsewhere,
        EXISTS (
            SELECT
            FROM pgbill.invoice AS note
            WHERE note.bucket = p_bucket
                AND note.account_id = p_account_id
                AND note.credited_invoice_id = p_invoice_id
        ) AS has_notes
    INTO v_invoice
    FROM pgbill.invoice_overview AS overview
    INNER JOIN pgbill.currency USING (currency)
    CROSS JOIN LATERAL (
        SELECT
            (
                SELECT sum(of_rate.gross_amount)
                FROM pgbill.credit_left_by_rate(p_bucket, p_account_id, p_invoice_id) AS of_rate
            ) AS gross_amount,
            bool_or(line.amount <> 0) AS has_left,
            bool_or(line.given_elsewhere) AS is_given_elsewhere
        FROM pgbill.credit_left(p_bucket, p_account_id, p_invoice_id) AS line
    ) AS remaining
    WHERE overview.bucket = p_bucket
        AND overview.account_id = p_account_id
        AND overview.invoice_id = p_invoice_id;

    v_problem := CASE
        WHEN v_invoice.kind <> 'invoice'
            THEN format('%s is a credit note, which is not corrected', v_invoice.number_text)
        WHEN v_invoice.state = 'cancelled'
            THEN format('%s is cancelled: nothing is left of it', v_invoice.number_text)
        WHEN p_line_nos IS NULL AND p_amount IS NULL AND v_invoice.is_given_elsewhere
            THEN format(
                'a later invoice gives back a part of the fees of %s: cancel that one first',
                v_invoice.number_text
            )
        WHEN NOT v_invoice.has_left AND v_invoice.has_notes AND NOT p_is_cancellation
            THEN format('nothing is left of %s: all of it is credited', v_invoice.number_text)
        WHEN p_amount <= 0 OR EXISTS (
            SELECT FROM unnest(p_amounts) AS asked (amount) WHERE asked.amount <= 0
        ) THEN 'an amount to credit is above zero'
        WHEN scale(p_amount) > v_invoice.digits OR EXISTS (
            SELECT
            FROM unnest(p_amounts) AS asked (amount)
            WHERE scale(asked.amount) > v_invoice.digits
        ) THEN format(
            'an amount in %s has at most %s decimals', v_invoice.currency, v_invoice.digits
        )
        WHEN p_amount > v_invoice.gross_amount
            THEN format(
                'only %s %s with tax is left of %s', v_invoice.gross_amount, v_invoice.currency,
                v_invoice.number_text
            )
        ELSE (
            SELECT CASE
                WHEN count(*) FILTER (WHERE other.line_no = asked.line_no) > 1
                    THEN format('line %s is named twice', asked.line_no)
                WHEN bool_and(remaining.line_no IS NULL)
                    THEN format('%s has no line %s', v_invoice.number_text, asked.line_no)
                ELSE format(
                    'only %s %s is left of line %s of %s', abs(min(remaining.amount)),
                    v_invoice.currency, asked.line_no, v_invoice.number_text
                )
            END
            FROM unnest(p_line_nos, p_amounts) AS asked (line_no, amount)
            LEFT JOIN pgbill.credit_left(p_bucket, p_account_id, p_invoice_id) AS remaining
                USING (line_no)
            CROSS JOIN unnest(p_line_nos) AS other (line_no)
            GROUP BY asked.line_no
            HAVING count(*) FILTER (WHERE other.line_no = asked.line_no) > 1
                OR bool_or(remaining.line_no IS NULL)
                OR bool_or(remaining.amount = 0 OR asked.amount > abs(remaining.amount))
            ORDER BY asked.line_no
            LIMIT 1
        )
    END;

    IF v_problem IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'IV007', MESSAGE = v_problem;
    END IF;
END;
$$;

COMMENT ON FUNCTION pgbill.check_creditable IS
'Raise IV007 with a sentence if an invoice cannot be credited: all that is left, amounts of '
'lines, or an amount with tax.';
