-- What a run has done so far: counted when it is asked for, since a running count would
-- serialise all commits.

CREATE OR REPLACE FUNCTION pgbill.run_summary(p_run_id bigint)
RETURNS jsonb
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = ''
AS $$
    WITH closed AS MATERIALIZED (
        SELECT
            billing_period.bucket,
            billing_period.account_id,
            billing_period.period_end,
            billing_period.outcome
        FROM pgbill.billing_period
        WHERE billing_period.run_id = p_run_id
    ),

    mishap AS MATERIALIZED (
        SELECT lease_event.bucket
        FROM pgbill.lease_event
        WHERE lease_event.run_id = p_run_id AND lease_event.kind = 'expired'
    ),

    failure AS MATERIALIZED (
        SELECT failures.outcome
        FROM pgbill.run_failures(p_run_id) AS failures
    ),

    currency_total AS (
        SELECT
            invoice.currency,
            count(*) AS invoice_count,
            sum(invoice.net_amount) AS net_amount,
            sum(invoice.tax_amount) AS tax_amount,
            sum(invoice.gross_amount) AS gross_amount
        FROM closed
        INNER JOIN pgbill.invoice USING (bucket, account_id, period_end)
        WHERE invoice.revision = 1
        GROUP BY invoice.currency
    )

    SELECT jsonb_build_object(
        'run_id', p_run_id,
        'invoiced', (SELECT count(*) FROM closed WHERE closed.outcome = 'invoiced'),
        'nothing_to_bill', (SELECT count(*) FROM closed WHERE closed.outcome = 'nothing_to_bill'),
        'carried_forward', (
            SELECT count(*) FROM closed WHERE closed.outcome = 'carried_forward'
        ),
        'failed', (SELECT count(*) FROM failure WHERE failure.outcome = 'failed'),
        'parked', (SELECT count(*) FROM failure WHERE failure.outcome = 'parked'),
        'held', (SELECT count(*) FROM pgbill.held_draft WHERE held_draft.run_id = p_run_id),
        'leases_lost', (SELECT count(*) FROM mishap),
        'totals', coalesce(
            (
                SELECT jsonb_agg(
                    jsonb_build_object(
                        'currency', currency_total.currency,
                        'invoices', currency_total.invoice_count,
                        'net', currency_total.net_amount::text,
                        'tax', currency_total.tax_amount::text,
                        'gross', currency_total.gross_amount::text
                    )
                    ORDER BY currency_total.currency
                )
                FROM currency_total
            ),
            '[]'
        )
    );
$$;

COMMENT ON FUNCTION pgbill.run_summary IS
'Accounts by outcome, leases lost and totals by currency of a run, up to now.';
