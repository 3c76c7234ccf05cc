-- How a file of payments becomes payments. `complete_payment` has a row for each row of the
-- file, with what it matches; `is_known` if its key was imported before and assigned.

-- name: create
CREATE TEMPORARY TABLE staged_payment (
    line bigint NOT NULL,
    key text NOT NULL,
    invoice text,
    reference text,
    seller text,
    amount numeric NOT NULL,
    currency text,
    paid_on date NOT NULL,
    payer text
);

-- name: drop
DROP TABLE IF EXISTS pg_temp.staged_payment, pg_temp.complete_payment;

-- name: lock_leases
-- First, as migrations begin here too.
LOCK TABLE pgbill.lease IN ROW EXCLUSIVE MODE;

-- name: lock_payments
-- Imports of payments queue, so that a key is looked up and written by one at a time.
LOCK TABLE pgbill.payment IN SHARE ROW EXCLUSIVE MODE;

-- name: complete
CREATE TEMPORARY TABLE complete_payment AS
WITH word AS (
    SELECT DISTINCT said.line, upper(said.word) AS word
    FROM (
        SELECT staged_payment.line, staged_payment.invoice AS word
        FROM pg_temp.staged_payment
        WHERE staged_payment.invoice IS NOT NULL
        UNION ALL
        SELECT staged_payment.line, spelt.word
        FROM pg_temp.staged_payment
        CROSS JOIN LATERAL regexp_split_to_table(
            staged_payment.reference, '[^[:alnum:]._/-]+'
        ) AS part (word)
        -- A number at the end of a sentence has its full stop.
        CROSS JOIN LATERAL (
            VALUES (part.word), (btrim(part.word, '._/-')), (staged_payment.reference)
        ) AS spelt (word)
        WHERE staged_payment.invoice IS NULL
    ) AS said
    WHERE said.word <> ''
),

numbered AS (
    SELECT
        invoice_number.bucket,
        invoice_number.account_id,
        invoice_number.invoice_id,
        NULL::bigint AS imported_invoice_id,
        number_series.seller_id,
        upper(invoice_number.number_text) AS word
    FROM pgbill.invoice_number
    INNER JOIN pgbill.number_series USING (series_id)
    WHERE number_series.mode = 'live'
    UNION ALL
    SELECT
        imported_invoice.bucket,
        imported_invoice.account_id,
        NULL,
        imported_invoice.imported_invoice_id,
        account.seller_id,
        upper(imported_invoice.number_text)
    FROM pgbill.imported_invoice
    INNER JOIN pgbill.account USING (bucket, account_id)
),

found AS (
    SELECT
        word.line,
        count(*) AS match_count,
        min(numbered.bucket) AS bucket,
        min(numbered.account_id) AS account_id,
        min(numbered.invoice_id) AS invoice_id,
        min(numbered.imported_invoice_id) AS imported_invoice_id
    FROM word
    INNER JOIN pg_temp.staged_payment USING (line)
    INNER JOIN numbered USING (word)
    LEFT JOIN pgbill.seller USING (seller_id)
    WHERE staged_payment.seller IS NULL OR staged_payment.seller = seller.key
    GROUP BY word.line
)

SELECT
    staged.line,
    staged.key,
    staged.invoice,
    staged.reference,
    staged.seller,
    staged.amount,
    staged.currency AS given_currency,
    staged.paid_on,
    staged.payer,
    coalesce(found.match_count, 0) AS match_count,
    coalesce(found.bucket, account.bucket) AS bucket,
    coalesce(found.account_id, account.account_id) AS account_id,
    found.invoice_id,
    found.imported_invoice_id,
    coalesce(invoice.currency, imported_invoice.currency, account.currency) AS currency,
    known.payment_id IS NOT NULL AS is_known
FROM pg_temp.staged_payment AS staged
LEFT JOIN found USING (line)
LEFT JOIN pgbill.account
    ON
        found.line IS NULL
        AND staged.invoice IS NULL
        AND account.bucket = pgbill.bucket_of(staged.reference)
        AND staged.reference = account.key
LEFT JOIN pgbill.invoice
    ON
        found.bucket = invoice.bucket
        AND found.account_id = invoice.account_id
        AND found.invoice_id = invoice.invoice_id
LEFT JOIN pgbill.imported_invoice
    ON
        found.bucket = imported_invoice.bucket
        AND found.account_id = imported_invoice.account_id
        AND found.imported_invoice_id = imported_invoice.imported_invoice_id
