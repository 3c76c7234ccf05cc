-- Mails about alerts.

-- name: is_due
SELECT pgbill.digest_is_due(:mode::text, make_interval(secs => :every_seconds)) AS is_due;

-- name: begin
SELECT pgbill.begin_digest(
    :holder, :sent_to, :mode::text, make_interval(secs => :every_seconds)
) AS digest_id;

-- name: record
SELECT pgbill.record_digest(
    :digest_id, :outcome, :reply_code::integer, :reply_text, :recorded_by
) AS outcome;

-- name: without_outcome
SELECT alert_digest.digest_id
FROM pgbill.alert_digest
WHERE alert_digest.holder = :holder
    AND NOT EXISTS (
        SELECT
        FROM pgbill.alert_digest_outcome AS outcome
        WHERE outcome.digest_id = alert_digest.digest_id
    )
ORDER BY alert_digest.digest_id;

-- name: head
SELECT
    alert_digest.digest_id,
    alert_digest.begun_at,
    alert_digest.alert_count,
    current_database()::text AS database_name,
    (
        SELECT seller.mail_from
        FROM pgbill.seller
        ORDER BY seller.seller_id
        LIMIT 1
    ) AS mail_from,
    (
        SELECT count(*)
        FROM pgbill.alert
        WHERE alert.acked_at IS NULL
            AND alert.digest_id <> alert_digest.digest_id
            AND NOT EXISTS (
                SELECT
                FROM pgbill.alert_digest_outcome AS outcome
                WHERE outcome.digest_id = alert.digest_id
            )
    ) AS unknown_count
FROM pgbill.alert_digest
WHERE alert_digest.digest_id = :digest_id;

-- name: kinds
SELECT
    alert.kind,
    count(*) AS alert_count
FROM pgbill.alert
WHERE alert.digest_id = :digest_id
GROUP BY alert.kind
ORDER BY count(*) DESC, alert.kind;

-- name: alerts
SELECT
    alert.alert_id,
    alert.raised_at,
    alert.kind,
    alert.summary
FROM pgbill.alert
WHERE alert.digest_id = :digest_id
ORDER BY alert.alert_id
LIMIT :limit;
