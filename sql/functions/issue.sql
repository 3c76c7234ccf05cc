-- Close the periods of many accounts and issue their invoices, in one transaction.
--
-- The order is part of the protocol: leases first (an account whose lease is lost drops out),
-- numbers last (they serialise the workers from there to the commit), the fence on every
-- table between. The caller makes it a statement of its own.

CREATE OR REPLACE FUNCTION pgbill.issue(
    p_buckets integer[],
    p_account_ids bigint[],
    p_tokens bigint[],
    p_drafts pgbill.draft[],
    p_worker_id uuid,
    p_run_id bigint,
    p_mode text,
    p_issue_on date
)
RETURNS TABLE (bucket integer, account_id bigint, outcome text)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_own record;
    v_new_tokens bigint[];
    v_invoice_count bigint;
    v_has_prepaid boolean;
BEGIN
    -- Held ones are released by this, and drop out below with their old tokens.
    RETURN QUERY
    SELECT held.bucket, held.account_id, 'held'
    FROM pgbill.hold_for_review(p_buckets, p_account_ids, p_tokens, p_drafts, p_run_id) AS held;

    -- An account that is missing here was claimed by another worker meanwhile.
    SELECT
        array_agg(own.bucket) AS buckets,
        array_agg(own.account_id) AS account_ids,
        array_agg(own.fencing_token) AS tokens,
        array_agg(own.due_at) AS due_at,
        array_agg(own.draft) AS drafts,
        array_agg(total.net_amount) AS net_amounts,
        array_agg(total.tax_amount) AS tax_amounts,
        array_agg(closing.outcome) AS outcomes,
        array_agg(
            CASE WHEN closing.outcome = 'invoiced' THEN nextval('pgbill.invoice_id') END
        ) AS invoice_ids
    INTO v_own
    FROM (
        SELECT
            lease.bucket,
            lease.account_id,
            lease.fencing_token,
            lease.due_at,
            ROW(
                asked.period_start, asked.period_end, asked.usage_seq, asked.lines,
                asked.policy_id
            )::pgbill.draft AS draft
        FROM unnest(p_buckets, p_account_ids, p_tokens, p_drafts) AS asked (
            bucket, account_id, fencing_token, period_start, period_end, usage_seq, lines, policy_id
        )
        INNER JOIN pgbill.lease
            ON
                asked.bucket = lease.bucket
                AND asked.account_id = lease.account_id
                AND asked.fencing_token = lease.fencing_token
                AND lease.worker_id = p_worker_id
        ORDER BY lease.bucket, lease.account_id
        FOR KEY SHARE OF lease
    ) AS own
    INNER JOIN pgbill.account USING (bucket, account_id)
    INNER JOIN pgbill.currency ON account.currency = currency.currency
    LEFT JOIN pgbill.policy ON (own.draft).policy_id = policy.policy_id
    CROSS JOIN LATERAL (
        SELECT
            sum(tax.taxable_amount) AS net_amount,
            sum(tax.tax_amount) AS tax_amount
        FROM pgbill.taxes_of(
            (own.draft).lines, currency.digits, policy.tax_rounding_scope, policy.tax_rounding
        ) AS tax
    ) AS total
    CROSS JOIN LATERAL (
        SELECT
            CASE
                -- What nearly all have.
                WHEN total.net_amount + total.tax_amount > 0 AND policy.minimum_invoice = '{}'
                    THEN 'invoiced'
                ELSE pgbill.closing_outcome(own.draft, account.currency, currency.digits)
            END
        OFFSET 0
    ) AS closing (outcome);

    IF v_own.buckets IS NULL THEN
        RETURN;
    END IF;

    INSERT INTO pgbill.billing_period (
        bucket, account_id, period_end, period_start, period_end_at, zone, outcome, usage_seq,
        run_id, fencing_token
    )
    SELECT
        own.bucket,
        own.account_id,
        own.period_end,
        own.period_start,
        own.due_at,
        account.zone,
        own.outcome,
        own.usage_seq,
        p_run_id,
        own.fencing_token
    FROM unnest(
        v_own.buckets, v_own.account_ids, v_own.tokens, v_own.due_at, v_own.outcomes, v_own.drafts
    ) AS own (
        bucket, account_id, fencing_token, due_at, outcome, period_start, period_end, usage_seq,
        lines, policy_id
    )
    INNER JOIN pgbill.account USING (bucket, account_id);

    WITH written AS (
        INSERT INTO pgbill.invoice (
            bucket, account_id, invoice_id, kind, mode, period_start, period_end, series_id,
            issued_on, tax_point_on, payable_on, currency, net_amount, tax_amount, gross_amount,
            prepaid_amount, policy_id, seller_snapshot_id, buyer, language, delivery_channel,
            recipients, run_id, fencing_token
        )
        SELECT
            own.bucket,
            own.account_id,
            own.invoice_id,
            CASE WHEN own.net_amount + own.tax_amount < 0 THEN 'credit_note' ELSE 'invoice' END,
            p_mode,
            own.period_start,
            own.period_end,
            series.series_id,
            dated.issued_on,
            CASE
                WHEN own.period_start < own.period_end THEN own.period_end - 1
                ELSE own.period_end
            END,
            pgbill.payable_on(dated.issued_on, account.net_days, account.end_of_month),
            account.currency,
            own.net_amount,
            own.tax_amount,
            own.net_amount + own.tax_amount,
            CASE
                WHEN EXISTS (
                    SELECT
                    FROM pgbill.prepaid_credit
                    WHERE prepaid_credit.bucket = own.bucket
                        AND prepaid_credit.account_id = own.account_id
                ) THEN pgbill.prepaid_for(
                    own.bucket, own.account_id, dated.issued_on, own.net_amount + own.tax_amount
                )
                ELSE 0
            END,
            own.policy_id,
            (
                SELECT max(seller_snapshot.seller_snapshot_id)
                FROM pgbill.seller_snapshot
                WHERE seller_snapshot.seller_id = account.seller_id
            ),
            pgbill.buyer_snapshot(account),
            account.language,
            account.delivery_channel,
            ARRAY(SELECT jsonb_array_elements_text(account.recipients -> 'invoice')),
            p_run_id,
            own.fencing_token
        FROM unnest(
            v_own.buckets, v_own.account_ids, v_own.tokens, v_own.invoice_ids,
            v_own.net_amounts, v_own.tax_amounts, v_own.drafts
        ) AS own (
            bucket, account_id, fencing_token, invoice_id, net_amount, tax_amount,
            period_start, period_end, usage_seq, lines, policy_id
        )
        INNER JOIN pgbill.account USING (bucket, account_id)
        INNER JOIN pgbill.seller USING (seller_id)
        INNER JOIN pgbill.number_series AS series
            ON
                account.seller_id = series.seller_id
                AND series.kind = CASE
                    WHEN own.net_amount + own.tax_amount < 0 THEN 'credit_note'
                    ELSE 'invoice'
                END
                AND series.mode = p_mode
        CROSS JOIN LATERAL (
            SELECT
                greatest(
                    coalesce(p_issue_on, (clock_timestamp() AT TIME ZONE seller.zone)::date),
                    series.last_issued_on
                )
        ) AS dated (issued_on)
        WHERE own.invoice_id IS NOT NULL
        RETURNING invoice.prepaid_amount
    )

    SELECT count(*), coalesce(bool_or(written.prepaid_amount > 0), FALSE)
    INTO v_invoice_count, v_has_prepaid
    FROM written;

    IF v_invoice_count < (SELECT count(own.id) FROM unnest(v_own.invoice_ids) AS own (id)) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'integrity_constraint_violation',
            MESSAGE = format('the seller has no series of invoice numbers in mode %s', p_mode),
            HINT = 'Apply the catalog again: pgbill catalog apply.';
    END IF;

    INSERT INTO pgbill.invoice_line (
        bucket, account_id, invoice_id, line_no, kind, subscription_id, price_id, meter_id,
        description, quantity, unit_code, unit_amount, net_amount, tax_category, tax_rate, legal_text,
        service_period, usage_from_at, usage_until_at, usage_after_seq, usage_through_seq,
        usage_count, purchase_order, contract_number, cost_centre, revenue_account,
        rating_input, fencing_token, discount_amount, discounts, tax_included_amount, group_value,
        charge_id, credited_invoice_id, credited_line_no
    )
    SELECT
        own.bucket, own.account_id, own.invoice_id, line.ordinality, line.kind,
        line.subscription_id, line.price_id, line.meter_id, line.description, line.quantity,
        line.unit_code, line.unit_amount, line.net_amount, line.tax_category, line.tax_rate,
        line.legal_text, line.service_period, line.usage_from_at, line.usage_until_at,
        line.usage_after_seq, line.usage_through_seq, line.usage_count, line.purchase_order,
        line.contract_number, line.cost_centre, line.revenue_account, line.rating_input,
        own.fencing_token, line.discount_amount, line.discounts, line.tax_included_amount,
        line.group_value, line.charge_id, line.credited_invoice_id, line.credited_line_no
    FROM unnest(
        v_own.buckets, v_own.account_ids, v_own.tokens, v_own.invoice_ids, v_own.drafts
    ) AS own (
        bucket, account_id, fencing_token, invoice_id, period_start, period_end, usage_seq,
        lines, policy_id
    )
    CROSS JOIN LATERAL unnest(
        CASE
            WHEN own.lines[1].tax_included_amount IS NULL THEN own.lines
            ELSE pgbill.lines_to_issue(own.bucket, own.account_id, own.lines, own.policy_id)
        END
    ) WITH ORDINALITY AS line
    WHERE own.invoice_id IS NOT NULL;

    INSERT INTO pgbill.invoice_tax (
        bucket, account_id, invoice_id, tax_category, tax_rate, taxable_amount, tax_amount,
        legal_text, fencing_token
    )
    SELECT
        own.bucket, own.account_id, own.invoice_id, tax.tax_category, tax.tax_rate,
        tax.taxable_amount, tax.tax_amount, tax.legal_text, own.fencing_token
    FROM unnest(
        v_own.buckets, v_own.account_ids, v_own.tokens, v_own.invoice_ids, v_own.drafts
    ) AS own (
        bucket, account_id, fencing_token, invoice_id, period_start, period_end, usage_seq,
        lines, policy_id
    )
    INNER JOIN pgbill.account USING (bucket, account_id)
    INNER JOIN pgbill.currency ON account.currency = currency.currency
    INNER JOIN pgbill.policy ON own.policy_id = policy.policy_id
    CROSS JOIN LATERAL pgbill.taxes_of(
        own.lines, currency.digits, policy.tax_rounding_scope, policy.tax_rounding
    ) AS tax
    WHERE own.invoice_id IS NOT NULL;

    IF v_has_prepaid THEN
        PERFORM pgbill.apply_prepaid(v_own.buckets, v_own.account_ids, v_own.invoice_ids);
    END IF;

    -- The lines of a closing without invoice: they wait, or they are zero.
    IF v_invoice_count < cardinality(v_own.account_ids) THEN
        INSERT INTO pgbill.carried_line (
            bucket, account_id, period_end, line_no, line, fencing_token
        )
        SELECT
            own.bucket, own.account_id, own.period_end, line.ordinality,
            jsonb_strip_nulls(to_jsonb(line) - 'ordinality'), own.fencing_token
        FROM unnest(
            v_own.buckets, v_own.account_ids, v_own.tokens, v_own.invoice_ids, v_own.drafts
        ) AS own (
            bucket, account_id, fencing_token, invoice_id, period_start, period_end, usage_seq,
            lines, policy_id
        )
        CROSS JOIN LATERAL unnest(own.lines) WITH ORDINALITY AS line
        WHERE own.invoice_id IS NULL AND own.lines IS NOT NULL;
    END IF;

    SELECT array_agg(nextval('pgbill.fencing_token')) INTO v_new_tokens
    FROM unnest(v_own.account_ids);

    -- The release burns the token: nothing late can be written with it.
    UPDATE pgbill.lease
    SET
        due_on = done.next_on,
        due_at = pgbill.local_midnight(done.next_on, done.zone),
        fencing_token = done.new_token,
        holder = NULL,
        worker_id = NULL,
        claimed_at = NULL,
        expires_at = '-infinity',
        attempts = 0,
        outcome = done.outcome,
        detail = NULL
    FROM (
        SELECT
            own.bucket,
            own.account_id,
            own.outcome,
            account.zone,
            pgbill.boundary(
                account.anchor_on,
                account.billing_interval,
                pgbill.boundary_number(
                    account.anchor_on, account.billing_interval, own.period_end
                )
            ) AS next_on,
            own.new_token
        FROM unnest(
            v_own.buckets, v_own.account_ids, v_own.outcomes, v_new_tokens, v_own.drafts
        ) AS own (
            bucket, account_id, outcome, new_token, period_start, period_end, usage_seq, lines,
            policy_id
        )
        INNER JOIN pgbill.account USING (bucket, account_id)
    ) AS done
    WHERE lease.bucket = done.bucket AND lease.account_id = done.account_id;

    PERFORM pgbill.draw_numbers(v_own.buckets, v_own.account_ids, v_own.invoice_ids);

    RETURN QUERY
    SELECT own.bucket, own.account_id, own.outcome
    FROM unnest(v_own.buckets, v_own.account_ids, v_own.outcomes)
        AS own (bucket, account_id, outcome);
END;
$$;

COMMENT ON FUNCTION pgbill.issue IS
'Close periods and issue invoices for the accounts whose lease is still the '
'caller''s; the others are missing from the answer. Call it as a statement of its '
'own.';
