-- How a file of subscriptions becomes subscriptions. A row of the file is a segment: a price
-- of a subscription, in one quantity, over a range of days; it is known by its first day.
-- `resolved_subscription` adds what is known of account and price and, if they were imported
-- before, of subscription and segment.

-- name: create
CREATE TEMPORARY TABLE staged_subscription (
    line bigint NOT NULL,
    subscription text NOT NULL,
    account text NOT NULL,
    price text NOT NULL,
    quantity numeric,
    starts_on date NOT NULL,
    ends_on date,
    price_starts_on date,
    price_ends_on date,
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
    price.model,
    price.timing,
    account.anchor_on,
    -- The period that the price is billed for: its own, if that is the longer one.
    CASE
        WHEN pgbill.boundary(account.anchor_on, price.billing_interval, 1)
            > pgbill.boundary(account.anchor_on, account.billing_interval, 1)
            THEN price.billing_interval
        ELSE account.billing_interval
    END AS billing_interval,
    coalesce(staged.quantity, 1) AS quantity,
    segment.starts_on AS price_starts_on,
    segment.ends_on AS price_ends_on,
    CASE
        WHEN coalesce(segment.ends_on > segment.starts_on, TRUE)
            THEN daterange(segment.starts_on, segment.ends_on)
    END AS price_period,
    subscription_price.active_period AS known_price_period,
    subscription_price.quantity AS known_quantity
FROM pg_temp.staged_subscription AS staged
CROSS JOIN LATERAL (
    VALUES (
        coalesce(staged.price_starts_on, staged.starts_on),
        coalesce(staged.price_ends_on, staged.ends_on)
    )
) AS segment (starts_on, ends_on)
LEFT JOIN pgbill.account
    ON account.bucket = pgbill.bucket_of(staged.account) AND staged.account = account.key
LEFT JOIN pgbill.price ON staged.price = price.key
LEFT JOIN pgbill.subscription
    ON
        account.bucket = subscription.bucket
        AND account.account_id = subscription.account_id
        AND staged.subscription = subscription.key
LEFT JOIN pgbill.subscription_price
    ON
        subscription.bucket = subscription_price.bucket
        AND subscription.account_id = subscription_price.account_id
        AND subscription.subscription_id = subscription_price.subscription_id
        AND price.price_id = subscription_price.price_id
        AND segment.starts_on = subscription_price.starts_on;

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
        AND (resolved.known_period, resolved.known_price_period)
        IS DISTINCT FROM (resolved.active_period, resolved.price_period)
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
        first_value(resolved.line) OVER same_segment AS segment_line,
        resolved.quantity,
        first_value(resolved.quantity) OVER same_segment AS first_quantity,
        resolved.price_ends_on,
        first_value(resolved.price_ends_on) OVER same_segment AS first_price_ends_on
    FROM pg_temp.resolved_subscription AS resolved
    WINDOW
        same_key AS (
            PARTITION BY resolved.bucket, resolved.account_key, resolved.key
            ORDER BY resolved.line
        ),
        same_segment AS (
            PARTITION BY
                resolved.bucket, resolved.account_key, resolved.key, resolved.price_key,
                resolved.price_starts_on
            ORDER BY resolved.line
        )
),

