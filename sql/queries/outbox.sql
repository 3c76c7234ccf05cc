-- What the relay does with messages, and what people ask about them.

-- name: due_buckets
SELECT due.bucket
FROM pgbill.due_message_buckets(:channels::text[], :mode::text) AS due;

-- name: claim
SELECT
    claimed.bucket,
    claimed.account_id,
    claimed.message_id,
    claimed.invoice_id,
    claimed.channel,
    claimed.address
FROM pgbill.claim_messages(
    :bucket, :channels::text[], :mode::text, :holder,
    make_interval(secs => :ttl_seconds), :limit
) AS claimed
ORDER BY claimed.message_id;

-- name: renew
SELECT pgbill.renew_messages(
    :buckets::integer[], :account_ids::bigint[], :message_ids::bigint[], :holder,
    make_interval(secs => :ttl_seconds)
) AS message_count;

-- name: release
SELECT pgbill.release_messages(
    :buckets::integer[], :account_ids::bigint[], :message_ids::bigint[], :holder
) AS message_count;

-- name: begin_attempt
SELECT pgbill.begin_attempt(
    :bucket, :account_id, :message_id, :holder, :sent_to
) AS attempt_no;

-- name: record_outcome
SELECT pgbill.record_outcome(
    :bucket, :account_id, :message_id, :attempt_no, :outcome, :reply_code::integer,
    :reply_text, :recorded_by
) AS outcome;

-- name: retry
SELECT pgbill.retry_message(
    :bucket, :account_id, :message_id, :address::text, :reason, :retried_by
) AS message_id;

-- name: held_of_run
SELECT
    billing_run.hold_mail AS holds_mail,
    billing_run.sealed_at IS NOT NULL AS is_sealed,
    (
        SELECT count(*)
        FROM pgbill.outbox_message
        INNER JOIN pgbill.invoice USING (bucket, account_id, invoice_id)
        WHERE invoice.run_id = billing_run.run_id
            AND outbox_message.held_at IS NOT NULL
            AND outbox_message.released_at IS NULL
    ) AS message_count
FROM pgbill.billing_run
WHERE billing_run.run_id = :run_id;

-- name: release_held
SELECT pgbill.release_held_messages(:run_id, :released_by) AS message_count;

-- name: states
-- The newest first. The first condition is for the index of what is open.
SELECT
    outbox_state.bucket,
    outbox_state.account_id,
    outbox_state.account_key,
    outbox_state.message_id,
    outbox_state.number_text,
    outbox_state.mode,
    outbox_state.channel,
    outbox_state.address,
    outbox_state.state,
    outbox_state.attempt_count,
    outbox_state.last_attempt_at,
    outbox_state.reply_code,
    outbox_state.reply_text,
    outbox_state.due_at,
    outbox_state.retry_of,
    outbox_state.retry_reason,
    outbox_state.retried_by,
    outbox_state.retried_as,
    outbox_state.held_at,
    outbox_state.released_at,
    outbox_state.released_by
FROM pgbill.outbox_state
WHERE (NOT :only_open::boolean OR outbox_state.closed_at IS NULL)
    AND (:state::text IS NULL OR outbox_state.state = :state::text)
    AND (:message_id::bigint IS NULL OR outbox_state.message_id = :message_id::bigint)
ORDER BY outbox_state.message_id DESC
LIMIT :limit;

-- name: attempts
SELECT
    delivery_attempt.attempt_no,
    delivery_attempt.begun_at,
    delivery_attempt.holder,
    delivery_attempt.sent_to,
    delivery_outcome.outcome,
    delivery_outcome.reply_code,
    delivery_outcome.reply_text,
    delivery_outcome.recorded_by,
    delivery_outcome.recorded_at
FROM pgbill.delivery_attempt
LEFT JOIN pgbill.delivery_outcome
    ON
        delivery_attempt.bucket = delivery_outcome.bucket
        AND delivery_attempt.account_id = delivery_outcome.account_id
        AND delivery_attempt.message_id = delivery_outcome.message_id
        AND delivery_attempt.attempt_no = delivery_outcome.attempt_no
WHERE delivery_attempt.bucket = :bucket
    AND delivery_attempt.account_id = :account_id
    AND delivery_attempt.message_id = :message_id
ORDER BY delivery_attempt.attempt_no;
