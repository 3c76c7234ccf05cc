-- Prepaid credit is spent once, and an invoice says how much of it it has used.

CREATE OR REPLACE VIEW pgbill_audit.prepaid_overspent AS
WITH used AS (
    SELECT
        credit_application.bucket,
        credit_application.account_id,
        credit_application.prepaid_credit_id,
        sum(credit_application.amount) AS applied_amount
    FROM pgbill.credit_application
    GROUP BY
        credit_application.bucket, credit_application.account_id,
        credit_application.prepaid_credit_id
),

paid AS (
    SELECT
        credit_application.bucket,
        credit_application.account_id,
        credit_application.invoice_id,
        sum(credit_application.amount) AS applied_amount
    FROM pgbill.credit_application
    GROUP BY
        credit_application.bucket, credit_application.account_id,
        credit_application.invoice_id
)

SELECT
    used.bucket,
    used.account_id,
    used.prepaid_credit_id,
    NULL::bigint AS invoice_id,
    prepaid_credit.amount,
    used.applied_amount
FROM used
LEFT JOIN pgbill.prepaid_credit
    ON
        used.bucket = prepaid_credit.bucket
        AND used.account_id = prepaid_credit.account_id
        AND used.prepaid_credit_id = prepaid_credit.prepaid_credit_id
WHERE used.applied_amount < 0
    OR used.applied_amount > coalesce(prepaid_credit.amount, 0)
UNION ALL
SELECT
    coalesce(invoice.bucket, paid.bucket) AS bucket,
    coalesce(invoice.account_id, paid.account_id) AS account_id,
    NULL::bigint AS prepaid_credit_id,
    coalesce(invoice.invoice_id, paid.invoice_id) AS invoice_id,
    coalesce(invoice.prepaid_amount, 0) AS amount,
    coalesce(paid.applied_amount, 0) AS applied_amount
FROM pgbill.invoice
FULL JOIN paid
    ON
        invoice.bucket = paid.bucket
        AND invoice.account_id = paid.account_id
        AND invoice.invoice_id = paid.invoice_id
WHERE coalesce(invoice.prepaid_amount, 0) <> coalesce(paid.applied_amount, 0);

COMMENT ON VIEW pgbill_audit.prepaid_overspent IS
'More of a prepaid credit was applied than it has, or an invoice says another prepaid '
'amount than was applied to it.';
