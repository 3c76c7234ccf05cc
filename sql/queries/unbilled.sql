-- Accruals at the end of a day.

-- name: report
SELECT
    seller.key AS seller,
    unbilled.revenue_account,
    unbilled.currency,
    sum(unbilled.accrued_amount) AS accrued_amount,
    sum(unbilled.deferred_amount) AS deferred_amount
FROM pgbill.unbilled_at(:as_of) AS unbilled
INNER JOIN pgbill.account
    ON unbilled.bucket = account.bucket AND unbilled.account_id = account.account_id
INNER JOIN pgbill.seller ON account.seller_id = seller.seller_id
WHERE unbilled.problem IS NULL
GROUP BY seller.key, unbilled.revenue_account, unbilled.currency
HAVING sum(unbilled.accrued_amount) <> 0 OR sum(unbilled.deferred_amount) <> 0
ORDER BY seller.key, unbilled.revenue_account, unbilled.currency;

-- name: problems
SELECT account.key AS account, min(unbilled.problem) AS problem
FROM pgbill.unbilled_at(:as_of) AS unbilled
INNER JOIN pgbill.account
    ON unbilled.bucket = account.bucket AND unbilled.account_id = account.account_id
WHERE unbilled.problem IS NOT NULL
GROUP BY account.key
ORDER BY account.key
LIMIT 1000;

-- name: is_to_come
-- Whether no seller has reached a day.
SELECT :as_of::date > coalesce(max((clock_timestamp() AT TIME ZONE seller.zone)::date), current_date)
    AS is_to_come
FROM pgbill.seller;
