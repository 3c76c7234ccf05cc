-- Look at issued documents.

-- name: list
SELECT
    invoice_overview.number_text AS number,
    invoice_overview.account_key AS account,
    invoice_overview.buyer_name AS buyer,
    invoice_overview.kind,
    invoice_overview.mode,
    invoice_overview.state,
    invoice_overview.period_start,
    invoice_overview.period_end,
    invoice_overview.issued_on,
    invoice_overview.payable_on,
    invoice_overview.net_amount,
    invoice_overview.tax_amount,
    invoice_overview.gross_amount,
    round(
        invoice_overview.prepaid_amount,
        greatest(scale(invoice_overview.prepaid_amount), scale(invoice_overview.gross_amount))
    ) AS prepaid_amount,
    invoice_overview.payable_amount,
    invoice_overview.currency,
    invoice_overview.run_id
FROM pgbill.invoice_overview
WHERE (
        :account::text IS NULL
        OR (
            invoice_overview.bucket = pgbill.bucket_of(:account)
            AND invoice_overview.account_key = :account
        )
    )
    AND (:run_id::bigint IS NULL OR invoice_overview.run_id = :run_id)
ORDER BY
    invoice_overview.issued_at DESC NULLS FIRST,
    invoice_overview.series_id DESC,
    invoice_overview.number DESC
LIMIT :limit;

-- name: account_exists
SELECT account.key
FROM pgbill.account
WHERE account.bucket = pgbill.bucket_of(:key) AND account.key = :key;

-- name: headers
-- A number is unique within a seller.
SELECT
    invoice_overview.bucket,
    invoice_overview.account_id,
    invoice_overview.invoice_id,
    invoice_overview.number_text AS number,
    invoice_overview.seller_key AS seller,
    invoice_overview.seller_name,
    invoice_overview.account_key AS account,
    invoice_overview.buyer_name,
    invoice_overview.kind,
    invoice_overview.mode,
    invoice_overview.state,
    invoice_overview.period_start,
    invoice_overview.period_end,
    invoice_overview.revision,
    invoice_overview.issued_on,
    invoice_overview.issued_at,
    invoice_overview.tax_point_on,
    invoice_overview.payable_on,
    invoice_overview.currency,
    invoice_overview.net_amount,
    invoice_overview.tax_amount,
    invoice_overview.gross_amount,
    round(
        invoice_overview.prepaid_amount,
        greatest(scale(invoice_overview.prepaid_amount), scale(invoice_overview.gross_amount))
    ) AS prepaid_amount,
    invoice_overview.payable_amount,
    invoice_overview.run_id,
    invoice_overview.fencing_token,
    invoice_overview.cancellation_reason,
    invoice_overview.reason,
    invoice_overview.issued_by
FROM pgbill.invoice_overview
INNER JOIN pgbill.invoice_number
    ON
        invoice_overview.bucket = invoice_number.bucket
        AND invoice_overview.account_id = invoice_number.account_id
        AND invoice_overview.invoice_id = invoice_number.invoice_id
WHERE invoice_number.number_text = :number
    AND (:seller::text IS NULL OR invoice_overview.seller_key = :seller)
ORDER BY invoice_overview.seller_key, invoice_overview.invoice_id
LIMIT 10;

-- name: lines
SELECT
    invoice_line.line_no,
    invoice_line.kind,
    invoice_line.description,
    trim_scale(invoice_line.quantity) AS quantity,
    invoice_line.unit_code,
    invoice_line.unit_amount,
    invoice_line.rating_input::text AS rating_input,
    -- None is kept as 0; it is shown in the digits of the amounts beside it.
    round(
        invoice_line.discount_amount,
        greatest(scale(invoice_line.discount_amount), scale(invoice_line.net_amount))
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
        FROM jsonb_array_elements(invoice_line.discounts)
            WITH ORDINALITY AS discount (content, rank)
    ) AS discounts,
    invoice_line.tax_included_amount,
    invoice_line.net_amount,
    invoice_line.tax_category,
    invoice_line.tax_rate,
    lower(invoice_line.service_period) AS service_from,
    upper(invoice_line.service_period) AS service_until,
    invoice_line.usage_count
FROM pgbill.invoice_line
WHERE invoice_line.bucket = :bucket
    AND invoice_line.account_id = :account_id
    AND invoice_line.invoice_id = :invoice_id
ORDER BY invoice_line.line_no;

-- name: taxes
SELECT
    invoice_tax.tax_category,
    invoice_tax.tax_rate,
    invoice_tax.taxable_amount,
    invoice_tax.tax_amount,
    invoice_tax.legal_text
FROM pgbill.invoice_tax
WHERE invoice_tax.bucket = :bucket
    AND invoice_tax.account_id = :account_id
    AND invoice_tax.invoice_id = :invoice_id
ORDER BY invoice_tax.tax_category, invoice_tax.tax_rate;

-- name: deliveries
SELECT
    outbox_message.message_id,
    outbox_message.channel,
    outbox_message.address,
    attempt.attempt_no AS attempts,
    attempt.begun_at AS last_attempt_at,
    attempt.reply_text AS reply,
    CASE
        WHEN attempt.outcome IN ('accepted', 'failed') THEN attempt.outcome
        WHEN outbox_message.expires_at > clock_timestamp() THEN 'claimed'
        WHEN attempt.attempt_no IS NULL THEN 'pending'
        WHEN attempt.outcome IS NULL THEN 'uncertain'
        ELSE 'deferred'
    END AS state
FROM pgbill.outbox_message
LEFT JOIN LATERAL (
    SELECT
        delivery_attempt.attempt_no,
        delivery_attempt.begun_at,
        delivery_outcome.outcome,
        concat_ws(' ', delivery_outcome.reply_code, delivery_outcome.reply_text)
            AS reply_text
    FROM pgbill.delivery_attempt
    LEFT JOIN pgbill.delivery_outcome
        ON
            delivery_attempt.bucket = delivery_outcome.bucket
            AND delivery_attempt.account_id = delivery_outcome.account_id
            AND delivery_attempt.message_id = delivery_outcome.message_id
            AND delivery_attempt.attempt_no = delivery_outcome.attempt_no
    WHERE delivery_attempt.bucket = outbox_message.bucket
        AND delivery_attempt.account_id = outbox_message.account_id
        AND delivery_attempt.message_id = outbox_message.message_id
    ORDER BY delivery_attempt.attempt_no DESC
    LIMIT 1
) AS attempt ON TRUE
WHERE outbox_message.bucket = :bucket
    AND outbox_message.account_id = :account_id
    AND outbox_message.invoice_id = :invoice_id
ORDER BY outbox_message.message_id;

-- name: related
SELECT
    CASE
        WHEN other.invoice_id = own.credited_invoice_id THEN 'corrects'
        WHEN other.credited_invoice_id = own.invoice_id THEN 'credited by'
        WHEN other.revision > own.revision THEN 'issued again as'
        ELSE 'in place of'
    END AS relation,
    other.number_text AS number,
    other.gross_amount,
    other.issued_on,
    other.reason,
    other.issued_by
FROM pgbill.invoice_overview AS own
INNER JOIN pgbill.invoice_overview AS other
    ON
        own.bucket = other.bucket
        AND own.account_id = other.account_id
        AND (
            other.invoice_id = own.credited_invoice_id
            OR other.credited_invoice_id = own.invoice_id
            OR own.period_end = other.period_end
            AND abs(own.revision - other.revision) = 1
        )
WHERE own.bucket = :bucket
    AND own.account_id = :account_id
    AND own.invoice_id = :invoice_id
ORDER BY other.invoice_id;
