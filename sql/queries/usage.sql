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
-- a thousand records of an account that has 300,000 took 32 s, and so 4 ms. Only the primary
-- key has the order that is asked for; with the account given as equal, any index and a sort
-- of what looks like one row would do.
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
        usage_record.account_id,
        usage_record.key,
        usage_record.occurred_at,
        usage_record.meter_id,
        usage_record.quantity,
        usage_record.dimensions,
        usage_record.corrects_key
    FROM pgbill.usage_record
    WHERE usage_record.bucket = resolved_usage.bucket
        AND (usage_record.account_id, usage_record.key)
        >= (resolved_usage.account_id, resolved_usage.key)
    ORDER BY usage_record.account_id, usage_record.key
    LIMIT 1
) AS nearest
WHERE nearest.account_id = resolved_usage.account_id
    AND nearest.key = resolved_usage.key;

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

-- Each with the record that it names, stored or in the file: more than one line may have it.
compared AS MATERIALIZED (
    SELECT DISTINCT ON (correction.line)
        correction.line,
        correction.bucket,
        correction.account_id,
        correction.account,
        correction.occurred_at,
        correction.meter_id,
        correction.quantity,
        correction.dimensions,
        correction.corrects_key,
        coalesce(stored.key, given.key) IS NOT NULL AS is_found,
        coalesce(stored.occurred_at, given.occurred_at) AS corrected_at,
        coalesce(stored.meter_id, given.meter_id) AS corrected_meter_id,
        coalesce(stored.quantity, given.quantity) AS corrected_quantity,
        coalesce(stored.dimensions, given.dimensions) AS corrected_dimensions,
        coalesce(stored.corrects_key, given.corrects_key) IS NOT NULL AS is_of_a_correction
    FROM correction
    LEFT JOIN LATERAL (
        SELECT
            usage_record.account_id,
            usage_record.key,
            usage_record.occurred_at,
            usage_record.meter_id,
            usage_record.quantity,
            usage_record.dimensions,
            usage_record.corrects_key
        FROM pgbill.usage_record
        WHERE usage_record.bucket = correction.bucket
            AND (usage_record.account_id, usage_record.key)
            >= (correction.account_id, correction.corrects_key)
        ORDER BY usage_record.account_id, usage_record.key
        LIMIT 1
    ) AS stored
        ON
            correction.account_id = stored.account_id
            AND correction.corrects_key = stored.key
    LEFT JOIN pg_temp.resolved_usage AS given
        ON
            correction.bucket = given.bucket
            AND correction.account_id = given.account_id
            AND correction.corrects_key = given.key
    ORDER BY correction.line
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
        every_one.corrects_key,
        max(every_one.line) AS line,
        sum(every_one.quantity) AS quantity,
        max(every_one.corrected_quantity) AS corrected_quantity
    FROM (
        SELECT
            compared.line,
            compared.bucket,
            compared.account_id,
            compared.corrects_key,
            compared.quantity,
            compared.corrected_quantity
        FROM compared
        WHERE compared.is_found AND NOT compared.is_of_a_correction
        UNION ALL
        SELECT
            NULL,
            earlier.bucket,
            earlier.account_id,
            earlier.corrects_key,
            earlier.quantity,
            NULL
        FROM earlier
    ) AS every_one
    GROUP BY every_one.bucket, every_one.account_id, every_one.corrects_key
),

problem AS (
    SELECT
        compared.line,
        CASE
            WHEN NOT compared.is_found
                THEN format(
                    'account %s has no record %s', compared.account, compared.corrects_key
                )
            WHEN compared.is_of_a_correction
                THEN format(
                    '%s is a correction itself: correct the record that it corrects',
                    compared.corrects_key
                )
            ELSE format(
                '%s has another %s',
                compared.corrects_key,
                concat_ws(
                    ', ',
                    CASE WHEN compared.occurred_at <> compared.corrected_at THEN 'time' END,
                    CASE WHEN compared.meter_id <> compared.corrected_meter_id THEN 'meter' END,
                    CASE
                        WHEN compared.dimensions IS DISTINCT FROM compared.corrected_dimensions
                            THEN 'dimensions'
                    END
                )
            )
        END AS reason
    FROM compared
    WHERE compared.is_of_a_correction
        OR (compared.occurred_at, compared.meter_id, compared.dimensions)
        IS DISTINCT FROM (
            compared.corrected_at, compared.corrected_meter_id, compared.corrected_dimensions
        )
    UNION ALL
    SELECT
        total.line,
        format(
            'with it, corrections take %s off %s, which has %s',
            -total.quantity, total.corrects_key, total.corrected_quantity
        )
    FROM total
    WHERE total.line IS NOT NULL AND total.corrected_quantity + total.quantity < 0
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
