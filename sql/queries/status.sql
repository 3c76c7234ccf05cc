-- How everything stands, for `pgbill status`. Read without locks; may be asked every second.

-- name: runs
-- The open runs, and the last ones that have ended.
SELECT
    billing_run.run_id,
    billing_run.through_on,
    billing_run.issue_on,
    billing_run.mode,
    billing_run.account_key,
    billing_run.started_at,
    billing_run.started_by,
    billing_run.sealed_at,
    billing_run.ending,
    closed.invoiced_count,
    closed.nothing_to_bill_count
FROM pgbill.billing_run
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE billing_period.outcome = 'invoiced') AS invoiced_count,
        count(*) FILTER (WHERE billing_period.outcome = 'nothing_to_bill')
            AS nothing_to_bill_count
    FROM pgbill.billing_period
    WHERE billing_period.run_id = billing_run.run_id
) AS closed
WHERE billing_run.sealed_at IS NULL
    OR billing_run.run_id IN (
        SELECT ended.run_id
        FROM pgbill.billing_run AS ended
        WHERE ended.sealed_at IS NOT NULL
        ORDER BY ended.run_id DESC
        LIMIT :ended_count
    )
ORDER BY billing_run.run_id DESC;

-- name: leases
WITH asked AS (SELECT clock_timestamp() AS at)

SELECT
    count(*) AS account_count,
    count(*) FILTER (
        WHERE lease.parked_at IS NULL
        AND lease.draft_at IS NULL
        AND lease.due_at <= asked.at
        AND lease.worker_id IS NULL
    ) AS due_count,
    count(*) FILTER (WHERE lease.worker_id IS NOT NULL AND lease.expires_at > asked.at)
        AS held_count,
    count(*) FILTER (WHERE lease.worker_id IS NOT NULL AND lease.expires_at <= asked.at)
        AS expired_count,
    count(*) FILTER (WHERE lease.parked_at IS NOT NULL) AS parked_count,
    count(*) FILTER (WHERE lease.draft_at IS NOT NULL) AS draft_count,
    min(lease.due_at) FILTER (WHERE lease.parked_at IS NULL) AS next_due_at
FROM pgbill.lease
CROSS JOIN asked;

-- name: progress
-- Of the open runs. What is closed is counted by index, what is left from the leases. A rate
-- of before says nothing of a run that only waits for leases of others to expire.
WITH asked AS (SELECT clock_timestamp() AS at)

SELECT
    billing_run.run_id,
    closed.closed_count,
    open_lease.due_count,
    open_lease.failed_count,
    closed.per_second,
    open_lease.held_count,
    CASE
        WHEN open_lease.held_count = 0 OR closed.newest_at > asked.at - interval '10 s'
            THEN open_lease.due_count / nullif(closed.per_second, 0)
    END AS seconds_left
FROM pgbill.billing_run
CROSS JOIN asked
CROSS JOIN LATERAL (
    SELECT
        count(*) AS closed_count,
        count(*) FILTER (WHERE billing_period.closed_at > asked.at - interval '60 s')
        / greatest(least(60, extract(EPOCH FROM asked.at - billing_run.started_at)), 1)::float8
            AS per_second,
        max(billing_period.closed_at) AS newest_at
    FROM pgbill.billing_period
    WHERE billing_period.run_id = billing_run.run_id
) AS closed
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (
            WHERE lease.draft_at IS NULL
            AND (
                lease.failed_run_id IS DISTINCT FROM billing_run.run_id
                OR lease.retry_at IS NOT NULL
            )
        ) AS due_count,
        count(*) FILTER (WHERE lease.failed_run_id = billing_run.run_id) AS failed_count,
        count(*) FILTER (WHERE lease.worker_id IS NOT NULL) AS held_count
    FROM pgbill.lease
    WHERE lease.parked_at IS NULL
        AND lease.due_on <= coalesce(billing_run.through_on, 'infinity'::date - 1) + 1
        AND lease.due_at <= asked.at
        AND (
            billing_run.account_key IS NULL
            OR (lease.bucket, lease.account_id) = (
                SELECT account.bucket, account.account_id
                FROM pgbill.account
                WHERE account.bucket = pgbill.bucket_of(billing_run.account_key)
                    AND account.key = billing_run.account_key
            )
        )
) AS open_lease
WHERE billing_run.sealed_at IS NULL
ORDER BY billing_run.run_id DESC;

-- name: workers
-- Who holds leases, the one that has held one for longest first.
WITH asked AS (SELECT clock_timestamp() AS at)

SELECT
    lease.holder,
    count(*) AS held_count,
    count(*) FILTER (WHERE lease.expires_at <= asked.at) AS expired_count,
    extract(EPOCH FROM asked.at - min(lease.claimed_at))::float8 AS longest_seconds,
    extract(EPOCH FROM asked.at - max(lease.renewed_at))::float8 AS renewed_seconds
