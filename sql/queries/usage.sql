-- How a file of usage becomes usage records. The staging tables are temporary; `resolved`
-- is in the order of the primary key, which spares its index a million random visits.

-- name: create
CREATE TEMPORARY TABLE staged_usage (
    line bigint NOT NULL,
    key text NOT NULL,
    account text NOT NULL,
    meter text NOT NULL,
    quantity numeric NOT NULL,
    occurred_at timestamptz NOT NULL,
    dimensions jsonb,
    corrects text
);

-- name: drop
DROP TABLE IF EXISTS pg_temp.staged_usage, pg_temp.resolved_usage, pg_temp.known_usage;

-- name: resolve
CREATE TEMPORARY TABLE resolved_usage AS
SELECT
    staged_usage.line,
    pgbill.bucket_of(staged_usage.account) AS bucket,
    account.account_id,
    staged_usage.account,
    staged_usage.key,
    staged_usage.occurred_at,
    meter.meter_id,
    staged_usage.meter,
    staged_usage.quantity,
    nullif(staged_usage.dimensions, '{}') AS dimensions,
    staged_usage.corrects AS corrects_key
FROM pg_temp.staged_usage
LEFT JOIN pgbill.account
    ON
        account.bucket = pgbill.bucket_of(staged_usage.account)
        AND staged_usage.account = account.key
LEFT JOIN pgbill.meter ON staged_usage.meter = meter.key
ORDER BY bucket, account.account_id, staged_usage.key;

-- name: problems
-- What is wrong whatever has been imported before.
WITH repeated AS (
    SELECT
        known_key.line,
        known_key.first_line
    FROM (
        SELECT
            resolved_usage.line,
            first_value(resolved_usage.line) OVER (
                PARTITION BY
                    resolved_usage.bucket, resolved_usage.account_id,
                    resolved_usage.account, resolved_usage.key
                ORDER BY resolved_usage.line
            ) AS first_line
        FROM pg_temp.resolved_usage
    ) AS known_key
    WHERE known_key.line > known_key.first_line
),

