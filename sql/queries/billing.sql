-- name: open_run
SELECT
    opened.run_id,
    opened.is_joined,
    opened.holds_mail
FROM pgbill.open_run(
    :through_on, :issue_on, :mode, :account_key, :settings::text::jsonb, :started_by, :version,
    :hold_mail
) AS opened;

-- name: is_open
-- "By yesterday" of another day is another question: open_run supersedes it.
SELECT count(*) > 0 AS is_open
FROM pgbill.billing_run
WHERE billing_run.through_on IS NOT DISTINCT FROM :through_on
    AND billing_run.issue_on IS NOT DISTINCT FROM :issue_on
    AND billing_run.mode = :mode
    AND billing_run.account_key IS NOT DISTINCT FROM :account_key
    AND billing_run.sealed_at IS NULL
    AND (
        billing_run.through_on IS NOT NULL
        OR billing_run.started_at >= clock_timestamp() - interval '18 hours'
    );

-- name: due_count
SELECT
    counted.due_count,
    counted.held_count,
    counted.parked_count,
    counted.draft_count
FROM pgbill.due_count(:through_on, :run_id, :account_id) AS counted;

-- name: summary
SELECT pgbill.run_summary(:run_id)::text AS summary;

-- name: seal
SELECT pgbill.seal_run(:run_id, 'finished')::text AS summary;

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

-- name: statistics_are_empty
SELECT pg_class.reltuples < 1000 AS are_empty
FROM pg_catalog.pg_class
WHERE pg_class.oid = 'pgbill.invoice'::regclass;

-- name: analyze
SELECT pgbill.analyze_written();
