-- name: issue
SELECT
    issued.bucket,
    issued.account_id,
    issued.outcome
FROM pgbill.issue(
    :buckets, :account_ids, :tokens, :drafts::text []::jsonb [],
    :worker_id, :run_id, :mode, :issue_on
) AS issued;
