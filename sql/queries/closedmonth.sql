-- Until when the books are closed.

-- name: closed_until
SELECT (max(closed_month.month_on) + interval '1 month')::date AS closed_until
FROM pgbill.closed_month;
