-- How a file of subscriptions becomes subscriptions. A row of the file is a price of a
-- subscription; `resolved_subscription` adds what is known of account, price and, if it was
-- imported before, subscription.

-- name: create
CREATE TEMPORARY TABLE staged_subscription (
    line bigint NOT NULL,
    subscription text NOT NULL,
    account text NOT NULL,
    price text NOT NULL,
    quantity numeric,
    starts_on date NOT NULL,
    ends_on date,
    purchase_order text,
    contract_number text,
    cost_centre text
);

-- name: drop
DROP TABLE IF EXISTS pg_temp.staged_subscription, pg_temp.resolved_subscription;

-- name: lock_leases
-- First, as migrations begin here too.
LOCK TABLE pgbill.lease IN ROW EXCLUSIVE MODE;

-- name: lock_subscriptions
-- Imports of subscriptions queue; a run does not notice.
LOCK TABLE pgbill.subscription IN SHARE ROW EXCLUSIVE MODE;

-- name: resolve
CREATE TEMPORARY TABLE resolved_subscription AS
SELECT
    staged.line,
    pgbill.bucket_of(staged.account) AS bucket,
    account.account_id,
    staged.account AS account_key,
    account.seller_id,
    account.currency,
    staged.subscription AS key,
    subscription.subscription_id,
    subscription.active_period AS known_period,
    staged.starts_on,
    staged.ends_on,
    CASE
        WHEN coalesce(staged.ends_on > staged.starts_on, TRUE)
            THEN daterange(staged.starts_on, staged.ends_on)
    END AS active_period,
    staged.purchase_order,
    staged.contract_number,
    staged.cost_centre,
    staged.price AS price_key,
    price.price_id,
    price.seller_id AS price_seller_id,
    price.currency AS price_currency,
    price.meter_id,
    coalesce(staged.quantity, 1) AS quantity
FROM pg_temp.staged_subscription AS staged
LEFT JOIN pgbill.account
    ON account.bucket = pgbill.bucket_of(staged.account) AND staged.account = account.key
LEFT JOIN pgbill.price ON staged.price = price.key
LEFT JOIN pgbill.subscription
    ON
        account.bucket = subscription.bucket
        AND account.account_id = subscription.account_id
        AND staged.subscription = subscription.key;

-- name: revoke_leases
-- From here to the commit no worker claims these accounts, and none is at work on them:
-- what is closed stays what the checks below have seen.
SELECT pgbill.revoke_leases(
    array_agg(touched.bucket ORDER BY touched.bucket, touched.account_id),
    array_agg(touched.account_id ORDER BY touched.bucket, touched.account_id),
    'subscriptions of the account were imported'
)
FROM (
    SELECT DISTINCT resolved.bucket, resolved.account_id
    FROM pg_temp.resolved_subscription AS resolved
    WHERE resolved.account_id IS NOT NULL
        AND resolved.known_period IS DISTINCT FROM resolved.active_period
) AS touched;

-- name: problems
-- What is wrong with single rows, and between the rows of one subscription.
WITH compared AS (
    SELECT
        resolved.line,
        resolved.key,
        first_value(resolved.line) OVER same_key AS first_line,
        resolved.starts_on,
        first_value(resolved.starts_on) OVER same_key AS first_starts_on,
        resolved.ends_on,
        first_value(resolved.ends_on) OVER same_key AS first_ends_on,
        resolved.purchase_order,
        first_value(resolved.purchase_order) OVER same_key AS first_purchase_order,
        resolved.contract_number,
        first_value(resolved.contract_number) OVER same_key AS first_contract_number,
        resolved.cost_centre,
        first_value(resolved.cost_centre) OVER same_key AS first_cost_centre,
        resolved.price_key,
        resolved.quantity,
        first_value(resolved.line) OVER same_price AS price_line,
        first_value(resolved.quantity) OVER same_price AS first_quantity
    FROM pg_temp.resolved_subscription AS resolved
    WINDOW
        same_key AS (
            PARTITION BY resolved.bucket, resolved.account_key, resolved.key
            ORDER BY resolved.line
        ),
        same_price AS (
            PARTITION BY
                resolved.bucket, resolved.account_key, resolved.key, resolved.price_key
            ORDER BY resolved.line
        )
),

