-- How a file of discounts becomes discounts. `complete_discount` has a row for each row of
-- the file, with the defaults filled in and, if it was imported before, its days.

-- name: create
CREATE TEMPORARY TABLE staged_discount (
    line bigint NOT NULL,
    key text NOT NULL,
    account text NOT NULL,
    description text NOT NULL,
    percent numeric,
    amount numeric,
    subscription text,
    price text,
    rank integer,
    starts_on date NOT NULL,
    ends_on date,
    periods integer
);

-- name: drop
DROP TABLE IF EXISTS pg_temp.staged_discount, pg_temp.complete_discount;

-- name: lock_leases
-- First, as migrations begin here too.
LOCK TABLE pgbill.lease IN ROW EXCLUSIVE MODE;

-- name: lock_discounts
-- Imports of discounts queue; a run does not notice.
LOCK TABLE pgbill.discount IN SHARE ROW EXCLUSIVE MODE;

-- name: complete
CREATE TEMPORARY TABLE complete_discount AS
SELECT
    staged.line,
    pgbill.bucket_of(staged.account) AS bucket,
    account.account_id,
    staged.account AS account_key,
    staged.key,
    staged.description,
    staged.percent,
    staged.amount,
    staged.subscription,
    subscription.subscription_id,
    staged.price,
    price.price_id,
    coalesce(staged.rank, 0) AS rank,
    staged.starts_on,
    staged.ends_on,
    CASE
        WHEN coalesce(staged.ends_on > staged.starts_on, TRUE)
            THEN daterange(staged.starts_on, staged.ends_on)
    END AS active_period,
    staged.periods AS period_count,
    discount.discount_id,
    discount.active_period AS known_period
FROM pg_temp.staged_discount AS staged
LEFT JOIN pgbill.account
    ON account.bucket = pgbill.bucket_of(staged.account) AND staged.account = account.key
LEFT JOIN pgbill.subscription
    ON
        account.bucket = subscription.bucket
        AND account.account_id = subscription.account_id
        AND staged.subscription = subscription.key
LEFT JOIN pgbill.price ON staged.price = price.key
LEFT JOIN pgbill.discount
    ON
        account.bucket = discount.bucket
        AND account.account_id = discount.account_id
        AND staged.key = discount.key;

-- name: revoke_leases
-- From here to the commit no worker claims these accounts, and none is at work on them:
-- what is closed stays what the checks below have seen.
SELECT pgbill.revoke_leases(
    array_agg(touched.bucket ORDER BY touched.bucket, touched.account_id),
    array_agg(touched.account_id ORDER BY touched.bucket, touched.account_id),
    'discounts of the account were imported'
)
FROM (
    SELECT DISTINCT complete_discount.bucket, complete_discount.account_id
    FROM pg_temp.complete_discount
    WHERE complete_discount.known_period IS DISTINCT FROM complete_discount.active_period
) AS touched;

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
            complete_discount.line,
            complete_discount.bucket,
            complete_discount.account_key,
            complete_discount.key,
            to_jsonb(complete_discount) - 'line' AS whole
        FROM pg_temp.complete_discount
    ) AS content
    WINDOW same_key AS (
        PARTITION BY content.bucket, content.account_key, content.key
        ORDER BY content.line
    )
),