FROM pgbill.lease
CROSS JOIN asked
WHERE lease.worker_id IS NOT NULL
GROUP BY lease.holder, asked.at
ORDER BY min(lease.claimed_at), lease.holder
LIMIT :limit;

-- name: slow
-- Accounts that somebody has worked on for long.
WITH asked AS (SELECT clock_timestamp() AS at)

SELECT
    account.key AS account_key,
    lease.holder,
    lease.due_on,
    lease.attempts,
    extract(EPOCH FROM asked.at - lease.claimed_at)::float8 AS seconds,
    lease.expires_at <= asked.at AS is_expired
FROM pgbill.lease
INNER JOIN pgbill.account
    ON lease.bucket = account.bucket AND lease.account_id = account.account_id
CROSS JOIN asked
WHERE lease.worker_id IS NOT NULL
    AND lease.claimed_at < asked.at - make_interval(secs => :slow_seconds)
ORDER BY lease.claimed_at, account.key
LIMIT :limit;

-- name: outbox
-- Open messages are few; what became of closed ones is counted from the outcomes.
WITH open_message AS (
    SELECT
        outbox_message.bucket,
        outbox_message.account_id,
        outbox_message.message_id,
        outbox_message.expires_at,
        outbox_message.held_at IS NOT NULL AND outbox_message.released_at IS NULL AS is_held,
        (
            SELECT max(delivery_attempt.attempt_no)
            FROM pgbill.delivery_attempt
            WHERE delivery_attempt.bucket = outbox_message.bucket
                AND delivery_attempt.account_id = outbox_message.account_id
                AND delivery_attempt.message_id = outbox_message.message_id
        ) AS attempt_no
    FROM pgbill.outbox_message
    WHERE outbox_message.closed_at IS NULL
),

message_state AS (
    SELECT
        CASE
            WHEN open_message.is_held THEN 'held'
            WHEN open_message.expires_at > clock_timestamp() THEN 'claimed'
            WHEN open_message.attempt_no IS NULL THEN 'pending'
            WHEN delivery_outcome.outcome IS NULL THEN 'uncertain'
            ELSE 'deferred'
        END AS state
    FROM open_message
    LEFT JOIN pgbill.delivery_outcome
        ON
            open_message.bucket = delivery_outcome.bucket
            AND open_message.account_id = delivery_outcome.account_id
            AND open_message.message_id = delivery_outcome.message_id
            AND open_message.attempt_no = delivery_outcome.attempt_no
    UNION ALL
    SELECT delivery_outcome.outcome AS state
    FROM pgbill.delivery_outcome
    WHERE delivery_outcome.outcome <> 'deferred'
)

SELECT
    message_state.state,
    count(*) AS message_count
FROM message_state
GROUP BY message_state.state;

-- name: uncertain
SELECT
    outbox_message.message_id,
    account.key AS account,
    delivery_attempt.sent_to,
    delivery_attempt.attempt_no,
    delivery_attempt.holder,
    delivery_attempt.begun_at
FROM pgbill.outbox_message
INNER JOIN pgbill.delivery_attempt
    ON
        outbox_message.bucket = delivery_attempt.bucket
        AND outbox_message.account_id = delivery_attempt.account_id
        AND outbox_message.message_id = delivery_attempt.message_id
INNER JOIN pgbill.account
    ON
        outbox_message.bucket = account.bucket
        AND outbox_message.account_id = account.account_id
WHERE outbox_message.closed_at IS NULL
    AND outbox_message.expires_at <= clock_timestamp()
    AND NOT EXISTS (
        SELECT
        FROM pgbill.delivery_outcome
        WHERE delivery_outcome.bucket = delivery_attempt.bucket
            AND delivery_outcome.account_id = delivery_attempt.account_id
            AND delivery_outcome.message_id = delivery_attempt.message_id
            AND delivery_outcome.attempt_no = delivery_attempt.attempt_no
    )
ORDER BY delivery_attempt.begun_at, outbox_message.message_id
LIMIT :limit;

-- name: alerts
-- Incidents that nobody has acknowledged, and alerts in mails that may not have arrived.
SELECT
    count(DISTINCT alert.incident) AS incident_count,
    count(*) FILTER (
        WHERE alert_digest.begun_at < clock_timestamp() - interval '15 minutes'
        AND NOT EXISTS (
            SELECT
            FROM pgbill.alert_digest_outcome AS outcome
            WHERE outcome.digest_id = alert.digest_id
        )
    ) AS unknown_count
FROM pgbill.alert
LEFT JOIN pgbill.alert_digest USING (digest_id)
WHERE alert.acked_at IS NULL;

-- name: open_alerts
SELECT
    alert.kind,
    count(*) AS alert_count,
    min(alert.raised_at) AS oldest_at
FROM pgbill.alert
WHERE alert.acked_at IS NULL
GROUP BY alert.kind
ORDER BY alert.kind;
