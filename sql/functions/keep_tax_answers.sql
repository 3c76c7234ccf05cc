-- Keep what a tax service has answered, so that nobody asks it again: not a successor, not
-- a second run. Accounts whose lease is lost are passed over.

CREATE OR REPLACE FUNCTION pgbill.keep_tax_answers(
    p_buckets integer[],
    p_account_ids bigint[],
    p_tokens bigint[],
    p_period_ends date[],
    p_hashes text[],
    p_questions jsonb[],
    p_answers jsonb[],
    p_provider text
)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
SET enable_seqscan = off
AS $$
BEGIN
    INSERT INTO pgbill.tax_answer (
        bucket, account_id, period_end, question_hash, question, answer, provider, fencing_token
    )
    SELECT
        own.bucket,
        own.account_id,
        own.period_end,
        own.question_hash,
        own.question,
        own.answer,
        p_provider,
        own.fencing_token
    FROM (
        SELECT
            lease.bucket,
            lease.account_id,
            lease.fencing_token,
            told.period_end,
            told.question_hash,
            told.question,
            told.answer
        FROM unnest(
            p_buckets, p_account_ids, p_tokens, p_period_ends, p_hashes, p_questions, p_answers
        ) AS told (
            bucket, account_id, fencing_token, period_end, question_hash, question, answer
        )
        INNER JOIN pgbill.lease
            ON
                told.bucket = lease.bucket
                AND told.account_id = lease.account_id
                AND told.fencing_token = lease.fencing_token
        ORDER BY lease.bucket, lease.account_id
        FOR KEY SHARE OF lease
    ) AS own
    ON CONFLICT DO NOTHING;
END;
$$;

COMMENT ON FUNCTION pgbill.keep_tax_answers IS
'Keep answers of a tax service under the leases that are still the caller''s. Call it as a '
'statement of its own, before the invoices are issued.';
