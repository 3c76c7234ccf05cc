-- What a person must look at, and has looked at.

-- name: list
SELECT
    alert.alert_id,
    alert.kind,
    account.key AS account,
    alert.summary,
    alert.raised_at,
    alert.acked_at,
    alert.acked_by
FROM pgbill.alert
LEFT JOIN pgbill.account
    ON alert.bucket = account.bucket AND alert.account_id = account.account_id
WHERE alert.acked_at IS NULL OR :with_acked
ORDER BY alert.raised_at DESC, alert.alert_id DESC
LIMIT :limit;

-- name: acknowledge
-- The first who looks at it counts.
UPDATE pgbill.alert
SET acked_at = clock_timestamp(), acked_by = :acked_by
WHERE alert.alert_id = :alert_id AND alert.acked_at IS NULL
RETURNING alert.alert_id;

-- name: acknowledge_all
UPDATE pgbill.alert
SET acked_at = clock_timestamp(), acked_by = :acked_by
WHERE alert.acked_at IS NULL
RETURNING alert.alert_id;

-- name: is_known
SELECT alert.alert_id
FROM pgbill.alert
WHERE alert.alert_id = :alert_id;
