-- How a file of invoices of a system before becomes imported invoices. `complete_invoice` has
-- a row for each row of the file, in the columns of the table.

-- name: create
CREATE TEMPORARY TABLE staged_invoice (
    line bigint NOT NULL,
    number text NOT NULL,
    account text NOT NULL,
    issued_on date NOT NULL,
    payable_on date NOT NULL,
    currency text,
    gross_amount numeric NOT NULL,
    open_amount numeric NOT NULL
);

-- name: drop
DROP TABLE IF EXISTS pg_temp.staged_invoice, pg_temp.complete_invoice;

-- name: lock_leases
-- First, as migrations begin here too.
LOCK TABLE pgbill.lease IN ROW EXCLUSIVE MODE;

-- name: lock_invoices
-- Imports of invoices queue: a number is looked up and written by one at a time.
LOCK TABLE pgbill.imported_invoice IN SHARE ROW EXCLUSIVE MODE;

-- name: complete
CREATE TEMPORARY TABLE complete_invoice AS
SELECT
    staged.line,
    pgbill.bucket_of(staged.account) AS bucket,
    account.account_id,
    staged.account AS account_key,
    account.seller_id,
    staged.number AS number_text,
    staged.issued_on,
    staged.payable_on,
    coalesce(staged.currency, account.currency) AS currency,
    staged.gross_amount,
    staged.open_amount
FROM pg_temp.staged_invoice AS staged
LEFT JOIN pgbill.account
    ON account.bucket = pgbill.bucket_of(staged.account) AND staged.account = account.key;

-- name: problems
-- What is wrong whatever has been imported before.
WITH repeated AS (
    SELECT
        content.line,
        content.number_text,
        first_value(content.line) OVER same_number AS first_line,
        content.whole,
        first_value(content.whole) OVER same_number AS first_whole
    FROM (
        SELECT
            complete_invoice.line,
            complete_invoice.seller_id,
            complete_invoice.number_text,
            to_jsonb(complete_invoice)
            - ARRAY['line', 'bucket', 'account_id', 'seller_id'] AS whole
        FROM pg_temp.complete_invoice
    ) AS content
    WINDOW same_number AS (
        PARTITION BY content.seller_id, content.number_text ORDER BY content.line
    )
),

