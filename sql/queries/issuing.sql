-- name: bill
SELECT
    billed.bucket,
    billed.account_id,
    billed.outcome
FROM pgbill.bill(
    :buckets, :account_ids, :tokens, :worker_id, :run_id, :mode, :issue_on,
    :through_on, :max_due_periods, :max_attempts
) AS billed;
