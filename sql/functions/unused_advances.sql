-- Advance fees of a subscription's price that were billed for days on which it is over now,
-- each with the part that is given back. Rare: not inlined, so that those whose prices go on do
-- not carry its plan along.
--
-- A fee that still waits for an invoice is given back beside it. Only the closing of the
-- period in which the price has ended does so: there is no invoice yet that the line could
-- name, and say so to the next.

CREATE OR REPLACE FUNCTION pgbill.unused_advances(
    p_bucket integer,
    p_account_id bigint,
    p_subscription_id bigint,
    p_price_id integer,
    p_active_period daterange,
    p_period_start date,
    p_period_end date
)
RETURNS TABLE (
    invoice_id bigint,
    line_no integer,
    amount numeric,
    description text,
    unit_code text,
    service_period daterange,
    unused_period daterange,
    tax_category text,
    tax_rate numeric,
    legal_text text,
    tax_included boolean
)
LANGUAGE plpgsql
STABLE
PARALLEL SAFE
ROWS 1
AS $$
BEGIN
    RETURN QUERY
    SELECT
        line.invoice_id,
        line.line_no,
        coalesce(line.tax_included_amount, line.net_amount) - taken_back.amount,
        line.description,
        line.unit_code,
        line.service_period,
        line.service_period * daterange(upper(p_active_period), unused.until_on),
        line.tax_category,
        line.tax_rate,
        line.legal_text,
        line.tax_included_amount IS NOT NULL
    FROM pgbill.invoice
    INNER JOIN pgbill.invoice_line AS line USING (bucket, account_id, invoice_id)
    CROSS JOIN LATERAL (
        -- Up to what was given back before, of a price whose end was set back again.
        SELECT least(upper(line.service_period), min(lower(given.service_period))) AS until_on
        FROM (
            SELECT credited.service_period
            FROM pgbill.invoice_line AS credited
            WHERE credited.bucket = p_bucket
                AND credited.account_id = p_account_id
                AND credited.credited_invoice_id = line.invoice_id
                AND credited.credited_line_no = line.line_no
                AND credited.kind = 'unused_advance'
                AND NOT pgbill.is_cancelled(p_bucket, p_account_id, credited.invoice_id)
            UNION ALL
            SELECT (carried_line.line ->> 'service_period')::daterange
            FROM pgbill.carried_line
            WHERE carried_line.bucket = p_bucket
                AND carried_line.account_id = p_account_id
                AND (carried_line.line ->> 'credited_invoice_id')::bigint = line.invoice_id
                AND (carried_line.line ->> 'credited_line_no')::integer = line.line_no
        ) AS given
    ) AS unused
    -- Of a fee that a credit note has lowered, what is left of it was paid in advance.
    CROSS JOIN LATERAL (
        SELECT
            -coalesce(sum(coalesce(credit.tax_included_amount, credit.net_amount)), 0) AS amount
        FROM pgbill.invoice_line AS credit
        WHERE credit.bucket = p_bucket
            AND credit.account_id = p_account_id
            AND credit.credited_invoice_id = line.invoice_id
            AND credit.credited_line_no = line.line_no
            AND credit.kind = 'credit'
    ) AS taken_back
    WHERE invoice.bucket = p_bucket
        AND invoice.account_id = p_account_id
        -- A credit note that closes a period may bill fees as well.
        AND invoice.period_end <= p_period_start
        AND line.subscription_id = p_subscription_id
        AND line.price_id = p_price_id
        AND line.kind = 'advance'
        AND unused.until_on > upper(p_active_period)
        AND pgbill.billed_segment(
            p_bucket, p_account_id, p_subscription_id, p_price_id,
            lower(line.service_period), line.quantity
        ) = p_active_period
        AND NOT pgbill.is_cancelled(p_bucket, p_account_id, line.invoice_id)
        AND taken_back.amount <> coalesce(line.tax_included_amount, line.net_amount)
    UNION ALL
    SELECT
        NULL,
        NULL,
        coalesce(line.tax_included_amount, line.net_amount),
        line.description,
        line.unit_code,
        line.service_period,
        line.service_period * daterange(upper(p_active_period), NULL),
        line.tax_category,
        line.tax_rate,
        line.legal_text,
        line.tax_included_amount IS NOT NULL
    FROM pgbill.billing_period AS previous
    INNER JOIN pgbill.carried_line USING (bucket, account_id, period_end)
    CROSS JOIN LATERAL jsonb_populate_record(NULL::pgbill.invoice_line, carried_line.line) AS line
    WHERE previous.bucket = p_bucket
        AND previous.account_id = p_account_id
        AND previous.period_end = p_period_start
        AND previous.outcome = 'carried_forward'
        AND upper(p_active_period) >= p_period_start
        AND upper(p_active_period) < p_period_end
        AND line.subscription_id = p_subscription_id
        AND line.price_id = p_price_id
        AND line.kind = 'advance'
        AND upper(line.service_period) > upper(p_active_period)
        AND pgbill.billed_segment(
            p_bucket, p_account_id, p_subscription_id, p_price_id,
            lower(line.service_period), line.quantity
        ) = p_active_period;
END;
$$;

COMMENT ON FUNCTION pgbill.unused_advances IS
'The billed advance fees of a price that ended in a billing period, as far as they are for '
'days after its end and not given back yet.';