problem AS (
    SELECT
        complete_discount.line,
        'account' AS column_name,
        format('there is no account %s', complete_discount.account_key) AS reason
    FROM pg_temp.complete_discount
    WHERE complete_discount.account_id IS NULL
    UNION ALL
    SELECT
        complete_discount.line,
        'subscription',
        format(
            'account %s has no subscription %s',
            complete_discount.account_key, complete_discount.subscription
        )
    FROM pg_temp.complete_discount
    WHERE complete_discount.account_id IS NOT NULL
        AND complete_discount.subscription IS NOT NULL
        AND complete_discount.subscription_id IS NULL
    UNION ALL
    SELECT
        complete_discount.line,
        'price',
        format('there is no price %s', complete_discount.price)
    FROM pg_temp.complete_discount
    WHERE complete_discount.price IS NOT NULL AND complete_discount.price_id IS NULL
    UNION ALL
    SELECT
        complete_discount.line,
        'price',
        format(
            'price %s is not of the seller and currency of account %s',
            complete_discount.price, complete_discount.account_key
        )
    FROM pg_temp.complete_discount
    INNER JOIN pgbill.account USING (bucket, account_id)
    INNER JOIN pgbill.price ON complete_discount.price_id = price.price_id
    WHERE (account.seller_id, account.currency) <> (price.seller_id, price.currency)
    UNION ALL
    SELECT
        complete_discount.line,
        'price',
        format(
            'subscription %s has no price %s',
            complete_discount.subscription, complete_discount.price
        )
    FROM pg_temp.complete_discount
    WHERE complete_discount.subscription_id IS NOT NULL
        AND complete_discount.price_id IS NOT NULL
        AND NOT EXISTS (
            SELECT
            FROM pgbill.subscription_price
            WHERE subscription_price.bucket = complete_discount.bucket
                AND subscription_price.account_id = complete_discount.account_id
                AND subscription_price.subscription_id = complete_discount.subscription_id
                AND subscription_price.price_id = complete_discount.price_id
        )
    UNION ALL
    SELECT complete_discount.line, 'percent', 'give either percent or amount'
    FROM pg_temp.complete_discount
    WHERE num_nulls(complete_discount.percent, complete_discount.amount) <> 1
    UNION ALL
    SELECT
        complete_discount.line,
        'percent',
        format('%s is not above 0 and at most 100', complete_discount.percent)
    FROM pg_temp.complete_discount
    WHERE complete_discount.percent <= 0 OR complete_discount.percent > 100
    UNION ALL
    SELECT
        complete_discount.line,
        'amount',
        format('%s is not above zero', complete_discount.amount)
    FROM pg_temp.complete_discount
    WHERE complete_discount.amount <= 0
    UNION ALL
    SELECT
        complete_discount.line,
        'amount',
        format(
            '%s has more decimals than %s, which has %s',
            complete_discount.amount, currency.currency, currency.digits
        )
    FROM pg_temp.complete_discount
    INNER JOIN pgbill.account USING (bucket, account_id)
    INNER JOIN pgbill.currency ON account.currency = currency.currency
    WHERE complete_discount.amount <> round(complete_discount.amount, currency.digits)
    UNION ALL
    SELECT
        complete_discount.line,
        'ends_on',
        format(
            '%s is not after starts_on, %s',
            complete_discount.ends_on, complete_discount.starts_on
        )
    FROM pg_temp.complete_discount
    WHERE complete_discount.active_period IS NULL
    UNION ALL
    -- What limits take off is told under these names.
    SELECT
        complete_discount.line,
        'key',
        format(
            '%s is what pgbill calls a limit: give the discount another key',
            complete_discount.key
        )
    FROM pg_temp.complete_discount
    WHERE complete_discount.key IN (
        'minimum', 'maximum', 'subscription_minimum', 'subscription_maximum'
    )
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
                    AND member.key NOT IN ('subscription_id', 'price_id', 'active_period')
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
-- What cannot be beside what was imported, and billed, before.
WITH compared AS (
    SELECT
        complete_discount.line,
        complete_discount.key,
        complete_discount.account_key,
        complete_discount.starts_on,
        complete_discount.ends_on,
        complete_discount.discount_id,
        upper(complete_discount.known_period) AS known_ends_on,
        (
            SELECT max(billing_period.period_end)
            FROM pgbill.billing_period
            WHERE billing_period.bucket = complete_discount.bucket
                AND billing_period.account_id = complete_discount.account_id
        ) AS closed_on
    FROM pg_temp.complete_discount
),

problem AS (
    SELECT
        compared.line,
        'starts_on' AS column_name,
        format(
            '%s is before %s, up to which account %s is closed',
            compared.starts_on, compared.closed_on, compared.account_key
        ) AS reason
    FROM compared
    WHERE compared.discount_id IS NULL AND compared.starts_on < compared.closed_on
    UNION ALL
    SELECT
        complete_discount.line,
        fixed.column_name,
        format(
            'discount %s has %s since it was first imported',
            complete_discount.key, coalesce(fixed.known_value, 'none')
        )
    FROM pg_temp.complete_discount
    INNER JOIN pgbill.discount USING (bucket, account_id, discount_id)
    LEFT JOIN pgbill.subscription
        ON
            discount.bucket = subscription.bucket
            AND discount.account_id = subscription.account_id
            AND discount.subscription_id = subscription.subscription_id
    LEFT JOIN pgbill.price ON discount.price_id = price.price_id
    CROSS JOIN LATERAL (
        VALUES
        ('description', discount.description, complete_discount.description),
        (
            'percent',
            trim_scale(discount.percent)::text,
            trim_scale(complete_discount.percent)::text
        ),
        (
            'amount',
            trim_scale(discount.amount)::text,
            trim_scale(complete_discount.amount)::text
        ),
        ('subscription', subscription.key, complete_discount.subscription),
        ('price', price.key, complete_discount.price),
        ('rank', discount.rank::text, complete_discount.rank::text),
        (
            'starts_on',
            lower(discount.active_period)::text,
            complete_discount.starts_on::text
        ),
        ('periods', discount.period_count::text, complete_discount.period_count::text)
    ) AS fixed (column_name, known_value, new_value)
    WHERE fixed.known_value IS DISTINCT FROM fixed.new_value
    UNION ALL
    SELECT
        compared.line,
        'ends_on',
        CASE
            WHEN compared.ends_on < compared.closed_on
                THEN format(
                    '%s is before %s, up to which account %s is closed',
                    compared.ends_on, compared.closed_on, compared.account_key
                )
            ELSE format(
                'it ended on %s, and account %s is closed up to %s: begin another one',
                compared.known_ends_on, compared.account_key, compared.closed_on
            )
        END
    FROM compared
    WHERE compared.discount_id IS NOT NULL
        AND compared.ends_on IS DISTINCT FROM compared.known_ends_on
        AND (
            compared.ends_on < compared.closed_on OR compared.known_ends_on < compared.closed_on
        )
)

SELECT
    problem.line,
    problem.column_name,
    problem.reason,
    count(*) OVER () AS problem_count
FROM problem
ORDER BY problem.line, problem.column_name, problem.reason
LIMIT 20;

-- name: update
UPDATE pgbill.discount
SET active_period = moved.active_period
FROM (
    SELECT DISTINCT
        complete_discount.bucket, complete_discount.account_id,
        complete_discount.discount_id, complete_discount.active_period
    FROM pg_temp.complete_discount
    WHERE complete_discount.active_period <> complete_discount.known_period
) AS moved
WHERE discount.bucket = moved.bucket
    AND discount.account_id = moved.account_id
    AND discount.discount_id = moved.discount_id;

-- name: insert
WITH written AS (
    INSERT INTO pgbill.discount (
        bucket, account_id, key, description, percent, amount, subscription_id,
        price_id, rank, active_period, period_count
    )
    SELECT DISTINCT ON (complete_discount.bucket, complete_discount.account_id, complete_discount.key)
        complete_discount.bucket,
        complete_discount.account_id,
        complete_discount.key,
        complete_discount.description,
        complete_discount.percent,
        complete_discount.amount,
        complete_discount.subscription_id,
        complete_discount.price_id,
        complete_discount.rank,
        complete_discount.active_period,
        complete_discount.period_count
    FROM pg_temp.complete_discount
    WHERE complete_discount.discount_id IS NULL
    ORDER BY complete_discount.bucket, complete_discount.account_id, complete_discount.key
    RETURNING discount.discount_id
)

SELECT count(*) AS count
FROM written;
