-- Runs, and what a person does with the accounts that they could not invoice.

-- name: runs
-- The newest first. What an open run has done is counted now.
SELECT
    billing_run.run_id,
    billing_run.through_on,
    billing_run.issue_on,
    billing_run.mode,
    billing_run.account_key,
    billing_run.hold_mail,
    billing_run.mail_released_at,
    billing_run.mail_released_by,
    billing_run.started_at,
    billing_run.started_by,
    billing_run.pgbill_version,
    billing_run.settings,
    billing_run.sealed_at,
    billing_run.ending,
    coalesce(billing_run.summary, pgbill.run_summary(billing_run.run_id)) AS summary
FROM pgbill.billing_run
WHERE :run_id::bigint IS NULL OR billing_run.run_id = :run_id::bigint
ORDER BY billing_run.run_id DESC
LIMIT :limit;

-- name: failures
SELECT
    account.key AS account_key,
    failure.outcome,
    failure.reason
FROM pgbill.run_failures(:run_id) AS failure
INNER JOIN pgbill.account
    ON failure.bucket = account.bucket AND failure.account_id = account.account_id
ORDER BY account.key
LIMIT :limit;

-- name: still_parked
-- What failed in a run, or was parked by it, and is parked now: by whom, or by which run.
SELECT
    account.key AS account_key,
    lease.run_id,
    lease.acted_by,
    lease.detail AS reason
FROM pgbill.run_failures(:run_id) AS failure
INNER JOIN pgbill.lease
    ON failure.bucket = lease.bucket AND failure.account_id = lease.account_id
INNER JOIN pgbill.account
    ON failure.bucket = account.bucket AND failure.account_id = account.account_id
WHERE lease.parked_at IS NOT NULL
ORDER BY account.key
LIMIT :limit;

-- name: find_account
SELECT
    account.bucket,
    account.account_id
FROM pgbill.account
WHERE account.bucket = pgbill.bucket_of(:key) AND account.key = :key;

-- name: park
SELECT pgbill.park(:bucket, :account_id, :reason, :by) AS is_done;

-- name: unpark
-- An account that another has unparked meanwhile is none of ours.
WITH unparked AS MATERIALIZED (
    SELECT
        account.key AS account_key,
        pgbill.unpark(account.bucket, account.account_id, :reason, :by) AS is_done
    FROM pgbill.lease
    INNER JOIN pgbill.account USING (bucket, account_id)
    WHERE lease.parked_at IS NOT NULL
        AND (:account_key::text IS NULL OR account.key = :account_key)
    ORDER BY account.bucket, account.account_id
)

SELECT
    unparked.account_key,
    'parked' AS was
FROM unparked
WHERE unparked.is_done
ORDER BY unparked.account_key;

-- name: retry_run
SELECT
    account.key AS account_key,
    retried.was
FROM pgbill.retry_run(:run_id, :reason, :by) AS retried
INNER JOIN pgbill.account
    ON retried.bucket = account.bucket AND retried.account_id = account.account_id
ORDER BY account.key;
