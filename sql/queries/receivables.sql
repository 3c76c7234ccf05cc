-- What is still to be paid.

-- name: open_items
SELECT
    receivable.number_text AS number,
    account.key AS account,
    account.legal_name AS buyer,
    seller.key AS seller,
    receivable.kind,
    receivable.issued_on,
    receivable.payable_on,
    :as_of::date - receivable.issued_on AS age_days,
    greatest(:as_of::date - receivable.payable_on, 0) AS overdue_days,
    receivable.currency,
    receivable.payable_amount,
    receivable.credited_amount,
    receivable.paid_amount,
    receivable.open_amount,
    receivable.state
FROM pgbill.receivables_at(:as_of) AS receivable
INNER JOIN pgbill.account
    ON receivable.bucket = account.bucket AND receivable.account_id = account.account_id
INNER JOIN pgbill.seller ON account.seller_id = seller.seller_id
WHERE receivable.open_amount <> 0
    AND (:seller::text IS NULL OR seller.key = :seller)
ORDER BY
    seller.key, account.key, receivable.payable_on, receivable.issued_on, receivable.number_text,
    receivable.invoice_id, receivable.imported_invoice_id;

-- name: today
SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date AS day;

-- name: seller
SELECT seller.seller_id
FROM pgbill.seller
WHERE seller.key = :seller;