problem AS (
    SELECT
        complete_invoice.line,
        'account' AS column_name,
        format('there is no account %s', complete_invoice.account_key) AS reason
    FROM pg_temp.complete_invoice
    WHERE complete_invoice.account_id IS NULL
    UNION ALL
    SELECT
        complete_invoice.line,
        'currency',
        format('there is no currency %s', complete_invoice.currency)
    FROM pg_temp.complete_invoice
    LEFT JOIN pgbill.currency USING (currency)
    WHERE complete_invoice.currency IS NOT NULL AND currency.digits IS NULL
    UNION ALL
    SELECT
        complete_invoice.line,
        amount.name,
        format(
            '%s has more decimals than %s, which has %s',
            amount.value, currency.currency, currency.digits
        )
    FROM pg_temp.complete_invoice
    INNER JOIN pgbill.currency USING (currency)
    CROSS JOIN LATERAL (
        VALUES
        ('gross_amount', complete_invoice.gross_amount),
        ('open_amount', complete_invoice.open_amount)
    ) AS amount (name, value)
    WHERE amount.value <> round(amount.value, currency.digits)
    UNION ALL
    SELECT
        complete_invoice.line,
        'issued_on',
        format('%s is still to come', complete_invoice.issued_on)
    FROM pg_temp.complete_invoice
    INNER JOIN pgbill.seller USING (seller_id)
    WHERE complete_invoice.issued_on > (clock_timestamp() AT TIME ZONE seller.zone)::date + 1
    UNION ALL
    SELECT
        complete_invoice.line,
        'payable_on',
        format(
            '%s is before the day of issue, %s',
            complete_invoice.payable_on, complete_invoice.issued_on
        )
    FROM pg_temp.complete_invoice
    WHERE complete_invoice.payable_on < complete_invoice.issued_on
    UNION ALL
    SELECT
        complete_invoice.line,
        'open_amount',
        format(
            '%s is not between 0 and the gross amount %s',
            complete_invoice.open_amount, complete_invoice.gross_amount
        )
    FROM pg_temp.complete_invoice
    WHERE complete_invoice.open_amount NOT BETWEEN least(complete_invoice.gross_amount, 0)
        AND greatest(complete_invoice.gross_amount, 0)
    UNION ALL
    SELECT
        complete_invoice.line,
        'number',
        format(
            '%s is a number of the series %s, which begins with %s: set its first_number',
            complete_invoice.number_text, number_series.prefix, number_series.first_number
        )
    FROM pg_temp.complete_invoice
    INNER JOIN pgbill.number_series
        ON
            complete_invoice.seller_id = number_series.seller_id
            AND starts_with(complete_invoice.number_text, number_series.prefix)
    CROSS JOIN LATERAL (
        VALUES (substr(complete_invoice.number_text, length(number_series.prefix) + 1))
    ) AS own (digits)
    WHERE own.digits ~ '^[0-9]{1,18}$'
        AND own.digits::numeric >= number_series.first_number
        AND own.digits = lpad(
            own.digits::numeric::text,
            greatest(number_series.digits, length(own.digits::numeric::text)),
            '0'
        )
    UNION ALL
    SELECT
        repeated.line,
        'number',
        format(
            '%s stands in line %s already, with another %s',
            repeated.number_text,
            repeated.first_line,
            (
                SELECT
                    string_agg(
                        replace(member.key, 'account_key', 'account'), ', ' ORDER BY member.key
                    )
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
-- A number that was imported before must have come with the same data.
WITH known AS (
    SELECT
        complete_invoice.line,
        complete_invoice.number_text,
        jsonb_build_object(
            'account', complete_invoice.account_key,
            'issued_on', complete_invoice.issued_on,
            'payable_on', complete_invoice.payable_on,
            'currency', complete_invoice.currency,
            'gross_amount', complete_invoice.gross_amount,
            'open_amount', complete_invoice.open_amount
        ) AS given,
        jsonb_build_object(
            'account', account.key,
            'issued_on', imported_invoice.issued_on,
            'payable_on', imported_invoice.payable_on,
            'currency', imported_invoice.currency,
            'gross_amount', imported_invoice.gross_amount,
            'open_amount', imported_invoice.open_amount
        ) AS stored
    FROM pg_temp.complete_invoice
    INNER JOIN pgbill.imported_invoice USING (number_text)
    INNER JOIN pgbill.account
        ON
            imported_invoice.bucket = account.bucket
            AND imported_invoice.account_id = account.account_id
            AND complete_invoice.seller_id = account.seller_id
),

problem AS (
    SELECT
        known.line,
        'number' AS column_name,
        format(
            '%s was imported before with another %s',
            known.number_text, string_agg(member.key, ', ' ORDER BY member.key)
        ) AS reason
    FROM known
    CROSS JOIN LATERAL jsonb_each(known.stored) AS member
    WHERE member.value IS DISTINCT FROM known.given -> member.key
    GROUP BY known.line, known.number_text
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
    INSERT INTO pgbill.imported_invoice (
        bucket, account_id, number_text, issued_on, payable_on, currency, gross_amount,
        open_amount
    )
    SELECT DISTINCT ON (
        complete_invoice.bucket, complete_invoice.account_id, complete_invoice.number_text
    )
        complete_invoice.bucket,
        complete_invoice.account_id,
        complete_invoice.number_text,
        complete_invoice.issued_on,
        complete_invoice.payable_on,
        complete_invoice.currency,
        complete_invoice.gross_amount,
        complete_invoice.open_amount
    FROM pg_temp.complete_invoice
    LEFT JOIN pgbill.imported_invoice USING (bucket, account_id, number_text)
    WHERE imported_invoice.imported_invoice_id IS NULL
    ORDER BY complete_invoice.bucket, complete_invoice.account_id, complete_invoice.number_text
    RETURNING imported_invoice.imported_invoice_id
)

SELECT count(*) AS count
FROM written;
