-- Which months of usage there are, whether all of a month is done with, and what is told of
-- it when it is dropped.

-- name: this_month
SELECT date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC')::date AS month_on;

-- name: partitions
SELECT
    partition.name,
    partition.month_on,
    partition.month_on::timestamp AT TIME ZONE 'UTC' AS from_at,
    (partition.month_on + interval '1 month') AT TIME ZONE 'UTC' AS until_at
FROM (
    SELECT
        pg_class.relname::text AS name,
        to_date(
            substring(pg_class.relname FROM '^usage_record_([0-9]{4}_[0-9]{2})$'), 'YYYY_MM'
        ) AS month_on
    FROM pg_catalog.pg_inherits
    INNER JOIN pg_catalog.pg_class ON pg_inherits.inhrelid = pg_class.oid
    WHERE pg_inherits.inhparent = to_regclass('pgbill.usage_record')
) AS partition
WHERE partition.month_on < :before_on
ORDER BY partition.month_on;

-- name: draw
-- As an import does, and no import has this number: one that waits here looks again.
UPDATE pgbill.usage_import_state
SET last_import_seq = usage_import_state.last_import_seq + 1;

-- name: look
-- The bounds are parameters, so that other months are not even looked at.
WITH unfinished AS MATERIALIZED (
    SELECT
        usage_state.account_key,
        usage_state.key,
        usage_state.occurred_at,
        usage_state.state,
        usage_state.reason
    FROM pgbill.usage_state
    WHERE usage_state.occurred_at >= :from_at
        AND usage_state.occurred_at < :until_at
        AND usage_state.state NOT IN ('billed', 'rejected')
)

SELECT
    (
        SELECT count(*)
        FROM pgbill.usage_record
        WHERE usage_record.occurred_at >= :from_at AND usage_record.occurred_at < :until_at
    ) AS record_count,
    (SELECT count(*) FROM unfinished) AS unfinished_count,
    (
        SELECT
            format(
                'record %s of account %s is %s (%s)',
                unfinished.key, unfinished.account_key, unfinished.state, unfinished.reason
            )
        FROM unfinished
        ORDER BY unfinished.occurred_at, unfinished.account_key, unfinished.key
        LIMIT 1
    ) AS reason;

-- name: tell
INSERT INTO pgbill.usage_retention (
    bucket, import_seq, month_on, record_count, earliest_at, dropped_by
)
SELECT
    usage_record.bucket,
    usage_record.import_seq,
    :month_on,
    count(*),
    min(usage_record.occurred_at),
    session_user
FROM pgbill.usage_record
WHERE usage_record.occurred_at >= :from_at AND usage_record.occurred_at < :until_at
GROUP BY usage_record.bucket, usage_record.import_seq
RETURNING usage_retention.bucket;
