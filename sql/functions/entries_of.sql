-- What documents are in the ledger. The receivable is what is still to be paid; what prepaid
-- credit has paid stands beside it. Revenue is summed by account, cost centre, tax code and
-- days of service, and each part has its share of the tax, by running sums, so that the
-- shares are the tax to the cent.

CREATE OR REPLACE FUNCTION pgbill.entries_of(
    p_buckets integer[], p_account_ids bigint[], p_invoice_ids bigint[]
)
RETURNS TABLE (
    bucket integer,
    account_id bigint,
    invoice_id bigint,
    entry_no integer,
    kind text,
    amount numeric,
    currency text,
    revenue_account text,
    cost_centre text,
    tax_category text,
    tax_rate numeric,
    tax_amount numeric,
    service_period daterange
)
LANGUAGE sql
STABLE
PARALLEL SAFE
AS $$
    WITH document AS MATERIALIZED (
        SELECT
            invoice.bucket,
            invoice.account_id,
            invoice.invoice_id,
            invoice.currency,
            invoice.payable_amount,
            invoice.prepaid_amount,
            currency.digits
        FROM unnest(p_buckets, p_account_ids, p_invoice_ids)
            AS asked (bucket, account_id, invoice_id)
        INNER JOIN pgbill.invoice USING (bucket, account_id, invoice_id)
        INNER JOIN pgbill.currency USING (currency)
    ),

    tax AS (
        SELECT
            document.bucket,
            document.account_id,
            document.invoice_id,
            document.currency,
            invoice_tax.tax_category,
            invoice_tax.tax_rate,
            invoice_tax.tax_amount
        FROM document
        INNER JOIN pgbill.invoice_tax USING (bucket, account_id, invoice_id)
    ),

    revenue AS (
        SELECT
            document.bucket,
            document.account_id,
            document.invoice_id,
            document.currency,
            document.digits,
            line.revenue_account,
            line.cost_centre,
            line.tax_category,
            line.tax_rate,
            line.service_period,
            sum(line.net_amount) AS net_amount
        FROM document
        INNER JOIN pgbill.invoice_line AS line USING (bucket, account_id, invoice_id)
        GROUP BY
            document.bucket, document.account_id, document.invoice_id, document.currency,
            document.digits, line.revenue_account, line.cost_centre, line.tax_category,
            line.tax_rate, line.service_period
    ),

    running AS (
        SELECT
            revenue.bucket,
            revenue.account_id,
            revenue.invoice_id,
            revenue.currency,
            revenue.digits,
            revenue.revenue_account,
            revenue.cost_centre,
            revenue.tax_category,
            revenue.tax_rate,
            revenue.service_period,
            revenue.net_amount,
            sum(revenue.net_amount) OVER in_order AS net_until,
            sum(revenue.net_amount) OVER of_rate AS net_of_rate,
            row_number() OVER in_order = count(*) OVER of_rate AS is_last
        FROM revenue
        WINDOW
            of_rate AS (
                PARTITION BY
                    revenue.bucket, revenue.account_id, revenue.invoice_id,
                    revenue.tax_category, revenue.tax_rate
            ),
            in_order AS (
                of_rate
                ORDER BY
                    revenue.revenue_account COLLATE "C", revenue.cost_centre COLLATE "C",
                    revenue.service_period
                ROWS UNBOUNDED PRECEDING
            )
    ),

    shared AS (
        SELECT
            running.bucket,
            running.account_id,
            running.invoice_id,
            running.currency,
            running.revenue_account,
            running.cost_centre,
            running.tax_category,
            running.tax_rate,
            running.service_period,
            running.net_amount,
            CASE
                WHEN running.net_of_rate <> 0
                    THEN round(tax.tax_amount * running.net_until / running.net_of_rate, running.digits)
                    - round(
                        tax.tax_amount * (running.net_until - running.net_amount)
                        / running.net_of_rate,
                        running.digits
                    )
                WHEN running.is_last THEN tax.tax_amount
                ELSE 0
            END AS tax_amount
        FROM running
        LEFT JOIN tax USING (bucket, account_id, invoice_id, tax_category, tax_rate)
    ),

    entry AS (
        SELECT
            1 AS rank,
            'receivable' AS kind,
            document.bucket,
            document.account_id,
            document.invoice_id,
            document.payable_amount AS amount,
            document.currency,
            NULL::text AS revenue_account,
            NULL::text AS cost_centre,
            NULL::text AS tax_category,
            NULL::numeric AS tax_rate,
            NULL::numeric AS tax_amount,
            NULL::daterange AS service_period
        FROM document
        UNION ALL
        SELECT
            2,
            'prepaid',
            document.bucket,
            document.account_id,
            document.invoice_id,
            document.prepaid_amount,
            document.currency,
            NULL,
            NULL,
            NULL,
            NULL,
            NULL,
            NULL
        FROM document
        WHERE document.prepaid_amount <> 0
        UNION ALL
        SELECT
            3,
            'revenue',
            shared.bucket,
            shared.account_id,
            shared.invoice_id,
            -shared.net_amount,
            shared.currency,
            shared.revenue_account,
            shared.cost_centre,
            shared.tax_category,
            shared.tax_rate,
            -coalesce(shared.tax_amount, 0),
            shared.service_period
        FROM shared
        UNION ALL
        SELECT
            4,
            'tax',
            tax.bucket,
            tax.account_id,
            tax.invoice_id,
            -tax.tax_amount,
            tax.currency,
            NULL,
            NULL,
            tax.tax_category,
            tax.tax_rate,
            NULL,
            NULL
        FROM tax
        WHERE tax.tax_amount <> 0
    )

    SELECT
        entry.bucket,
        entry.account_id,
        entry.invoice_id,
        row_number() OVER (
            PARTITION BY entry.bucket, entry.account_id, entry.invoice_id
            ORDER BY
                entry.rank, entry.tax_category COLLATE "C", entry.tax_rate,
                entry.revenue_account COLLATE "C", entry.cost_centre COLLATE "C",
                entry.service_period
        )::integer,
        entry.kind,
        entry.amount,
        entry.currency,
        entry.revenue_account,
        entry.cost_centre,
        entry.tax_category,
        entry.tax_rate,
        entry.tax_amount,
        entry.service_period
    FROM entry;
$$;

COMMENT ON FUNCTION pgbill.entries_of IS
'The entries of documents, as pgbill.journal_entry keeps them: of each the sum is zero, and '
'the tax amounts of its revenue are its tax.';
