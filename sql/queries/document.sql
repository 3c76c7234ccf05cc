-- An invoice as it was issued, and nothing of what its parties are today.

-- name: invoice
SELECT
    invoice.kind,
    invoice.mode,
    invoice.language,
    invoice.currency,
    currency.digits AS currency_digits,
    numbered.number_text,
    numbered.issued_at,
    invoice.issued_on,
    invoice.tax_point_on,
    invoice.payable_on,
    invoice.net_amount,
    invoice.tax_amount,
    invoice.gross_amount,
    invoice.prepaid_amount,
    invoice.payable_amount,
    invoice.home_tax_amount,
    home.currency AS home_currency,
    home.digits AS home_currency_digits,
    snapshot.content AS seller,
    invoice.buyer,
    (invoice.buyer ->> 'discount_percent')::numeric AS discount_percent,
    invoice.issued_on + (invoice.buyer ->> 'discount_days')::integer AS discount_until_on,
    corrected.corrects
FROM pgbill.invoice
INNER JOIN pgbill.invoice_number AS numbered
    ON
        invoice.bucket = numbered.bucket
        AND invoice.account_id = numbered.account_id
        AND invoice.invoice_id = numbered.invoice_id
        AND invoice.series_id = numbered.series_id
INNER JOIN pgbill.seller_snapshot AS snapshot
    ON invoice.seller_snapshot_id = snapshot.seller_snapshot_id
INNER JOIN pgbill.currency ON invoice.currency = currency.currency
INNER JOIN pgbill.currency AS home ON snapshot.content ->> 'home_currency' = home.currency
-- Cancelled, or given back in part: the law wants to know which.
CROSS JOIN LATERAL (
    SELECT
        coalesce(
            array_agg(DISTINCT original.number_text ORDER BY original.number_text), '{}'
        ) AS corrects
    FROM pgbill.invoice_number AS original
    WHERE invoice.kind = 'credit_note'
        AND original.bucket = :bucket
        AND original.account_id = :account_id
        AND original.invoice_id IN (
            SELECT cancelled.invoice_id
            FROM pgbill.invoice_cancellation AS cancellation
            INNER JOIN pgbill.invoice AS cancelled
                ON
                    cancellation.bucket = cancelled.bucket
                    AND cancellation.account_id = cancelled.account_id
                    AND cancellation.period_end = cancelled.period_end
                    AND cancellation.revision = cancelled.revision
            WHERE cancellation.bucket = :bucket
                AND cancellation.account_id = :account_id
                AND cancellation.credit_note_id = :invoice_id
            UNION ALL
            SELECT line.credited_invoice_id
            FROM pgbill.invoice_line AS line
            WHERE line.bucket = :bucket
                AND line.account_id = :account_id
                AND line.invoice_id = :invoice_id
        )
) AS corrected
WHERE invoice.bucket = :bucket
    AND invoice.account_id = :account_id
    AND invoice.invoice_id = :invoice_id;

-- name: lines
SELECT
    line.description,
    line.kind,
    line.quantity,
    line.unit_code,
    line.unit_amount,
    line.net_amount,
    line.discount_amount,
    taken.discount_texts,
    taken.discount_amounts,
    line.tax_included_amount,
    line.tax_category,
    line.tax_rate,
    lower(line.service_period) AS service_from_on,
    upper(line.service_period) - 1 AS service_through_on,
    line.purchase_order,
    line.contract_number,
    line.cost_centre,
    credited.number_text AS credited_number,
    line.rating_input::text AS rating_input
FROM pgbill.invoice_line AS line
CROSS JOIN LATERAL (
    SELECT
        coalesce(array_agg(discount.content ->> 'text' ORDER BY discount.rank), '{}')
            AS discount_texts,
        coalesce(
            array_agg((discount.content ->> 'amount')::numeric ORDER BY discount.rank), '{}'
        ) AS discount_amounts
    FROM jsonb_array_elements(line.discounts) WITH ORDINALITY AS discount (content, rank)
) AS taken
LEFT JOIN pgbill.invoice_number AS credited
    ON
        line.bucket = credited.bucket
        AND line.account_id = credited.account_id
        AND line.credited_invoice_id = credited.invoice_id
WHERE line.bucket = :bucket
    AND line.account_id = :account_id
    AND line.invoice_id = :invoice_id
ORDER BY line.line_no;

-- name: taxes
SELECT
    tax.tax_category,
    tax.tax_rate,
    tax.taxable_amount,
    tax.tax_amount,
    tax.legal_text
FROM pgbill.invoice_tax AS tax
WHERE tax.bucket = :bucket
    AND tax.account_id = :account_id
    AND tax.invoice_id = :invoice_id
ORDER BY tax.tax_rate DESC, tax.tax_category;
