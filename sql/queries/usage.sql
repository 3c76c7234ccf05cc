-- How a file of usage becomes usage records. The staging tables are temporary; `resolved`
-- is in the order of the primary key, which spares its index a million random visits.

-- name: create
CREATE TEMPORARY TABLE staged_usage (
    line bigint NOT NULL,
    key text NOT NULL,
    account text NOT NULL,
    meter text NOT NULL,
    quantity numeric NOT NULL,
    occurred_at timestamptz NOT NULL
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
    staged_usage.quantity
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
        resolved_usage.line,
        resolved_usage.key,
        resolved_usage.occurred_at,
        resolved_usage.meter_id,
        resolved_usage.quantity,
        first_value(resolved_usage.line) OVER same_key AS first_line,
        first_value(resolved_usage.occurred_at) OVER same_key AS first_at,
        first_value(resolved_usage.meter_id) OVER same_key AS first_meter_id,
        first_value(resolved_usage.quantity) OVER same_key AS first_quantity
    FROM pg_temp.resolved_usage
    WINDOW same_key AS (
        PARTITION BY
            resolved_usage.bucket, resolved_usage.account_id, resolved_usage.account,
            resolved_usage.key
        ORDER BY resolved_usage.line
    )
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
        repeated.line,
        'key',
        format(
            '%s stands in line %s already, with another %s',
            repeated.key,
            repeated.first_line,
            concat_ws(
                ', ',
                CASE WHEN repeated.occurred_at <> repeated.first_at THEN 'time' END,
                CASE WHEN repeated.meter_id <> repeated.first_meter_id THEN 'meter' END,
                CASE WHEN repeated.quantity <> repeated.first_quantity THEN 'quantity' END
            )
        )
    FROM repeated
    WHERE (repeated.occurred_at, repeated.meter_id, repeated.quantity)
        <> (repeated.first_at, repeated.first_meter_id, repeated.first_quantity)
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
    nearest.quantity
FROM pg_temp.resolved_usage
CROSS JOIN LATERAL (
    SELECT
        usage_record.key,
        usage_record.occurred_at,
        usage_record.meter_id,
        usage_record.quantity
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
                END
            )
        ) AS reason
    FROM pg_temp.known_usage
    INNER JOIN pg_temp.resolved_usage USING (line)
    INNER JOIN pgbill.meter ON known_usage.meter_id = meter.meter_id
    WHERE (known_usage.occurred_at, known_usage.meter_id, known_usage.quantity)
        <> (resolved_usage.occurred_at, resolved_usage.meter_id, resolved_usage.quantity)
)

SELECT
    problem.line,
    problem.column_name,
    problem.reason,
    count(*) OVER () AS problem_count
FROM problem
ORDER BY problem.line
LIMIT 20;

-- name: write
WITH written AS (
    INSERT INTO pgbill.usage_record (
        bucket, account_id, key, occurred_at, meter_id, quantity, import_seq
    )
    SELECT DISTINCT ON (resolved_usage.bucket, resolved_usage.account_id, resolved_usage.key)
        resolved_usage.bucket,
        resolved_usage.account_id,
        resolved_usage.key,
        resolved_usage.occurred_at,
        resolved_usage.meter_id,
        resolved_usage.quantity,
        :import_seq
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
