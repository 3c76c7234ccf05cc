-- Write a credit note, but for its number: the last word of the transaction. It says the same
-- of the buyer as the invoice that it corrects, and goes to whoever receives invoices today.
--
-- It lowers first what is still to be paid; what goes beyond was paid by prepaid credit, and
-- goes back there: to the credit that the invoice has used last, first.

CREATE OR REPLACE FUNCTION pgbill.write_credit_note(
    p_bucket integer,
    p_account_id bigint,
    p_invoice_id bigint,
    p_token bigint,
    p_lines pgbill.invoice_line[],
    p_taxes pgbill.invoice_tax[],
    p_reason text,
    p_issued_by text
)
RETURNS bigint
LANGUAGE plpgsql
SET search_path = ''
AS $$
DECLARE
    v_note_id bigint := nextval('pgbill.invoice_id');
    v_returned_amount numeric;
BEGIN
    SELECT
        greatest(
            coalesce(sum(-note.gross_amount), 0)
            - (SELECT sum(tax.taxable_amount + tax.tax_amount) FROM unnest(p_taxes) AS tax)
            - invoice.payable_amount,
            0
        ) + coalesce(sum(note.prepaid_amount), 0)
    INTO v_returned_amount
    FROM pgbill.invoice
    LEFT JOIN pgbill.invoice AS note
        ON
            invoice.bucket = note.bucket
            AND invoice.account_id = note.account_id
            AND invoice.invoice_id = note.credited_invoice_id
    WHERE invoice.bucket = p_bucket
        AND invoice.account_id = p_account_id
        AND invoice.invoice_id = p_invoice_id
    GROUP BY invoice.payable_amount;

    INSERT INTO pgbill.invoice (
        bucket, account_id, invoice_id, kind, mode, series_id, issued_on, tax_point_on, payable_on,
        currency, net_amount, tax_amount, gross_amount, prepaid_amount, policy_id,
        seller_snapshot_id, buyer, language, delivery_channel, recipients, fencing_token,
        credited_invoice_id, reason, issued_by
    )
    SELECT
        p_bucket,
        p_account_id,
        v_note_id,
        'credit_note',
        invoice.mode,
        series.series_id,
        dated.issued_on,
        dated.issued_on,
        dated.issued_on,
        invoice.currency,
        total.net_amount,
        total.tax_amount,
        total.net_amount + total.tax_amount,
        -v_returned_amount,
        invoice.policy_id,
        (
            SELECT max(seller_snapshot.seller_snapshot_id)
            FROM pgbill.seller_snapshot
            WHERE seller_snapshot.seller_id = account.seller_id
        ),
        invoice.buyer,
        invoice.language,
        account.delivery_channel,
        ARRAY(SELECT jsonb_array_elements_text(account.recipients -> 'invoice')),
        p_token,
        p_invoice_id,
        p_reason,
        p_issued_by
    FROM pgbill.invoice
    INNER JOIN pgbill.account USING (bucket, account_id)
    INNER JOIN pgbill.seller USING (seller_id)
    INNER JOIN pgbill.number_series AS series
        ON
            account.seller_id = series.seller_id
            AND series.kind = 'credit_note'
            AND invoice.mode = series.mode
    CROSS JOIN LATERAL (
        SELECT greatest(
            (clock_timestamp() AT TIME ZONE seller.zone)::date,
            series.last_issued_on,
            invoice.issued_on
        )
    ) AS dated (issued_on)
    CROSS JOIN LATERAL (
        SELECT
            sum(tax.taxable_amount) AS net_amount,
            sum(tax.tax_amount) AS tax_amount
        FROM unnest(p_taxes) AS tax
    ) AS total
    WHERE invoice.bucket = p_bucket
        AND invoice.account_id = p_account_id
        AND invoice.invoice_id = p_invoice_id;

    PERFORM pgbill.write_parts(p_bucket, p_account_id, v_note_id, p_token, p_lines, p_taxes);

    INSERT INTO pgbill.credit_application (
        bucket, account_id, prepaid_credit_id, invoice_id, amount, fencing_token
    )
    SELECT
        p_bucket, p_account_id, returned.prepaid_credit_id, v_note_id, -returned.amount, p_token
    FROM (
        SELECT
            used.prepaid_credit_id,
            least(
                used.amount,
                v_returned_amount - coalesce(
                    sum(used.amount) OVER (
                        ORDER BY used.available_on DESC, used.prepaid_credit_id DESC
                        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                    ),
                    0
                )
            ) AS amount
        FROM pgbill.prepaid_used(p_bucket, p_account_id, p_invoice_id) AS used
    ) AS returned
    WHERE returned.amount > 0;

    RETURN v_note_id;
END;
$$;

COMMENT ON FUNCTION pgbill.write_credit_note IS
'Write a credit note with lines and taxes that are below zero, and give prepaid credit back; '
'returns its id.';
