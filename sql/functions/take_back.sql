-- Take back of an invoice what is asked for, under the lease: the credit note, and the
-- cancellation if all of it is to go. Returns null where all of it was credited before: then
-- the last of these credit notes is the one that has cancelled it.

CREATE OR REPLACE FUNCTION pgbill.take_back(
    p_bucket integer,
    p_account_id bigint,
    p_invoice_id bigint,
    p_token bigint,
    p_line_nos integer[],
    p_amounts numeric[],
    p_amount numeric,
    p_is_cancellation boolean,
    p_reason text,
    p_issued_by text
)
RETURNS bigint
LANGUAGE plpgsql
SET search_path = ''
AS $$
DECLARE
    v_terms record;
    v_line_nos integer[];
    v_takings numeric[];
    v_rate_gross_amounts numeric[];
    v_lines pgbill.invoice_line[];
    v_taxes pgbill.invoice_tax[];
    v_note_id bigint;
    v_last_note_id bigint;
    v_is_done boolean;
BEGIN
    PERFORM pgbill.check_creditable(
        p_bucket, p_account_id, p_invoice_id, p_line_nos, p_amounts, p_amount, p_is_cancellation
    );

    SELECT
        currency.digits,
        policy.tax_rounding,
        invoice.period_end,
        invoice.revision,
        invoice.currency,
        overview.number_text
    INTO v_terms
    FROM pgbill.invoice
    INNER JOIN pgbill.currency USING (currency)
    INNER JOIN pgbill.policy USING (policy_id)
    INNER JOIN pgbill.invoice_overview AS overview USING (bucket, account_id, invoice_id)
    WHERE invoice.bucket = p_bucket
        AND invoice.account_id = p_account_id
        AND invoice.invoice_id = p_invoice_id;

    SELECT max(note.invoice_id) INTO v_last_note_id
    FROM pgbill.invoice AS note
    WHERE note.bucket = p_bucket
        AND note.account_id = p_account_id
        AND note.credited_invoice_id = p_invoice_id;

    SELECT v_last_note_id IS NOT NULL AND bool_and(remaining.amount = 0) INTO v_is_done
    FROM pgbill.credit_left(p_bucket, p_account_id, p_invoice_id) AS remaining;

    IF NOT v_is_done THEN
        SELECT
            array_agg(taking.line_no ORDER BY taking.line_no),
            -- An amount is given above zero, whichever way its line goes.
            array_agg(abs(taking.amount) * sign(remaining.amount) ORDER BY taking.line_no),
            array_agg(taking.rate_gross_amount ORDER BY taking.line_no)
        INTO v_line_nos, v_takings, v_rate_gross_amounts
        FROM pgbill.credit_takings(
            p_bucket, p_account_id, p_invoice_id, p_line_nos, p_amounts, p_amount, v_terms.digits
        ) AS taking
        INNER JOIN pgbill.credit_left(p_bucket, p_account_id, p_invoice_id) AS remaining
            USING (line_no);

        v_lines := pgbill.credit_lines(
            p_bucket, p_account_id, p_invoice_id, v_line_nos, v_takings, v_terms.digits,
            v_terms.tax_rounding
        );
        v_taxes := pgbill.credit_taxes(
            p_bucket, p_account_id, p_invoice_id, v_lines, v_rate_gross_amounts, v_terms.digits
        );

        PERFORM pgbill.check_credit_total(
            p_bucket, p_account_id, p_invoice_id, v_taxes, v_terms.number_text, v_terms.currency
        );

        v_note_id := pgbill.write_credit_note(
            p_bucket, p_account_id, p_invoice_id, p_token, v_lines, v_taxes, p_reason, p_issued_by
        );
    END IF;

    IF p_is_cancellation THEN
        INSERT INTO pgbill.invoice_cancellation (
            bucket, account_id, period_end, revision, credit_note_id, reason, cancelled_by,
            fencing_token
        )
        VALUES (
            p_bucket, p_account_id, v_terms.period_end, v_terms.revision,
            coalesce(v_note_id, v_last_note_id), p_reason, p_issued_by, p_token
        );
    END IF;

    RETURN v_note_id;
END;
$$;

COMMENT ON FUNCTION pgbill.take_back IS
'Write the credit note, and the cancellation, that a clerk asks for, but for the number; '
'returns the id of the credit note, or null if none was needed.';
