-- What the next invoice of an account would be. Each query rates anew, in one snapshot.

-- name: account
SELECT
    account.bucket,
    account.account_id,
    account.key,
    account.legal_name,
    account.zone,
    account.currency,
    lease.due_at AS period_ends_at,
    lease.due_at > clock_timestamp() AS is_open
FROM pgbill.account
INNER JOIN pgbill.lease
    ON account.bucket = lease.bucket AND account.account_id = lease.account_id
WHERE account.bucket = pgbill.bucket_of(:key) AND account.key = :key;

-- name: totals
SELECT
    preview.outcome,
    preview.problem,
    preview.is_taxed,
    (preview.draft).period_start,
    (preview.draft).period_end,
    preview.net_amount,
    preview.tax_amount,
    preview.gross_amount,
    round(
        preview.prepaid_left_amount,
        greatest(scale(preview.prepaid_left_amount), scale(preview.gross_amount))
    ) AS prepaid_left_amount
FROM pgbill.preview(:bucket, :account_id, :max_due_periods, :tax_by_table) AS preview;

-- name: lines
SELECT
    line.ordinality AS line_no,
    line.kind,
    line.description,
    trim_scale(line.quantity) AS quantity,
    line.unit_code,
    line.unit_amount,
    line.rating_input::text AS rating_input,
    round(
        line.discount_amount, greatest(scale(line.discount_amount), scale(line.net_amount))
    ) AS discount_amount,
    (
        -- Amounts as text: the driver would make floats of them.
        SELECT
            jsonb_agg(
                jsonb_build_object(
                    'key', discount.content ->> 'key',
                    'text', discount.content ->> 'text',
                    'amount', discount.content ->> 'amount'
                )
                ORDER BY discount.rank
            )
        FROM jsonb_array_elements(line.discounts)
            WITH ORDINALITY AS discount (content, rank)
    ) AS discounts,
    line.tax_included_amount,
    line.net_amount,
    line.tax_category,
    line.tax_rate,
    lower(line.service_period) AS service_from,
    upper(line.service_period) AS service_until,
    line.usage_count
FROM pgbill.preview(:bucket, :account_id, :max_due_periods, :tax_by_table) AS preview
CROSS JOIN LATERAL unnest((preview.draft).lines) WITH ORDINALITY AS line
ORDER BY line.ordinality;

-- name: taxes
SELECT
    tax.tax_category,
    tax.tax_rate,
    tax.taxable_amount,
    tax.tax_amount,
    tax.legal_text
FROM pgbill.preview(:bucket, :account_id, :max_due_periods, :tax_by_table) AS preview
CROSS JOIN LATERAL unnest(preview.taxes) AS tax
ORDER BY tax.tax_category, tax.tax_rate;