LEFT JOIN LATERAL (
    SELECT payment.payment_id
    FROM pgbill.payment
    WHERE payment.key = staged.key
    ORDER BY payment.payment_id
    LIMIT 1
) AS known ON TRUE;

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
            staged_payment.line,
            staged_payment.key,
            to_jsonb(staged_payment) - 'line' AS whole
        FROM pg_temp.staged_payment
    ) AS content
    WINDOW same_key AS (PARTITION BY content.key ORDER BY content.line)
),

problem AS (
    SELECT
        complete_payment.line,
        'amount' AS column_name,
        'a payment of 0 is none' AS reason
    FROM pg_temp.complete_payment
    WHERE complete_payment.amount = 0
    UNION ALL
    SELECT
        complete_payment.line,
        'amount',
        format('%s is more than anybody pays: 10^15 at most', complete_payment.amount)
    FROM pg_temp.complete_payment
    WHERE abs(complete_payment.amount) > 1e15
    UNION ALL
    -- A bank may be a day ahead.
    SELECT
        complete_payment.line,
        'paid_on',
        format('%s is still to come', complete_payment.paid_on)
    FROM pg_temp.complete_payment
    LEFT JOIN pgbill.account USING (bucket, account_id)
    LEFT JOIN pgbill.seller USING (seller_id)
    WHERE complete_payment.paid_on
        > (clock_timestamp() AT TIME ZONE coalesce(seller.zone, 'UTC'))::date + 1
    UNION ALL
    SELECT
        complete_payment.line,
        'amount',
        format(
            '%s has more decimals than %s, which has %s',
            complete_payment.amount, currency.currency, currency.digits
        )
    FROM pg_temp.complete_payment
    INNER JOIN pgbill.currency
        ON coalesce(complete_payment.currency, complete_payment.given_currency) = currency.currency
    WHERE complete_payment.amount <> round(complete_payment.amount, currency.digits)
    UNION ALL
    SELECT
        complete_payment.line,
        'currency',
        format('there is no currency %s', complete_payment.given_currency)
    FROM pg_temp.complete_payment
    LEFT JOIN pgbill.currency ON complete_payment.given_currency = currency.currency
    WHERE complete_payment.given_currency IS NOT NULL AND currency.currency IS NULL
    UNION ALL
    SELECT
        complete_payment.line,
        'currency',
        format(
            'it is in %s, what it pays is in %s',
            complete_payment.given_currency, complete_payment.currency
        )
    FROM pg_temp.complete_payment
    WHERE complete_payment.given_currency <> complete_payment.currency
        AND complete_payment.match_count <= 1
    UNION ALL
    SELECT
        complete_payment.line,
        'seller',
        format('there is no seller %s', complete_payment.seller)
    FROM pg_temp.complete_payment
    LEFT JOIN pgbill.seller ON complete_payment.seller = seller.key
    WHERE complete_payment.seller IS NOT NULL AND seller.key IS NULL
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

-- name: unmatched
-- What matches nothing, or more than one thing, and was not assigned before.
WITH unmatched AS (
    SELECT
        complete_payment.line,
        CASE
            WHEN complete_payment.invoice IS NOT NULL THEN 'invoice'
            ELSE 'reference'
        END AS column_name,
        CASE
            WHEN num_nonnulls(complete_payment.invoice, complete_payment.reference) = 0
                THEN 'it names neither an invoice nor a reference'
            WHEN complete_payment.invoice IS NOT NULL AND complete_payment.match_count = 0
                THEN format('there is no invoice %s', complete_payment.invoice)
            WHEN complete_payment.invoice IS NOT NULL
                THEN format('several sellers have an invoice %s', complete_payment.invoice)
            WHEN complete_payment.match_count = 0
                THEN format(
                    '%s is no account and holds no number of an invoice',
                    left(complete_payment.reference, 60)
                )
            ELSE 'it names several invoices: give each a row of its own'
        END AS reason
    FROM pg_temp.complete_payment
    WHERE NOT complete_payment.is_known
        AND (complete_payment.account_id IS NULL OR complete_payment.match_count > 1)
)

SELECT
    unmatched.line,
    unmatched.column_name,
    unmatched.reason,
    count(*) OVER () AS problem_count
FROM unmatched
ORDER BY unmatched.line
LIMIT 20;

-- name: conflicts
-- A key that was imported before must have come with the same data. One that matched nothing
-- then may name what it is for now.
WITH known AS (
    SELECT
        complete_payment.line,
        complete_payment.key,
        jsonb_build_object(
            'amount', complete_payment.amount,
            'paid_on', complete_payment.paid_on,
            'payer', complete_payment.payer,
            'reference', complete_payment.reference,
            'currency', coalesce(complete_payment.given_currency, payment.currency),
            'invoice', upper(
                coalesce(
                    complete_payment.invoice,
                    invoice_number.number_text,
                    imported_invoice.number_text
                )
            )
        ) AS given,
        jsonb_build_object(
            'amount', payment.amount,
            'paid_on', payment.paid_on,
            'payer', payment.payer,
            'reference', payment.reference,
            'currency', payment.currency,
            'invoice', upper(coalesce(invoice_number.number_text, imported_invoice.number_text))
        ) AS stored
    FROM pg_temp.complete_payment
    INNER JOIN pgbill.payment ON complete_payment.key = payment.key
    LEFT JOIN pgbill.invoice_number
        ON
            payment.bucket = invoice_number.bucket
            AND payment.account_id = invoice_number.account_id
            AND payment.invoice_id = invoice_number.invoice_id
    LEFT JOIN pgbill.imported_invoice
        ON
            payment.bucket = imported_invoice.bucket
            AND payment.account_id = imported_invoice.account_id
            AND payment.imported_invoice_id = imported_invoice.imported_invoice_id
    UNION ALL
    SELECT
        complete_payment.line,
        complete_payment.key,
        jsonb_build_object(
            'amount', complete_payment.amount,
            'paid_on', complete_payment.paid_on
        ),
        jsonb_build_object(
            'amount', unmatched_payment.amount,
            'paid_on', unmatched_payment.paid_on
        )
    FROM pg_temp.complete_payment
    INNER JOIN pgbill.unmatched_payment
        ON
            unmatched_payment.bucket = pgbill.bucket_of(complete_payment.key)
            AND complete_payment.key = unmatched_payment.key
    WHERE NOT complete_payment.is_known
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
    INSERT INTO pgbill.payment (
        bucket, account_id, key, invoice_id, imported_invoice_id, amount, currency, paid_on,
        payer, reference
    )
    SELECT DISTINCT ON (complete_payment.key)
        complete_payment.bucket,
        complete_payment.account_id,
        complete_payment.key,
        complete_payment.invoice_id,
        complete_payment.imported_invoice_id,
        complete_payment.amount,
        complete_payment.currency,
        complete_payment.paid_on,
        complete_payment.payer,
        complete_payment.reference
    FROM pg_temp.complete_payment
    WHERE NOT complete_payment.is_known
        AND complete_payment.account_id IS NOT NULL
        AND complete_payment.match_count <= 1
    ORDER BY complete_payment.key, complete_payment.line
    RETURNING payment.payment_id
)

SELECT count(*) AS count
FROM written;

-- name: keep_unmatched
WITH unmatched AS (
    SELECT DISTINCT ON (complete_payment.key)
        complete_payment.key,
        complete_payment.invoice,
        complete_payment.reference,
        complete_payment.seller,
        complete_payment.amount,
        complete_payment.given_currency,
        complete_payment.paid_on,
        complete_payment.payer,
        CASE WHEN complete_payment.match_count > 1 THEN 'several match' ELSE 'nothing matches' END
            AS reason
    FROM pg_temp.complete_payment
    WHERE NOT complete_payment.is_known
        AND (complete_payment.account_id IS NULL OR complete_payment.match_count > 1)
    ORDER BY complete_payment.key, complete_payment.line
),

written AS (
    INSERT INTO pgbill.unmatched_payment (
        bucket, key, invoice, reference, seller, amount, currency, paid_on, payer, reason
    )
    SELECT
        pgbill.bucket_of(unmatched.key),
        unmatched.key,
        unmatched.invoice,
        unmatched.reference,
        unmatched.seller,
        unmatched.amount,
        unmatched.given_currency,
        unmatched.paid_on,
        unmatched.payer,
        unmatched.reason
    FROM unmatched
    ON CONFLICT (bucket, key) DO NOTHING
    RETURNING unmatched_payment.key
)

SELECT count(*) AS count
FROM written;