following AS (
    SELECT
        segment.line,
        segment.key,
        segment.price_key,
        segment.price_starts_on,
        lag(segment.line) OVER same_price AS earlier_line,
        lag(segment.price_ends_on) OVER same_price AS earlier_ends_on
    FROM (
        SELECT DISTINCT ON (
            resolved.bucket, resolved.account_key, resolved.key, resolved.price_key,
            resolved.price_starts_on
        )
            resolved.line,
            resolved.bucket,
            resolved.account_key,
            resolved.key,
            resolved.price_key,
            resolved.price_starts_on,
            resolved.price_ends_on
        FROM pg_temp.resolved_subscription AS resolved
        ORDER BY
            resolved.bucket, resolved.account_key, resolved.key, resolved.price_key,
            resolved.price_starts_on, resolved.line
    ) AS segment
    WINDOW same_price AS (
        PARTITION BY segment.bucket, segment.account_key, segment.key, segment.price_key
        ORDER BY segment.price_starts_on
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
        'price_starts_on',
        format('%s is before starts_on, %s', resolved.price_starts_on, resolved.starts_on)
    FROM pg_temp.resolved_subscription AS resolved
    WHERE resolved.price_starts_on < resolved.starts_on
    UNION ALL
    SELECT
        resolved.line,
        'price_starts_on',
        format('%s is not before ends_on, %s', resolved.price_starts_on, resolved.ends_on)
    FROM pg_temp.resolved_subscription AS resolved
    WHERE resolved.active_period IS NOT NULL
        AND resolved.price_starts_on >= resolved.ends_on
    UNION ALL
    SELECT
        resolved.line,
        'price_ends_on',
        format('%s is after ends_on, %s', resolved.price_ends_on, resolved.ends_on)
    FROM pg_temp.resolved_subscription AS resolved
    WHERE resolved.price_ends_on > resolved.ends_on
    UNION ALL
    SELECT
        resolved.line,
        'price_ends_on',
        format(
            '%s is not after the first day of the price, %s',
            resolved.price_ends_on, resolved.price_starts_on
        )
    FROM pg_temp.resolved_subscription AS resolved
    WHERE resolved.price_period IS NULL
        AND resolved.price_ends_on IS DISTINCT FROM resolved.ends_on
    UNION ALL
    SELECT
        resolved.line,
        'quantity',
        CASE
            WHEN resolved.meter_id IS NOT NULL
                THEN format(
                    'price %s bills a meter, whose usage is the quantity', resolved.price_key
                )
            ELSE format(
                'price %s is the %s of what the subscription is billed, and has no quantity',
                resolved.price_key, resolved.model
            )
        END
    FROM pg_temp.resolved_subscription AS resolved
    WHERE (resolved.meter_id IS NOT NULL OR resolved.model IN ('minimum', 'maximum'))
        AND resolved.quantity <> 1
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
        differing.column_name,
        format(
            'price %s of subscription %s stands in line %s already, with another %s',
            compared.price_key, compared.key, compared.segment_line, differing.what
        )
    FROM compared
    CROSS JOIN LATERAL (
        VALUES
        ('quantity', 'quantity', compared.quantity <> compared.first_quantity),
        (
            'price_ends_on',
            'end',
            compared.ends_on IS NOT DISTINCT FROM compared.first_ends_on
            AND compared.price_ends_on IS DISTINCT FROM compared.first_price_ends_on
        )
    ) AS differing (column_name, what, is_so)
    WHERE differing.is_so
    UNION ALL
    SELECT
        following.line,
        'price_starts_on',
        format(
            'price %s of subscription %s is in line %s already, and has not ended by %s',
            following.price_key, following.key, following.earlier_line,
            following.price_starts_on
        )
    FROM following
    WHERE following.earlier_line IS NOT NULL
        AND coalesce(following.earlier_ends_on, 'infinity') > following.price_starts_on
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
        resolved.known_period,
        resolved.starts_on,
        resolved.ends_on,
        resolved.purchase_order,
        resolved.contract_number,
        resolved.cost_centre
    FROM pg_temp.resolved_subscription AS resolved
    ORDER BY resolved.bucket, resolved.account_id, resolved.key, resolved.line
),

segment AS (
    SELECT DISTINCT ON (
        resolved.bucket, resolved.account_id, resolved.key, resolved.price_id,
        resolved.price_starts_on
    )
        resolved.line,
        resolved.bucket,
        resolved.account_id,
        resolved.account_key,
        resolved.key,
        resolved.subscription_id,
        resolved.known_period,
        resolved.starts_on,
        resolved.price_id,
        resolved.price_key,
        resolved.meter_id,
        resolved.timing,
        resolved.anchor_on,
        resolved.billing_interval,
        resolved.quantity,
        resolved.known_quantity,
        resolved.price_period,
        resolved.known_price_period,
        resolved.price_starts_on,
        resolved.price_ends_on,
        upper(resolved.known_price_period) AS known_ends_on,
        -- If both ends move alike, one word about the subscription is enough.
        coalesce(upper(resolved.known_price_period), 'infinity')
        = coalesce(upper(resolved.known_period), 'infinity')
        AND coalesce(resolved.price_ends_on, 'infinity')
        = coalesce(resolved.ends_on, 'infinity') AS ends_with_it
    FROM pg_temp.resolved_subscription AS resolved
    ORDER BY
        resolved.bucket, resolved.account_id, resolved.key, resolved.price_id,
        resolved.price_starts_on, resolved.line
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
        ) AS closed_on
    FROM (SELECT DISTINCT header.bucket, header.account_id FROM header) AS touched
),

