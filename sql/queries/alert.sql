-- What a person must look at, and has looked at. Alerts of one incident are one.

-- name: list
WITH chosen AS (
    SELECT DISTINCT
        alert.bucket,
        alert.incident
    FROM pgbill.alert
    WHERE (alert.acked_at IS NULL OR :with_acked)
        AND (:kind::text IS NULL OR alert.kind = :kind)
)

SELECT
    min(alert.alert_id) AS alert_id,
    string_agg(alert.kind, ', ' ORDER BY alert.alert_id) AS kind,
    min(account.key) AS account,
    string_agg(alert.summary, ' ' ORDER BY alert.alert_id) AS summary,
    min(alert.raised_at) AS raised_at,
    CASE WHEN bool_and(alert.acked_at IS NOT NULL) THEN max(alert.acked_at) END AS acked_at,
    CASE WHEN bool_and(alert.acked_at IS NOT NULL) THEN max(alert.acked_by) END AS acked_by,
    max(alert.run_id) AS run_id
FROM chosen
INNER JOIN pgbill.alert USING (bucket, incident)
LEFT JOIN pgbill.account
    ON alert.bucket = account.bucket AND alert.account_id = account.account_id
GROUP BY alert.bucket, alert.incident
ORDER BY max(alert.raised_at) DESC, min(alert.alert_id) DESC
LIMIT :limit;

-- name: acknowledge
-- The first who looks at it counts.
UPDATE pgbill.alert
SET acked_at = clock_timestamp(), acked_by = :acked_by
FROM pgbill.alert AS named
WHERE named.alert_id = :alert_id
    AND alert.bucket = named.bucket
    AND alert.incident = named.incident
    AND alert.acked_at IS NULL
RETURNING alert.alert_id;

-- name: acknowledge_all
UPDATE pgbill.alert
SET acked_at = clock_timestamp(), acked_by = :acked_by
WHERE alert.acked_at IS NULL AND (:kind::text IS NULL OR alert.kind = :kind)
RETURNING alert.alert_id;

-- name: is_known
SELECT alert.alert_id
FROM pgbill.alert
WHERE alert.alert_id = :alert_id;

-- name: newest
SELECT coalesce(max(alert.alert_id), 0) AS alert_id
FROM pgbill.alert;

-- name: of_run
-- Alerts that a run has found, since it began; those of a run that is over, it has found too.
SELECT
    alert.alert_id,
    alert.kind,
    alert.summary,
    CASE
        WHEN alert.kind = 'lease_expired' THEN (
            SELECT lease_event.holder
            FROM pgbill.lease_event
            WHERE lease_event.bucket = alert.bucket
                AND lease_event.account_id = alert.account_id
                AND lease_event.fencing_token = alert.fencing_token
                AND lease_event.kind = 'expired'
            ORDER BY lease_event.lease_event_id
            LIMIT 1
        )
    END AS holder
FROM pgbill.alert
WHERE alert.alert_id > :after_id
    AND alert.alert_id NOT IN (SELECT unnest(:told_ids::bigint[]))
    AND alert.fencing_token IS NOT NULL
    AND (
        alert.run_id = :run_id
        OR NOT EXISTS (
            SELECT
            FROM pgbill.billing_run
            WHERE billing_run.run_id = alert.run_id AND billing_run.sealed_at IS NULL
        )
    )
ORDER BY alert.alert_id
LIMIT :limit;
