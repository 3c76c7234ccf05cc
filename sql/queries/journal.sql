-- Handing documents over to the ledger.

-- name: lock_leases
-- First, as migrations begin here too.
LOCK TABLE pgbill.lease IN ROW EXCLUSIVE MODE;

-- name: lock_exports
-- Exports queue: each takes what the ones before have left.
LOCK TABLE pgbill.journal_export IN SHARE ROW EXCLUSIVE MODE;

-- name: sellers
SELECT seller.seller_id, seller.key
FROM pgbill.seller
ORDER BY seller.key;

-- name: open
INSERT INTO pgbill.journal_export (export_id, seller_id, through_on, exported_by)
SELECT coalesce(max(journal_export.export_id), 0) + 1, :seller_id, :through_on, :by
FROM pgbill.journal_export
RETURNING journal_export.export_id;

-- name: write
WITH chosen AS (
    SELECT
        array_agg(invoice.bucket ORDER BY invoice.invoice_id) AS buckets,
        array_agg(invoice.account_id ORDER BY invoice.invoice_id) AS account_ids,
        array_agg(invoice.invoice_id ORDER BY invoice.invoice_id) AS invoice_ids
    FROM pgbill.invoice
    INNER JOIN pgbill.number_series USING (series_id)
    WHERE number_series.seller_id = :seller_id
        AND invoice.mode = 'live'
        AND invoice.issued_on <= :through_on
        AND NOT EXISTS (
            SELECT
            FROM pgbill.journal_entry
            WHERE journal_entry.bucket = invoice.bucket
                AND journal_entry.account_id = invoice.account_id
                AND journal_entry.invoice_id = invoice.invoice_id
        )
),

written AS (
    INSERT INTO pgbill.journal_entry (
        bucket, account_id, invoice_id, entry_no, export_id, kind, amount, currency,
        revenue_account, cost_centre, tax_category, tax_rate, tax_amount, service_period
    )
    SELECT
        entry.bucket,
        entry.account_id,
        entry.invoice_id,
        entry.entry_no,
        :export_id,
        entry.kind,
        entry.amount,
        entry.currency,
        entry.revenue_account,
        entry.cost_centre,
        entry.tax_category,
        entry.tax_rate,
        entry.tax_amount,
        entry.service_period
    FROM chosen
    CROSS JOIN LATERAL pgbill.entries_of(
        chosen.buckets, chosen.account_ids, chosen.invoice_ids
    ) AS entry
    RETURNING journal_entry.entry_no
)

SELECT count(*) FILTER (WHERE written.entry_no = 1) AS count
FROM written;

-- name: head
SELECT
    journal_export.export_id,
    journal_export.through_on,
    journal_export.exported_at,
    journal_export.exported_by,
    seller.key AS seller,
    seller.legal_name,
    seller.street,
    seller.postal_code,
    seller.city,
    seller.region,
    seller.country,
    seller.vat_id,
    seller.tax_number,
    seller.register_entry,
    seller.contact_name,
    seller.contact_email,
    seller.contact_phone,
    seller.home_currency,
    counted.document_count,
    counted.first_on,
    counted.last_on,
    counted.debit_amount,
    counted.credit_amount
FROM pgbill.journal_export
INNER JOIN pgbill.seller USING (seller_id)
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE journal_entry.entry_no = 1) AS document_count,
        min(invoice.issued_on) AS first_on,
        max(invoice.issued_on) AS last_on,
        coalesce(
            sum(journal_entry.amount) FILTER (
                WHERE journal_entry.kind = 'revenue' AND journal_entry.amount > 0
            ),
            0
        ) AS debit_amount,
        coalesce(
            -sum(journal_entry.amount) FILTER (
                WHERE journal_entry.kind = 'revenue' AND journal_entry.amount < 0
            ),
            0
        ) AS credit_amount
    FROM pgbill.journal_entry
    INNER JOIN pgbill.invoice USING (bucket, account_id, invoice_id)
    WHERE journal_entry.export_id = journal_export.export_id
) AS counted
WHERE journal_export.export_id = :export_id;