moved AS (
    SELECT
        header.line,
        'ends_on' AS column_name,
        header.bucket,
        header.account_id,
        header.account_key,
        header.ends_on,
        upper(header.known_period) AS known_ends_on
    FROM header
    WHERE header.known_period IS NOT NULL
        AND header.ends_on IS DISTINCT FROM upper(header.known_period)
    UNION ALL
    SELECT
        segment.line,
        'price_ends_on',
        segment.bucket,
        segment.account_id,
        segment.account_key,
        segment.price_ends_on,
        segment.known_ends_on
    FROM segment
    WHERE segment.known_price_period IS NOT NULL
        AND segment.price_ends_on IS DISTINCT FROM segment.known_ends_on
        AND NOT segment.ends_with_it
),

metered AS (
    SELECT
        segment.line,
        segment.bucket,
        segment.account_id,
        segment.key,
        segment.price_key,
        segment.meter_id,
        segment.price_period
    FROM segment
    WHERE segment.meter_id IS NOT NULL
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
    LEFT JOIN segment
        ON
            subscription_price.bucket = segment.bucket
            AND subscription_price.account_id = segment.account_id
            AND subscription_price.subscription_id = segment.subscription_id
            AND subscription_price.price_id = segment.price_id
            AND subscription_price.starts_on = segment.price_starts_on
    WHERE subscription_price.meter_id IS NOT NULL AND segment.line IS NULL
),

