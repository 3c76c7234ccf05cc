-- name: rate
SELECT
    rated.bucket,
    rated.account_id,
    rated.problem,
    rated.draft::text AS draft
FROM pgbill.rate(:buckets, :account_ids, :through_on, :max_due_periods) AS rated;
