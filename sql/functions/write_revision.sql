-- Write the next revision of a cancelled invoice from a draft, but for its number. It is issued
-- whatever it comes to: its period is closed, so there is no later invoice for its lines to
-- wait for.

CREATE OR REPLACE FUNCTION pgbill.write_revision(
    p_bucket integer,
    p_account_id bigint,
    p_invoice_id bigint,
    p_token bigint,
    p_draft pgbill.draft,
    p_reason text,
    p_issued_by text
)
RETURNS bigint
LANGUAGE plpgsql
SET search_path = ''
AS $$
DECLARE
    v_invoice_id bigint := nextval('pgbill.invoice_id');
    v_taxes pgbill.invoice_tax[];
BEGIN
    SELECT
        array_agg(
            ROW(
                p_bucket, p_account_id, NULL, tax.tax_category, tax.tax_rate, tax.taxable_amount,
                tax.tax_amount, tax.legal_text, NULL
            )::pgbill.invoice_tax
        )
    INTO v_taxes
    FROM pgbill.account
    INNER JOIN pgbill.currency ON account.currency = currency.currency
    INNER JOIN pgbill.policy ON policy.policy_id = p_draft.policy_id
    CROSS JOIN LATERAL pgbill.taxes_of(
        p_draft.lines, currency.digits, policy.tax_rounding_scope, policy.tax_rounding
    ) AS tax
    WHERE account.bucket = p_bucket AND account.account_id = p_account_id;

    INSERT INTO pgbill.invoice (
        bucket, account_id, invoice_id, kind, mode, period_start, period_end, revision, series_id,
        issued_on, tax_point_on, payable_on, currency, net_amount, tax_amount, gross_amount,
        prepaid_amount, policy_id, seller_snapshot_id, buyer, language, delivery_channel,
        recipients, fencing_token, reason, issued_by
    )
    SELECT
        p_bucket,
        p_account_id,
        v_invoice_id,
        series.kind,
        old.mode,
        old.period_start,
        old.period_end,
        old.revision + 1,
        series.series_id,
        dated.issued_on,
        old.tax_point_on,
        pgbill.payable_on(dated.issued_on, account.net_days, account.end_of_month),
        account.currency,
        total.net_amount,
        total.tax_amount,
        total.net_amount + total.tax_amount,
        pgbill.prepaid_for(
            p_bucket, p_account_id, dated.issued_on, total.net_amount + total.tax_amount
        ),
        p_draft.policy_id,
        (
            SELECT max(seller_snapshot.seller_snapshot_id)
            FROM pgbill.seller_snapshot
            WHERE seller_snapshot.seller_id = account.seller_id
        ),
        pgbill.buyer_snapshot(account),
        account.language,
        account.delivery_channel,
        ARRAY(SELECT jsonb_array_elements_text(account.recipients -> 'invoice')),
        p_token,
        p_reason,
        p_issued_by
    FROM pgbill.invoice AS old
    INNER JOIN pgbill.account USING (bucket, account_id)
    INNER JOIN pgbill.seller USING (seller_id)
    CROSS JOIN LATERAL (
        SELECT
            sum(tax.taxable_amount) AS net_amount,
            sum(tax.tax_amount) AS tax_amount
        FROM unnest(v_taxes) AS tax
    ) AS total
    INNER JOIN pgbill.number_series AS series
        ON
            account.seller_id = series.seller_id
            AND series.kind = CASE
                WHEN total.net_amount + total.tax_amount < 0 THEN 'credit_note'
                ELSE 'invoice'
            END
            AND old.mode = series.mode
    CROSS JOIN LATERAL (
        SELECT greatest(
            (clock_timestamp() AT TIME ZONE seller.zone)::date,
            series.last_issued_on,
            old.issued_on
        )
    ) AS dated (issued_on)
    WHERE old.bucket = p_bucket
        AND old.account_id = p_account_id
        AND old.invoice_id = p_invoice_id;

    PERFORM pgbill.write_parts(
        p_bucket,
        p_account_id,
        v_invoice_id,
        p_token,
        pgbill.lines_to_issue(p_bucket, p_account_id, p_draft.lines, p_draft.policy_id),
        v_taxes
    );
    PERFORM pgbill.apply_prepaid(ARRAY[p_bucket], ARRAY[p_account_id], ARRAY[v_invoice_id]);
    RETURN v_invoice_id;
END;
$$;

COMMENT ON FUNCTION pgbill.write_revision IS
'Write the revision that follows on a cancelled invoice, with its prepaid credit; returns its '
'id.';