problem AS (
    SELECT
        segment.line,
        CASE
            WHEN segment.price_starts_on = segment.starts_on THEN 'starts_on'
            ELSE 'price_starts_on'
        END AS column_name,
        format(
            '%s is before %s, up to which account %s is closed: it would never be billed',
            segment.price_starts_on, account.closed_on, segment.account_key
        ) AS reason
    FROM segment
    INNER JOIN account USING (bucket, account_id)
    WHERE segment.known_price_period IS NULL
        AND segment.price_starts_on < account.closed_on
        AND coalesce(lower(segment.known_period) = segment.starts_on, TRUE)
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
        segment.line,
        'quantity',
        format(
            'subscription %s has %s of price %s since %s: end that, and begin another row',
            segment.key, segment.known_quantity, segment.price_key, segment.price_starts_on
        )
    FROM segment
    WHERE segment.quantity <> segment.known_quantity
    UNION ALL
    -- What has ended may be left out: nothing of it can change any more.
    SELECT
        header.line,
        'price',
        format(
            'price %s is missing, which subscription %s has since %s',
            price.key, header.key, subscription_price.starts_on
        )
    FROM header
    INNER JOIN account USING (bucket, account_id)
    INNER JOIN pgbill.subscription_price USING (bucket, account_id, subscription_id)
    INNER JOIN pgbill.price ON subscription_price.price_id = price.price_id
    LEFT JOIN segment
        ON
            subscription_price.bucket = segment.bucket
            AND subscription_price.account_id = segment.account_id
            AND subscription_price.subscription_id = segment.subscription_id
            AND subscription_price.price_id = segment.price_id
            AND subscription_price.starts_on = segment.price_starts_on
    WHERE segment.line IS NULL
        AND header.starts_on = lower(header.known_period)
        AND (upper(subscription_price.active_period) > account.closed_on) IS NOT FALSE
    UNION ALL
    SELECT
        moved.line,
        moved.column_name,
        CASE
            WHEN moved.ends_on < account.closed_on
                THEN format(
                    '%s is before %s, up to which account %s is closed',
                    moved.ends_on, account.closed_on, moved.account_key
                )
            ELSE format(
                'it ended on %s, and account %s is closed up to %s: begin another one',
                moved.known_ends_on, moved.account_key, account.closed_on
            )
        END
    FROM moved
    INNER JOIN account USING (bucket, account_id)
    WHERE moved.ends_on < account.closed_on OR moved.known_ends_on < account.closed_on
    UNION ALL
    -- A period of which only a part was billed, up to the end, is not billed again.
    SELECT
        segment.line,
        CASE WHEN segment.ends_with_it THEN 'ends_on' ELSE 'price_ends_on' END,
        format(
            'price %s is billed until %s, in the midst of its period: begin another row then',
            segment.price_key, segment.known_ends_on
        )
    FROM segment
    INNER JOIN account USING (bucket, account_id)
    WHERE segment.known_ends_on >= account.closed_on
        AND coalesce(segment.price_ends_on, 'infinity') > segment.known_ends_on
        AND segment.known_ends_on <> pgbill.boundary(
            segment.anchor_on,
            segment.billing_interval,
            pgbill.boundary_number(
                segment.anchor_on, segment.billing_interval, segment.known_ends_on - 1
            )
        )
        AND (
            segment.timing = 'arrears' AND segment.known_ends_on = account.closed_on
            OR EXISTS (
                SELECT
                FROM pgbill.billed_line
                WHERE billed_line.bucket = segment.bucket
                    AND billed_line.account_id = segment.account_id
                    AND billed_line.subscription_id = segment.subscription_id
                    AND billed_line.price_id = segment.price_id
                    AND segment.known_ends_on = CASE billed_line.kind
                        WHEN 'advance' THEN upper(billed_line.service_period)
                        WHEN 'unused_advance' THEN lower(billed_line.service_period)
                    END
            )
        )
    UNION ALL
    -- In arrears a longer period is billed by the closing that reaches its end: that is over.
    SELECT
        segment.line,
        CASE WHEN segment.ends_with_it THEN 'ends_on' ELSE 'price_ends_on' END,
        format(
            'price %s is not billed up to %s, and account %s is closed: end it on a later day',
            segment.price_key, segment.price_ends_on, segment.account_key
        )
    FROM segment
    INNER JOIN account USING (bucket, account_id)
    WHERE segment.timing = 'arrears'
        AND segment.price_ends_on = account.closed_on
        AND coalesce(segment.known_ends_on, 'infinity') > segment.price_ends_on
        AND segment.known_price_period IS NOT NULL
        AND segment.price_ends_on <> pgbill.boundary(
            segment.anchor_on,
            segment.billing_interval,
            pgbill.boundary_number(
                segment.anchor_on, segment.billing_interval, segment.price_ends_on - 1
            )
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
            AND metered.price_period && other.price_period
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
SET active_period = moved.price_period
FROM (
    SELECT DISTINCT
        resolved.bucket,
        resolved.account_id,
        resolved.subscription_id,
        resolved.price_id,
        resolved.price_starts_on,
        resolved.price_period
    FROM pg_temp.resolved_subscription AS resolved
    WHERE resolved.price_period <> resolved.known_price_period
        AND resolved.price_period <@ resolved.known_price_period
) AS moved
WHERE subscription_price.bucket = moved.bucket
    AND subscription_price.account_id = moved.account_id
    AND subscription_price.subscription_id = moved.subscription_id
    AND subscription_price.price_id = moved.price_id
    AND subscription_price.starts_on = moved.price_starts_on;

-- name: prolong_prices
UPDATE pgbill.subscription_price
SET active_period = moved.price_period
FROM (
    SELECT DISTINCT
        resolved.bucket,
        resolved.account_id,
        resolved.subscription_id,
        resolved.price_id,
        resolved.price_starts_on,
        resolved.price_period
    FROM pg_temp.resolved_subscription AS resolved
    WHERE NOT resolved.price_period <@ resolved.known_price_period
) AS moved
WHERE subscription_price.bucket = moved.bucket
    AND subscription_price.account_id = moved.account_id
    AND subscription_price.subscription_id = moved.subscription_id
    AND subscription_price.price_id = moved.price_id
    AND subscription_price.starts_on = moved.price_starts_on;

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
        resolved.bucket,
        resolved.account_id,
        coalesce(resolved.subscription_id, written.subscription_id),
        resolved.price_id,
        resolved.seller_id,
        resolved.currency,
        resolved.meter_id,
        resolved.quantity,
        resolved.price_period
    FROM pg_temp.resolved_subscription AS resolved
    LEFT JOIN written USING (bucket, account_id, key)
    WHERE resolved.known_price_period IS NULL
    RETURNING subscription_price.price_id
)

SELECT count(*) AS count
FROM written_price;

-- name: count
-- Subscriptions, not rows, by what has become of each.
SELECT
    count(*) FILTER (WHERE subscription.is_new) AS new_count,
    count(*) FILTER (WHERE NOT subscription.is_new AND subscription.is_changed)
        AS changed_count,
    count(*) FILTER (WHERE NOT subscription.is_changed) AS unchanged_count
FROM (
    SELECT
        bool_and(resolved.subscription_id IS NULL) AS is_new,
        bool_or(
            (resolved.known_period, resolved.known_price_period)
            IS DISTINCT FROM (resolved.active_period, resolved.price_period)
        ) AS is_changed
    FROM pg_temp.resolved_subscription AS resolved
    GROUP BY resolved.bucket, resolved.account_id, resolved.key
) AS subscription;
