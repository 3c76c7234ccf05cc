-- How a file of prepaid credits becomes prepaid credits. `complete_prepaid` has a row for
-- each row of the file, in the columns of the table.

-- name: create
CREATE TEMPORARY TABLE staged_prepaid (
    line bigint NOT NULL,
    key text NOT NULL,
    account text NOT NULL,
    description text NOT NULL,
    amount numeric NOT NULL,
    available_on date NOT NULL
);

-- name: drop
DROP TABLE IF EXISTS pg_temp.staged_prepaid, pg_temp.complete_prepaid;

-- name: lock_leases
-- First, as migrations begin here too.
LOCK TABLE pgbill.lease IN ROW EXCLUSIVE MODE;

-- name: lock_credits
-- Imports of prepaid credit queue; a run does not notice.
LOCK TABLE pgbill.prepaid_credit IN SHARE ROW EXCLUSIVE MODE;

-- name: complete
CREATE TEMPORARY TABLE complete_prepaid AS
SELECT
    staged.line,
    pgbill.bucket_of(staged.account) AS bucket,
    account.account_id,
    staged.account AS account_key,
    staged.key,
    staged.description,
    staged.amount,
    staged.available_on
FROM pg_temp.staged_prepaid AS staged
LEFT JOIN pgbill.account
    ON account.bucket = pgbill.bucket_of(staged.account) AND staged.account = account.key;

-- name: problems
-- What is wrong whatever has been imported before.
WITH repeated AS (
    SELECT
        content.line,
        content.key,
        first_value(content.line) OVER same_key AS first_line,
        content.whole,
        first_value(content.whole) OVER same_key AS first_whole
    FROM (
        SELECT
            complete_prepaid.line,
            complete_prepaid.bucket,
            complete_prepaid.account_key,
            complete_prepaid.key,
            to_jsonb(complete_prepaid) - 'line' AS whole
        FROM pg_temp.complete_prepaid
    ) AS content
    WINDOW same_key AS (
        PARTITION BY content.bucket, content.account_key, content.key
        ORDER BY content.line
    )
),

problem AS (
    SELECT
        complete_prepaid.line,
        'account' AS column_name,
        format('there is no account %s', complete_prepaid.account_key) AS reason
    FROM pg_temp.complete_prepaid
    WHERE complete_prepaid.account_id IS NULL
    UNION ALL
    SELECT
        complete_prepaid.line,
        'amount',
        format('%s is not above zero', complete_prepaid.amount)
    FROM pg_temp.complete_prepaid
    WHERE complete_prepaid.amount <= 0
    UNION ALL
    SELECT
        complete_prepaid.line,
        'amount',
        format(
            '%s has more decimals than %s, which has %s',
            complete_prepaid.amount, currency.currency, currency.digits
        )
    FROM pg_temp.complete_prepaid
    INNER JOIN pgbill.account USING (bucket, account_id)
    INNER JOIN pgbill.currency ON account.currency = currency.currency
    WHERE complete_prepaid.amount <> round(complete_prepaid.amount, currency.digits)
    UNION ALL
    SELECT
        repeated.line,
        'key',
        format(
            '%s stands in line %s already, with another %s',
            repeated.key,
            repeated.first_line,
            (
                SELECT string_agg(member.key, ', ' ORDER BY member.key)
                FROM jsonb_each(repeated.whole) AS member
                WHERE member.value IS DISTINCT FROM repeated.first_whole -> member.key
            )
        )
    FROM repeated
    WHERE repeated.whole <> repeated.first_whole
)

SELECT
    problem.line,
    problem.column_name,
    problem.reason,
    count(*) OVER () AS problem_count
FROM problem
ORDER BY problem.line, problem.column_name, problem.reason
LIMIT 20;

-- name: conflicts
-- A key that was imported before must have come with the same data.
WITH known AS (
    SELECT
        complete_prepaid.line,
        complete_prepaid.key,
        to_jsonb(complete_prepaid) AS given,
        to_jsonb(prepaid_credit) - ARRAY['prepaid_credit_id'] AS stored
    FROM pg_temp.complete_prepaid
    INNER JOIN pgbill.prepaid_credit USING (bucket, account_id, key)
),

problem AS (
    SELECT
        known.line,
        'key' AS column_name,
        format(
            '%s was imported before with another %s',
            known.key, string_agg(member.key, ', ' ORDER BY member.key)
        ) AS reason
    FROM known
    CROSS JOIN LATERAL jsonb_each(known.stored) AS member
    WHERE member.value IS DISTINCT FROM known.given -> member.key
    GROUP BY known.line, known.key
)

SELECT
    problem.line,
    problem.column_name,
    problem.reason,
    count(*) OVER () AS problem_count
FROM problem
ORDER BY problem.line, problem.column_name, problem.reason
LIMIT 20;

-- name: insert
WITH written AS (
    INSERT INTO pgbill.prepaid_credit (
        bucket, account_id, key, description, amount, available_on
    )
    SELECT DISTINCT ON (complete_prepaid.bucket, complete_prepaid.account_id, complete_prepaid.key)
        complete_prepaid.bucket,
        complete_prepaid.account_id,
        complete_prepaid.key,
        complete_prepaid.description,
        complete_prepaid.amount,
        complete_prepaid.available_on
    FROM pg_temp.complete_prepaid
    LEFT JOIN pgbill.prepaid_credit USING (bucket, account_id, key)
    WHERE prepaid_credit.prepaid_credit_id IS NULL
    ORDER BY complete_prepaid.bucket, complete_prepaid.account_id, complete_prepaid.key
    RETURNING prepaid_credit.prepaid_credit_id
)

SELECT count(*) AS count
FROM written;
