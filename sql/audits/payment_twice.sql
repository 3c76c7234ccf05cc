-- A payment counts once, and for a document of its own currency.

CREATE OR REPLACE VIEW pgbill_audit.payment_twice AS
WITH repeated AS (
    SELECT payment.key
    FROM pgbill.payment
    GROUP BY payment.key
    HAVING count(*) > 1
)

SELECT
    payment.bucket,
    payment.account_id,
    payment.payment_id,
    payment.key,
    'its key came more than once' AS problem
FROM pgbill.payment
INNER JOIN repeated ON payment.key = repeated.key
UNION ALL
SELECT
    payment.bucket,
    payment.account_id,
    payment.payment_id,
    payment.key,
    'its document is in another currency' AS problem
FROM pgbill.payment
LEFT JOIN pgbill.invoice
    ON
        payment.bucket = invoice.bucket
        AND payment.account_id = invoice.account_id
        AND payment.invoice_id = invoice.invoice_id
LEFT JOIN pgbill.imported_invoice
    ON
        payment.bucket = imported_invoice.bucket
        AND payment.account_id = imported_invoice.account_id
        AND payment.imported_invoice_id = imported_invoice.imported_invoice_id
WHERE payment.currency <> coalesce(invoice.currency, imported_invoice.currency);

COMMENT ON VIEW pgbill_audit.payment_twice IS
'Money would count twice, or in another currency than it was paid in: find out which row is '
'right, and take the other back by a payment below zero.';