problem AS (
    SELECT
        resolved.line,
        'account' AS column_name,
        format('there is no account %s', resolved.account_key) AS reason
    FROM pg_temp.resolved_subscription AS resolved
    WHERE resolved.account_id IS NULL
    UNION ALL
    SELECT resolved.line, 'price', format('there is no price %s', resolved.price_key)
    FROM pg_temp.resolved_subscription AS resolved
    WHERE resolved.price_id IS NULL
    UNION ALL
    SELECT
        resolved.line,
        'ends_on',
        format('%s is not after starts_on, %s', resolved.ends_on, resolved.starts_on)
    FROM pg_temp.resolved_subscription AS resolved
    WHERE resolved.active_period IS NULL
    UNION ALL
    SELECT
        resolved.line,
        'quantity',
        format('price %s bills a meter, whose usage is the quantity', resolved.price_key)
    FROM pg_temp.resolved_subscription AS resolved
    WHERE resolved.meter_id IS NOT NULL AND resolved.quantity <> 1
    UNION ALL
    SELECT
        resolved.line,
        'price',
        format(
            'price %s is in %s, account %s pays in %s',
            resolved.price_key, resolved.price_currency, resolved.account_key,
            resolved.currency
        )
    FROM pg_temp.resolved_subscription AS resolved
    WHERE resolved.price_currency <> resolved.currency
    UNION ALL
    SELECT
        resolved.line,
        'price',
        format(
            'price %s is of seller %s, account %s is of seller %s',
            resolved.price_key, price_seller.key, resolved.account_key, seller.key
        )
    FROM pg_temp.resolved_subscription AS resolved
    INNER JOIN pgbill.seller ON resolved.seller_id = seller.seller_id
    INNER JOIN pgbill.seller AS price_seller
        ON resolved.price_seller_id = price_seller.seller_id
    WHERE resolved.price_seller_id <> resolved.seller_id
    UNION ALL
    SELECT
        compared.line,
        differing.column_name,
        format(
            'it differs from line %s, which is of subscription %s too',
            compared.first_line, compared.key
        )
    FROM compared
    CROSS JOIN LATERAL (
        VALUES
        ('starts_on', compared.starts_on <> compared.first_starts_on),
        ('ends_on', compared.ends_on IS DISTINCT FROM compared.first_ends_on),
        (
            'purchase_order',
            compared.purchase_order IS DISTINCT FROM compared.first_purchase_order
        ),
        (
            'contract_number',
            compared.contract_number IS DISTINCT FROM compared.first_contract_number
        ),
        ('cost_centre', compared.cost_centre IS DISTINCT FROM compared.first_cost_centre)
    ) AS differing (column_name, is_so)
    WHERE differing.is_so
    UNION ALL
    SELECT
        compared.line,
        'quantity',
        format(
            'price %s of subscription %s stands in line %s already, with another quantity',
            compared.price_key, compared.key, compared.price_line
        )
    FROM compared
    WHERE compared.quantity <> compared.first_quantity
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
WITH header AS (
    SELECT DISTINCT ON (resolved.bucket, resolved.account_id, resolved.key)
        resolved.line,
        resolved.bucket,
        resolved.account_id,
        resolved.account_key,
        resolved.key,
        resolved.subscription_id,
        resolved.starts_on,
        resolved.ends_on,
        resolved.purchase_order,
        resolved.contract_number,
        resolved.cost_centre
    FROM pg_temp.resolved_subscription AS resolved
    ORDER BY resolved.bucket, resolved.account_id, resolved.key, resolved.line
),

account AS (
    SELECT
        touched.bucket,
        touched.account_id,
        (
            SELECT max(billing_period.period_end)
            FROM pgbill.billing_period
            WHERE billing_period.bucket = touched.bucket
                AND billing_period.account_id = touched.account_id
        ) AS closed_on,
        lease.due_on
    FROM (SELECT DISTINCT header.bucket, header.account_id FROM header) AS touched
    INNER JOIN pgbill.lease USING (bucket, account_id)
),

moved AS (
    SELECT
        header.line,
        header.bucket,
        header.account_id,
        header.account_key,
        header.subscription_id,
        header.ends_on,
        upper(subscription.active_period) AS known_ends_on,
        account.closed_on,
        account.due_on
    FROM header
    INNER JOIN pgbill.subscription USING (bucket, account_id, subscription_id)
    INNER JOIN account USING (bucket, account_id)
    WHERE header.ends_on IS DISTINCT FROM upper(subscription.active_period)
),

metered AS (
    SELECT
        min(resolved.line) AS line,
        resolved.bucket,
        resolved.account_id,
        resolved.key,
        resolved.price_key,
        resolved.meter_id,
        resolved.active_period
    FROM pg_temp.resolved_subscription AS resolved
    WHERE resolved.meter_id IS NOT NULL
    GROUP BY
        resolved.bucket, resolved.account_id, resolved.key, resolved.price_key,
        resolved.meter_id, resolved.active_period
    UNION ALL
    SELECT
        NULL,
        subscription_price.bucket,
        subscription_price.account_id,
        subscription.key,
        price.key AS price_key,
        subscription_price.meter_id,
        subscription_price.active_period
    FROM account
    INNER JOIN pgbill.subscription_price USING (bucket, account_id)
    INNER JOIN pgbill.subscription USING (bucket, account_id, subscription_id)
    INNER JOIN pgbill.price ON subscription_price.price_id = price.price_id
    LEFT JOIN header USING (bucket, account_id, subscription_id)
    WHERE subscription_price.meter_id IS NOT NULL AND header.line IS NULL
),

problem AS (
    SELECT
        header.line,
        'starts_on' AS column_name,
        format(
            '%s is before %s, up to which account %s is closed: it would never be billed',
            header.starts_on, account.closed_on, header.account_key
        ) AS reason
    FROM header
    INNER JOIN account USING (bucket, account_id)
    WHERE header.subscription_id IS NULL AND header.starts_on < account.closed_on
    UNION ALL
    SELECT
        header.line,
        fixed.column_name,
        format(
            'subscription %s has %s since it was first imported',
            header.key, coalesce(fixed.known_value, 'none')
        )
    FROM header
    INNER JOIN pgbill.subscription USING (bucket, account_id, subscription_id)
    CROSS JOIN LATERAL (
        VALUES
        ('starts_on', lower(subscription.active_period)::text, header.starts_on::text),
        ('purchase_order', subscription.purchase_order, header.purchase_order),
        ('contract_number', subscription.contract_number, header.contract_number),
        ('cost_centre', subscription.cost_centre, header.cost_centre)
    ) AS fixed (column_name, known_value, new_value)
    WHERE fixed.known_value IS DISTINCT FROM fixed.new_value
    UNION ALL
    SELECT
        resolved.line,
        'price',
        format(
            'subscription %s was imported without price %s: begin another one for it',
            resolved.key, resolved.price_key
        )
    FROM pg_temp.resolved_subscription AS resolved
    LEFT JOIN pgbill.subscription_price USING (bucket, account_id, subscription_id, price_id)
    WHERE resolved.subscription_id IS NOT NULL AND subscription_price.price_id IS NULL
    UNION ALL
    SELECT
        resolved.line,
        'quantity',
        format(
            'subscription %s has %s of price %s since it was first imported',
            resolved.key, subscription_price.quantity, resolved.price_key
        )
    FROM pg_temp.resolved_subscription AS resolved
    INNER JOIN pgbill.subscription_price USING (bucket, account_id, subscription_id, price_id)
    WHERE resolved.quantity <> subscription_price.quantity
    UNION ALL
    SELECT
        header.line,
        'price',
        format(
            'price %s is missing, which subscription %s was imported with',
            price.key, header.key
        )
    FROM header
    INNER JOIN pgbill.subscription_price USING (bucket, account_id, subscription_id)
    INNER JOIN pgbill.price ON subscription_price.price_id = price.price_id
    LEFT JOIN pg_temp.resolved_subscription AS resolved
        ON
            subscription_price.bucket = resolved.bucket
            AND subscription_price.account_id = resolved.account_id
            AND subscription_price.subscription_id = resolved.subscription_id
            AND subscription_price.price_id = resolved.price_id
    WHERE resolved.line IS NULL
    UNION ALL
    SELECT
        moved.line,
        'ends_on',
        CASE
            WHEN moved.ends_on < moved.closed_on
                THEN format(
                    '%s is before %s, up to which account %s is closed',
                    moved.ends_on, moved.closed_on, moved.account_key
                )
            ELSE format(
                'it ended on %s, and account %s is closed up to %s: begin another one',
                moved.known_ends_on, moved.account_key, moved.closed_on
            )
        END
    FROM moved
    WHERE moved.ends_on < moved.closed_on OR moved.known_ends_on < moved.closed_on
    UNION ALL
    -- The rest of a period whose part was billed in advance would never be billed.
    SELECT
        moved.line,
        'ends_on',
        format(
            'its fees are billed in advance until %s, in a period until %s: begin another one',
            moved.known_ends_on, moved.due_on
        )
    FROM moved
    WHERE moved.known_ends_on >= moved.closed_on
        AND moved.known_ends_on < moved.due_on
        AND coalesce(moved.ends_on, 'infinity') > moved.known_ends_on
        AND EXISTS (
            SELECT
            FROM pgbill.invoice
            INNER JOIN pgbill.invoice_line USING (bucket, account_id, invoice_id)
            WHERE invoice.bucket = moved.bucket
                AND invoice.account_id = moved.account_id
                AND invoice.period_end = moved.closed_on
                AND invoice_line.subscription_id = moved.subscription_id
                AND invoice_line.kind = 'advance'
                AND upper(invoice_line.service_period) > moved.closed_on
        )
    UNION ALL
    SELECT
        metered.line,
        'price',
        format(
            'price %s bills meter %s on days on which price %s of subscription %s (%s) bills it',
            metered.price_key,
            meter.key,
            other.price_key,
            other.key,
            coalesce('line ' || other.line, 'imported before')
        )
    FROM metered
    INNER JOIN metered AS other
        ON
            metered.bucket = other.bucket
            AND metered.account_id = other.account_id
            AND metered.meter_id = other.meter_id
            AND metered.active_period && other.active_period
            AND (metered.key, metered.price_key) <> (other.key, other.price_key)
            AND coalesce(other.line, 0) < metered.line
    INNER JOIN pgbill.meter ON metered.meter_id = meter.meter_id
)

SELECT
    problem.line,
    problem.column_name,
    problem.reason,
    count(*) OVER () AS problem_count
FROM problem
ORDER BY problem.line, problem.column_name, problem.reason
LIMIT 20;

-- name: shorten_prices
-- Before others are prolonged or begin: no meter may be billed twice, even for a moment.
UPDATE pgbill.subscription_price
SET active_period = moved.active_period
FROM (
    SELECT DISTINCT
        resolved.bucket, resolved.account_id, resolved.subscription_id, resolved.active_period
    FROM pg_temp.resolved_subscription AS resolved
    WHERE resolved.active_period <> resolved.known_period
        AND resolved.active_period <@ resolved.known_period
) AS moved
WHERE subscription_price.bucket = moved.bucket
    AND subscription_price.account_id = moved.account_id
    AND subscription_price.subscription_id = moved.subscription_id;

-- name: prolong_prices
UPDATE pgbill.subscription_price
SET active_period = moved.active_period
FROM (
    SELECT DISTINCT
        resolved.bucket, resolved.account_id, resolved.subscription_id, resolved.active_period
    FROM pg_temp.resolved_subscription AS resolved
    WHERE NOT resolved.active_period <@ resolved.known_period
) AS moved
WHERE subscription_price.bucket = moved.bucket
    AND subscription_price.account_id = moved.account_id
    AND subscription_price.subscription_id = moved.subscription_id;

-- name: update
UPDATE pgbill.subscription
SET active_period = moved.active_period
FROM (
    SELECT DISTINCT
        resolved.bucket, resolved.account_id, resolved.subscription_id, resolved.active_period
    FROM pg_temp.resolved_subscription AS resolved
    WHERE resolved.active_period <> resolved.known_period
) AS moved
WHERE subscription.bucket = moved.bucket
    AND subscription.account_id = moved.account_id
    AND subscription.subscription_id = moved.subscription_id;

-- name: insert
WITH written AS (
    INSERT INTO pgbill.subscription (
        bucket, account_id, key, active_period, purchase_order, contract_number, cost_centre
    )
    SELECT DISTINCT ON (resolved.bucket, resolved.account_id, resolved.key)
        resolved.bucket,
        resolved.account_id,
        resolved.key,
        resolved.active_period,
        resolved.purchase_order,
        resolved.contract_number,
        resolved.cost_centre
    FROM pg_temp.resolved_subscription AS resolved
    WHERE resolved.subscription_id IS NULL
    ORDER BY resolved.bucket, resolved.account_id, resolved.key
    RETURNING
        subscription.bucket, subscription.account_id, subscription.key,
        subscription.subscription_id
),

written_price AS (
    INSERT INTO pgbill.subscription_price (
        bucket, account_id, subscription_id, price_id, seller_id, currency, meter_id,
        quantity, active_period
    )
    SELECT DISTINCT
        written.bucket,
        written.account_id,
        written.subscription_id,
        resolved.price_id,
        resolved.seller_id,
        resolved.currency,
        resolved.meter_id,
        resolved.quantity,
        resolved.active_period
    FROM written
    INNER JOIN pg_temp.resolved_subscription AS resolved USING (bucket, account_id, key)
    RETURNING subscription_price.price_id
)

SELECT count(*) AS count
FROM written;

-- name: count
SELECT count(*) AS count
FROM (
    SELECT DISTINCT resolved.bucket, resolved.account_id, resolved.key
    FROM pg_temp.resolved_subscription AS resolved
) AS subscription;
