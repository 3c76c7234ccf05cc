-- What a tax service was asked, and what it has answered.

CREATE TABLE pgbill.tax_answer (
    bucket integer NOT NULL,
    account_id bigint NOT NULL,
    period_end date NOT NULL,
    question_hash text NOT NULL,
    question jsonb NOT NULL,
    answer jsonb NOT NULL,
    provider text NOT NULL,
    answered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    fencing_token bigint NOT NULL,
    PRIMARY KEY (bucket, account_id, period_end, question_hash)
);

COMMENT ON TABLE pgbill.tax_answer IS
'Answers of a tax service, insert-only and fenced: the same question is not asked again.';
COMMENT ON COLUMN pgbill.tax_answer.period_end IS 'The boundary that was to be closed.';
COMMENT ON COLUMN pgbill.tax_answer.question_hash IS 'SHA-256 of the question, in hexadecimal.';

-- It has another parameter now.
DROP FUNCTION IF EXISTS pgbill.rate(integer[], bigint[], date, integer);
