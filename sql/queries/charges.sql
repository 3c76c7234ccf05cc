-- How a file of charges becomes charges. `complete_charge` has a row for each row of the
-- file, with the defaults filled in, in the columns of the table.

-- name: create
CREATE TEMPORARY TABLE staged_charge (
    line bigint NOT NULL,
    key text NOT NULL,
    account text NOT NULL,
    description text NOT NULL,
    unit_amount numeric NOT NULL,
    quantity numeric,
    per_quantity numeric,
    unit_code text,
    discount_amount numeric,
    tax_class text NOT NULL,
    tax_included boolean,
    service_on date NOT NULL,
    purchase_order text,
    contract_number text,
    cost_centre text,
    revenue_account text
);

-- name: drop
DROP TABLE IF EXISTS pg_temp.staged_charge, pg_temp.complete_charge;

-- name: lock_leases
-- First, as migrations begin here too.
LOCK TABLE pgbill.lease IN ROW EXCLUSIVE MODE;

-- name: lock_charges
-- Imports of charges queue; a run does not notice.
LOCK TABLE pgbill.charge IN SHARE ROW EXCLUSIVE MODE;

-- name: complete
CREATE TEMPORARY TABLE complete_charge AS
SELECT
    staged.line,
    pgbill.bucket_of(staged.account) AS bucket,
    account.account_id,
    staged.account AS account_key,
    staged.key,
    staged.description,
    coalesce(staged.quantity, 1) AS quantity,
    coalesce(staged.unit_code, 'C62') AS unit_code,
    staged.unit_amount,
    coalesce(staged.per_quantity, 1) AS per_quantity,
    coalesce(staged.discount_amount, 0) AS discount_amount,
    coalesce(staged.tax_included, FALSE) AS tax_included,
    staged.tax_class,
    staged.service_on,
    staged.purchase_order,
    staged.contract_number,
    staged.cost_centre,
    staged.revenue_account
FROM pg_temp.staged_charge AS staged
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
            complete_charge.line,
            complete_charge.bucket,
            complete_charge.account_key,
            complete_charge.key,
            to_jsonb(complete_charge) - 'line' AS whole
        FROM pg_temp.complete_charge
    ) AS content
    WINDOW same_key AS (
        PARTITION BY content.bucket, content.account_key, content.key
        ORDER BY content.line
    )
),

problem AS (
    SELECT
        complete_charge.line,
        'account' AS column_name,
        format('there is no account %s', complete_charge.account_key) AS reason
    FROM pg_temp.complete_charge
    WHERE complete_charge.account_id IS NULL
    UNION ALL
    SELECT
        complete_charge.line,
        'quantity',
        format('%s is not above zero', complete_charge.quantity)
    FROM pg_temp.complete_charge
    WHERE complete_charge.quantity <= 0
    UNION ALL
    SELECT
        complete_charge.line,
        'per_quantity',
        format('%s is not above zero', complete_charge.per_quantity)
    FROM pg_temp.complete_charge
    WHERE complete_charge.per_quantity <= 0
    UNION ALL
    SELECT
        complete_charge.line,
        'discount_amount',
        format(
            '%s has more decimals than %s, which has %s',
            complete_charge.discount_amount, currency.currency, currency.digits
        )
    FROM pg_temp.complete_charge
    INNER JOIN pgbill.account USING (bucket, account_id)
    INNER JOIN pgbill.currency ON account.currency = currency.currency
    WHERE complete_charge.discount_amount <> round(complete_charge.discount_amount, currency.digits)
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
        complete_charge.line,
        complete_charge.key,
        to_jsonb(complete_charge) AS given,
        to_jsonb(charge) - ARRAY['charge_id', 'imported_at'] AS stored
    FROM pg_temp.complete_charge
    INNER JOIN pgbill.charge USING (bucket, account_id, key)
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
    INSERT INTO pgbill.charge (
        bucket, account_id, key, description, quantity, unit_code, unit_amount,
        per_quantity, discount_amount, tax_included, tax_class, service_on,
        purchase_order, contract_number, cost_centre, revenue_account
    )
    SELECT DISTINCT ON (complete_charge.bucket, complete_charge.account_id, complete_charge.key)
        complete_charge.bucket,
        complete_charge.account_id,
        complete_charge.key,
        complete_charge.description,
        complete_charge.quantity,
        complete_charge.unit_code,
        complete_charge.unit_amount,
        complete_charge.per_quantity,
        complete_charge.discount_amount,
        complete_charge.tax_included,
        complete_charge.tax_class,
        complete_charge.service_on,
        complete_charge.purchase_order,
        complete_charge.contract_number,
        complete_charge.cost_centre,
        complete_charge.revenue_account
    FROM pg_temp.complete_charge
    LEFT JOIN pgbill.charge USING (bucket, account_id, key)
    WHERE charge.charge_id IS NULL
    ORDER BY complete_charge.bucket, complete_charge.account_id, complete_charge.key
    RETURNING charge.charge_id
)

SELECT count(*) AS count
FROM written;

-- name: unknown_tax_classes
-- A charge never changes, so a slip of the pen is told when it comes, not when it is billed.
SELECT
    min(complete_charge.line) AS line,
    'tax_class' AS column_name,
    format(
        'no tax rate and no price knows %s (%s); it cannot be billed until a rate does',
        complete_charge.tax_class,
        CASE count(*) WHEN 1 THEN '1 charge' ELSE format('%s charges', count(*)) END
    ) AS reason,
    count(*) OVER () AS problem_count
FROM pg_temp.complete_charge
WHERE EXISTS (SELECT FROM pgbill.tax_rate)
    AND NOT EXISTS (
        SELECT FROM pgbill.tax_rate
        WHERE tax_rate.tax_class = complete_charge.tax_class
    )
    AND NOT EXISTS (
        SELECT FROM pgbill.price
        WHERE price.tax_class = complete_charge.tax_class
    )
GROUP BY complete_charge.tax_class
ORDER BY min(complete_charge.line), complete_charge.tax_class
LIMIT 20;
