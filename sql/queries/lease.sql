-- name: claim
SELECT
    :bucket::integer AS bucket,
    claimed.account_id,
    claimed.fencing_token,
    claimed.due_on,
    claimed.is_suspect
FROM pgbill.claim(
    :bucket, :through_on, :holder, :worker_id, :run_id,
    make_interval(secs => :ttl_seconds), :limit, :max_attempts, :account_id
) AS claimed;

-- name: renew
SELECT
    renewed.account_id,
    renewed.is_held
FROM pgbill.renew(
    :bucket, :account_ids, :tokens, make_interval(secs => :ttl_seconds)
) AS renewed;

-- name: release
SELECT pgbill.release(
    :buckets, :account_ids, :tokens, :outcomes, :details, :max_attempts, :may_pass::boolean[],
    make_interval(secs => :retry_after), make_interval(secs => :retry_wait)
);

-- name: settle
SELECT pgbill.settle(:bucket, :account_id, :token) AS is_ours;

-- name: abandon
SELECT pgbill.abandon(
    :bucket, :account_id, :token, :holder, :worker_id, :run_id, :due_on, :detail, :hard_limit
);

-- name: record_refusal
SELECT pgbill.record_refusal(
    :bucket, :account_id, :token, :holder, :worker_id, :run_id, :due_on, :detail
);

-- name: due_buckets
SELECT
    due.bucket,
    due.is_claimable
FROM pgbill.due_buckets(:through_on, :run_id, :account_id) AS due
ORDER BY due.bucket;
