-- name: bill
SELECT
    billed.bucket,
    billed.account_id,
    billed.outcome
FROM pgbill.bill(
    :buckets, :account_ids, :tokens, :worker_id, :run_id, :mode, :issue_on,
    :through_on, :max_due_periods, :max_attempts
) AS billed;

-- name: rate_and_question
SELECT
    rated.bucket,
    rated.account_id,
    rated.outcome,
    rated.problem,
    rated.draft::text AS draft,
    rated.period_end,
    rated.account_key,
    rated.question::text AS question,
    rated.question_hash,
    rated.answer::text AS answer
FROM pgbill.rate_and_question(:buckets, :account_ids, :through_on, :max_due_periods) AS rated;

-- name: keep_tax_answers
SELECT pgbill.keep_tax_answers(
    :buckets, :account_ids, :tokens, :period_ends, :hashes,
    :questions::text[]::jsonb[], :answers::text[]::jsonb[], :provider
);

-- name: issue
SELECT
    issued.bucket,
    issued.account_id,
    issued.outcome
FROM pgbill.issue(
    :buckets,
    :account_ids,
    :tokens,
    array(
        SELECT pgbill.with_tax(told.draft::jsonb, told.answer::jsonb)
        FROM unnest(:drafts::text[], :answers::text[])
            WITH ORDINALITY AS told (draft, answer, position)
        ORDER BY told.position
    ),
    :worker_id,
    :run_id,
    :mode,
    :issue_on
) AS issued;