problem AS (
    SELECT
        resolved_usage.line,
        'account' AS column_name,
        format('there is no account %s', resolved_usage.account) AS reason
    FROM pg_temp.resolved_usage
    WHERE resolved_usage.account_id IS NULL
    UNION ALL
    SELECT
        resolved_usage.line, 'meter', format('there is no meter %s', resolved_usage.meter)
    FROM pg_temp.resolved_usage
    WHERE resolved_usage.meter_id IS NULL
    UNION ALL
    SELECT
        resolved_usage.line,
        'occurred_at',
        format(
            '%s lies more than two days in the future',
            to_char(resolved_usage.occurred_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
        )
    FROM pg_temp.resolved_usage
    WHERE resolved_usage.occurred_at > clock_timestamp() + interval '2 days'
    UNION ALL
    SELECT
        resolved_usage.line,
        'quantity',
        format(
            '%s is below zero, and names no record that it corrects', resolved_usage.quantity
        )
    FROM pg_temp.resolved_usage
    INNER JOIN pgbill.meter ON resolved_usage.meter_id = meter.meter_id
    WHERE resolved_usage.quantity < 0
        AND resolved_usage.corrects_key IS NULL
        AND meter.aggregation <> 'time_weighted'
    UNION ALL
    SELECT
        resolved_usage.line,
        'quantity',
        format(
            '%s is not below zero, though it corrects %s',
            resolved_usage.quantity, resolved_usage.corrects_key
        )
    FROM pg_temp.resolved_usage
    WHERE resolved_usage.quantity >= 0 AND resolved_usage.corrects_key IS NOT NULL
    UNION ALL
    SELECT
        own.line,
        'key',
        format(
            '%s stands in line %s already, with another %s',
            own.key,
            other.line,
            concat_ws(
                ', ',
                CASE WHEN own.occurred_at <> other.occurred_at THEN 'time' END,
                CASE WHEN own.meter_id <> other.meter_id THEN 'meter' END,
                CASE WHEN own.quantity <> other.quantity THEN 'quantity' END,
                CASE WHEN own.dimensions IS DISTINCT FROM other.dimensions THEN 'dimensions' END,
                CASE WHEN own.corrects_key IS DISTINCT FROM other.corrects_key THEN 'corrects' END
            )
        )
    FROM repeated
    INNER JOIN pg_temp.resolved_usage AS own ON repeated.line = own.line
    INNER JOIN pg_temp.resolved_usage AS other ON repeated.first_line = other.line
    WHERE (
        own.occurred_at, own.meter_id, own.quantity, own.dimensions, own.corrects_key
    ) IS DISTINCT FROM (
        other.occurred_at, other.meter_id, other.quantity, other.dimensions,
        other.corrects_key
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

-- name: create_partitions
SELECT pgbill.create_usage_partitions(
    array(
        SELECT DISTINCT date_trunc('month', resolved_usage.occurred_at)::date
        FROM pg_temp.resolved_usage
    )
) AS count;

-- name: last
SELECT usage_import_state.last_import_seq AS import_seq
FROM pgbill.usage_import_state;

-- name: draw
-- Held until the commit: imports queue here, so the order of their numbers is the order in
-- which they become visible.
UPDATE pgbill.usage_import_state
SET last_import_seq = usage_import_state.last_import_seq + 1
RETURNING usage_import_state.last_import_seq AS import_seq;

-- name: find_known
-- One descent of the primary key for each record and month. A plain join takes any index
-- that begins with the account, since bucket and account look independent to the planner:
-- a thousand records of an account that has 300,000 took 32 s, and so 4 ms. ORDER BY is what
-- leaves it no choice.
CREATE TEMPORARY TABLE known_usage AS
SELECT
    resolved_usage.line,
    nearest.occurred_at,
    nearest.meter_id,
    nearest.quantity,
    nearest.dimensions,
    nearest.corrects_key
FROM pg_temp.resolved_usage
CROSS JOIN LATERAL (
    SELECT
        usage_record.key,
        usage_record.occurred_at,
        usage_record.meter_id,
        usage_record.quantity,
        usage_record.dimensions,
        usage_record.corrects_key
    FROM pgbill.usage_record
    WHERE usage_record.bucket = resolved_usage.bucket
        AND usage_record.account_id = resolved_usage.account_id
        AND usage_record.key >= resolved_usage.key
    ORDER BY usage_record.key
    LIMIT 1
) AS nearest
WHERE nearest.key = resolved_usage.key;

-- name: forget_known
DROP TABLE pg_temp.known_usage;

-- name: conflicts
-- A key that was imported before must have come with the same data.
WITH problem AS (
    SELECT
        resolved_usage.line,
        'key' AS column_name,
        format(
            '%s was imported before with another %s',
            resolved_usage.key,
            concat_ws(
                ', ',
                CASE
                    WHEN known_usage.occurred_at <> resolved_usage.occurred_at
                        THEN format(
                            'time: %s',
                            to_char(
                                known_usage.occurred_at, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'
                            )
                        )
                END,
                CASE
                    WHEN known_usage.meter_id <> resolved_usage.meter_id
                        THEN format('meter: %s', meter.key)
                END,
                CASE
                    WHEN known_usage.quantity <> resolved_usage.quantity
                        THEN format('quantity: %s', known_usage.quantity)
                END,
                CASE
                    WHEN known_usage.dimensions IS DISTINCT FROM resolved_usage.dimensions
                        THEN format('dimensions: %s', coalesce(known_usage.dimensions, '{}'))
                END,
                CASE
                    WHEN known_usage.corrects_key IS DISTINCT FROM resolved_usage.corrects_key
                        THEN format('corrects: %s', coalesce(known_usage.corrects_key, 'nothing'))
                END
            )
        ) AS reason
    FROM pg_temp.known_usage
    INNER JOIN pg_temp.resolved_usage USING (line)
    INNER JOIN pgbill.meter ON known_usage.meter_id = meter.meter_id
    WHERE (
        known_usage.occurred_at, known_usage.meter_id, known_usage.quantity,
        known_usage.dimensions, known_usage.corrects_key
    ) IS DISTINCT FROM (
        resolved_usage.occurred_at, resolved_usage.meter_id, resolved_usage.quantity,
        resolved_usage.dimensions, resolved_usage.corrects_key
    )
)

SELECT
    problem.line,
    problem.column_name,
    problem.reason,
    count(*) OVER () AS problem_count
FROM problem
ORDER BY problem.line
LIMIT 20;

-- name: dropped
-- Usage of a month that was dropped had been billed: it would be billed again. And late
-- usage of a period that began in such a month is priced together with all of the period's.
WITH dropped AS MATERIALIZED (
    SELECT DISTINCT
        usage_retention.month_on,
        usage_retention.month_on::timestamp AT TIME ZONE 'UTC' AS from_at,
        (usage_retention.month_on + interval '1 month') AT TIME ZONE 'UTC' AS until_at
    FROM pgbill.usage_retention
),

-- No period is longer than a year.
candidate AS MATERIALIZED (
    SELECT
        resolved_usage.line,
        resolved_usage.bucket,
        resolved_usage.account_id,
        resolved_usage.occurred_at
    FROM pg_temp.resolved_usage
    WHERE resolved_usage.occurred_at
        < (SELECT max(dropped.until_at) FROM dropped) + interval '13 months'
),

incomplete AS (
    SELECT
        closing.bucket,
        closing.account_id,
        closing.from_at,
        closing.until_at,
        min(dropped.month_on) AS month_on
    FROM (
        SELECT
            billing_period.bucket,
            billing_period.account_id,
            lag(billing_period.period_end_at) OVER (
                PARTITION BY billing_period.bucket, billing_period.account_id
                ORDER BY billing_period.period_end
            ) AS from_at,
            billing_period.period_end_at AS until_at
        FROM (
            SELECT DISTINCT candidate.bucket, candidate.account_id
            FROM candidate
        ) AS touched
        INNER JOIN pgbill.billing_period USING (bucket, account_id)
    ) AS closing
    INNER JOIN dropped
        ON closing.from_at < dropped.until_at AND dropped.from_at < closing.until_at
    GROUP BY closing.bucket, closing.account_id, closing.from_at, closing.until_at
),

problem AS (
    SELECT
        candidate.line,
        format(
            'usage of %s was billed and dropped: no more of it can be taken',
            to_char(dropped.month_on, 'YYYY-MM')
        ) AS reason
    FROM candidate
    INNER JOIN dropped
        ON
            candidate.occurred_at >= dropped.from_at
            AND candidate.occurred_at < dropped.until_at
    UNION ALL
    SELECT
        candidate.line,
        format(
            'it belongs to a period with usage of %s, which was billed and dropped',
            to_char(incomplete.month_on, 'YYYY-MM')
        )
    FROM candidate
    INNER JOIN incomplete
        ON
            candidate.bucket = incomplete.bucket
            AND candidate.account_id = incomplete.account_id
            AND candidate.occurred_at >= incomplete.from_at
            AND candidate.occurred_at < incomplete.until_at
    LEFT JOIN pg_temp.known_usage ON candidate.line = known_usage.line
    WHERE known_usage.line IS NULL
        AND NOT EXISTS (
            SELECT
            FROM dropped
            WHERE candidate.occurred_at >= dropped.from_at
                AND candidate.occurred_at < dropped.until_at
        )
)

SELECT
    problem.line,
    'occurred_at' AS column_name,
    problem.reason,
    count(*) OVER () AS problem_count
FROM problem
ORDER BY problem.line
LIMIT 20;

-- name: wrong_corrections
-- A correction takes something off a record that is there or comes with it, and all
-- corrections of a record together no more than its quantity.
WITH correction AS MATERIALIZED (
    SELECT DISTINCT ON (resolved_usage.bucket, resolved_usage.account_id, resolved_usage.key)
        resolved_usage.line,
        resolved_usage.bucket,
        resolved_usage.account_id,
        resolved_usage.account,
        resolved_usage.key,
        resolved_usage.occurred_at,
        resolved_usage.meter_id,
        resolved_usage.quantity,
        resolved_usage.dimensions,
        resolved_usage.corrects_key
    FROM pg_temp.resolved_usage
    LEFT JOIN pg_temp.known_usage USING (line)
    WHERE resolved_usage.corrects_key IS NOT NULL AND known_usage.line IS NULL
    ORDER BY
        resolved_usage.bucket, resolved_usage.account_id, resolved_usage.key,
        resolved_usage.line
),

wanted AS MATERIALIZED (
    SELECT DISTINCT correction.bucket, correction.account_id, correction.corrects_key
    FROM correction
),

corrected AS MATERIALIZED (
    SELECT
        wanted.bucket,
        wanted.account_id,
        wanted.corrects_key,
        nearest.occurred_at,
        nearest.meter_id,
        nearest.quantity,
        nearest.dimensions,
        nearest.corrects_key IS NOT NULL AS is_correction
    FROM wanted
    CROSS JOIN LATERAL (
        SELECT
            usage_record.key,
            usage_record.occurred_at,
            usage_record.meter_id,
            usage_record.quantity,
            usage_record.dimensions,
            usage_record.corrects_key
        FROM pgbill.usage_record
        WHERE usage_record.bucket = wanted.bucket
            AND usage_record.account_id = wanted.account_id
            AND usage_record.key >= wanted.corrects_key
        ORDER BY usage_record.key
        LIMIT 1
    ) AS nearest
    WHERE nearest.key = wanted.corrects_key
    UNION
    SELECT
        wanted.bucket,
        wanted.account_id,
        wanted.corrects_key,
        resolved_usage.occurred_at,
        resolved_usage.meter_id,
        resolved_usage.quantity,
        resolved_usage.dimensions,
        resolved_usage.corrects_key IS NOT NULL
    FROM wanted
    INNER JOIN pg_temp.resolved_usage
        ON
            wanted.bucket = resolved_usage.bucket
            AND wanted.account_id = resolved_usage.account_id
            AND wanted.corrects_key = resolved_usage.key
),

-- Corrections stand at the time of what they correct: one look at the index for each time,
-- however many corrections a file has for it.
earlier AS (
    SELECT
        place.bucket,
        place.account_id,
        found.corrects_key,
        found.quantity
    FROM (
        SELECT DISTINCT
            correction.bucket, correction.account_id, correction.meter_id,
            correction.occurred_at
        FROM correction
    ) AS place
    CROSS JOIN LATERAL (
        SELECT usage_record.corrects_key, usage_record.quantity
        FROM pgbill.usage_record
        WHERE usage_record.bucket = place.bucket
            AND usage_record.account_id = place.account_id
            AND usage_record.meter_id = place.meter_id
            AND usage_record.occurred_at = place.occurred_at
            AND usage_record.corrects_key IS NOT NULL
        ORDER BY usage_record.occurred_at
    ) AS found
),

total AS (
    SELECT
        every_one.bucket,
        every_one.account_id,
        every_one.corrects_key,
        max(every_one.line) AS line,
        sum(every_one.quantity) AS quantity
    FROM (
        SELECT
            correction.line,
            correction.bucket,
            correction.account_id,
            correction.corrects_key,
            correction.quantity
        FROM correction
        UNION ALL
        SELECT
            NULL,
            earlier.bucket,
            earlier.account_id,
            earlier.corrects_key,
            earlier.quantity
        FROM earlier
    ) AS every_one
    GROUP BY every_one.bucket, every_one.account_id, every_one.corrects_key
),

problem AS (
    SELECT
        correction.line,
        CASE
            WHEN corrected.corrects_key IS NULL
                THEN format(
                    'account %s has no record %s', correction.account, correction.corrects_key
                )
            WHEN corrected.is_correction
                THEN format(
                    '%s is a correction itself: correct the record that it corrects',
                    correction.corrects_key
                )
            ELSE format(
                '%s has another %s',
                correction.corrects_key,
                concat_ws(
                    ', ',
                    CASE WHEN correction.occurred_at <> corrected.occurred_at THEN 'time' END,
                    CASE WHEN correction.meter_id <> corrected.meter_id THEN 'meter' END,
                    CASE
                        WHEN correction.dimensions IS DISTINCT FROM corrected.dimensions
                            THEN 'dimensions'
                    END
                )
            )
        END AS reason
    FROM correction
    LEFT JOIN corrected USING (bucket, account_id, corrects_key)
    WHERE corrected.is_correction
        OR (correction.occurred_at, correction.meter_id, correction.dimensions)
        IS DISTINCT FROM (corrected.occurred_at, corrected.meter_id, corrected.dimensions)
    UNION ALL
    SELECT
        total.line,
        format(
            'with it, corrections take %s off %s, which has %s',
            -total.quantity, total.corrects_key, corrected.quantity
        )
    FROM total
    INNER JOIN corrected USING (bucket, account_id, corrects_key)
    WHERE total.line IS NOT NULL
        AND NOT corrected.is_correction
        AND corrected.quantity + total.quantity < 0
)

SELECT
    problem.line,
    'corrects' AS column_name,
    problem.reason,
    count(*) OVER () AS problem_count
FROM problem
ORDER BY problem.line, problem.reason
LIMIT 20;

-- name: write
WITH written AS (
    INSERT INTO pgbill.usage_record (
        bucket, account_id, key, occurred_at, meter_id, quantity, import_seq, dimensions,
        corrects_key
    )
    SELECT DISTINCT ON (resolved_usage.bucket, resolved_usage.account_id, resolved_usage.key)
        resolved_usage.bucket,
        resolved_usage.account_id,
        resolved_usage.key,
        resolved_usage.occurred_at,
        resolved_usage.meter_id,
        resolved_usage.quantity,
        :import_seq,
        resolved_usage.dimensions,
        resolved_usage.corrects_key
    FROM pg_temp.resolved_usage
    LEFT JOIN pg_temp.known_usage USING (line)
    WHERE known_usage.line IS NULL
    ORDER BY resolved_usage.bucket, resolved_usage.account_id, resolved_usage.key
    RETURNING usage_record.bucket, usage_record.occurred_at
),

watermark AS (
    INSERT INTO pgbill.usage_watermark (bucket, import_seq, earliest_at, record_count)
    SELECT written.bucket, :import_seq, min(written.occurred_at), count(*)
    FROM written
    GROUP BY written.bucket
    RETURNING usage_watermark.record_count
)

SELECT coalesce(sum(watermark.record_count), 0)::bigint AS count
FROM watermark;

-- name: grown_partitions
-- Those whose statistics are missing or no longer true.
SELECT pg_class.relname AS name
FROM (
    SELECT
        to_char(resolved_usage.occurred_at, 'YYYY_MM') AS month,
        count(*) AS record_count
    FROM pg_temp.resolved_usage
    GROUP BY to_char(resolved_usage.occurred_at, 'YYYY_MM')
) AS touched
INNER JOIN pg_catalog.pg_class
    ON to_regclass('pgbill.usage_record_' || touched.month) = pg_class.oid
WHERE touched.record_count > pg_class.reltuples / 10
ORDER BY pg_class.relname;