-- name: entries
SELECT
    invoice_number.number_text AS number,
    invoice.kind AS document_kind,
    invoice.issued_on,
    invoice.tax_point_on,
    invoice.payable_on,
    invoice.net_amount,
    invoice.gross_amount,
    invoice.exchange_rate,
    account.key AS account,
    invoice.buyer,
    credited.number_text AS credited_number,
    journal_entry.entry_no,
    journal_entry.kind,
    journal_entry.amount,
    journal_entry.currency,
    journal_entry.revenue_account,
    journal_entry.cost_centre,
    journal_entry.tax_category,
    journal_entry.tax_rate,
    journal_entry.tax_amount,
    lower(journal_entry.service_period) AS service_from,
    upper(journal_entry.service_period) - 1 AS service_through
FROM pgbill.journal_entry
INNER JOIN pgbill.invoice USING (bucket, account_id, invoice_id)
INNER JOIN pgbill.account USING (bucket, account_id)
INNER JOIN pgbill.invoice_number USING (bucket, account_id, invoice_id, series_id)
LEFT JOIN pgbill.invoice_number AS credited
    ON
        invoice.bucket = credited.bucket
        AND invoice.account_id = credited.account_id
        AND invoice.credited_invoice_id = credited.invoice_id
WHERE journal_entry.export_id = :export_id
ORDER BY invoice_number.series_id, invoice_number.number, journal_entry.entry_no;

-- name: customers
SELECT DISTINCT ON (account.key)
    account.key AS account,
    invoice.buyer
FROM pgbill.journal_entry
INNER JOIN pgbill.invoice USING (bucket, account_id, invoice_id)
INNER JOIN pgbill.account USING (bucket, account_id)
WHERE journal_entry.export_id = :export_id AND journal_entry.entry_no = 1
ORDER BY account.key, invoice.invoice_id DESC;

-- name: tax_codes
SELECT DISTINCT journal_entry.tax_category, journal_entry.tax_rate
FROM pgbill.journal_entry
WHERE journal_entry.export_id = :export_id AND journal_entry.kind = 'revenue'
ORDER BY journal_entry.tax_category, journal_entry.tax_rate;

-- name: revenue_accounts
SELECT DISTINCT journal_entry.revenue_account
FROM pgbill.journal_entry
WHERE journal_entry.export_id = :export_id AND journal_entry.kind = 'revenue'
ORDER BY journal_entry.revenue_account;

-- name: keep
INSERT INTO pgbill.journal_file (export_id, format, part_no, content)
VALUES (:export_id, :format, :part_no, :content);

-- name: first_format
SELECT journal_file.format
FROM pgbill.journal_file
WHERE journal_file.export_id = :export_id
ORDER BY journal_file.made_at, journal_file.format
LIMIT 1;

-- name: part
SELECT journal_file.content
FROM pgbill.journal_file
WHERE journal_file.export_id = :export_id
    AND journal_file.format = :format
    AND journal_file.part_no = :part_no;

-- name: exports
SELECT
    journal_export.export_id,
    seller.key AS seller,
    journal_export.through_on,
    journal_export.exported_at,
    journal_export.exported_by,
    (
        SELECT count(*)
        FROM pgbill.journal_entry
        WHERE journal_entry.export_id = journal_export.export_id AND journal_entry.entry_no = 1
    ) AS document_count,
    (
        SELECT string_agg(DISTINCT journal_file.format, ', ' ORDER BY journal_file.format)
        FROM pgbill.journal_file
        WHERE journal_file.export_id = journal_export.export_id
    ) AS formats
FROM pgbill.journal_export
INNER JOIN pgbill.seller USING (seller_id)
ORDER BY journal_export.export_id DESC
LIMIT :limit;
