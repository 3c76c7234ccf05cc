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
    invoice.home_tax_amount,
    home.currency AS home_currency,
    home.digits AS home_currency_digits,
    snapshot.content AS seller,
    invoice.buyer,
    (invoice.buyer ->> 'discount_percent')::numeric AS discount_percent,
    invoice.issued_on + (invoice.buyer ->> 'discount_days')::integer AS discount_until_on
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
    (line.rating_input ->> 'part_days')::integer AS part_days,
    (line.rating_input ->> 'whole_days')::integer AS whole_days,
    line.net_amount,
    lower(line.service_period) AS service_from_on,
    upper(line.service_period) - 1 AS service_through_on,
    line.purchase_order,
    line.contract_number,
    line.cost_centre
FROM pgbill.invoice_line AS line
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
