-- What `pgbill audit` asks beside the audit views themselves.

-- name: settle
-- Every view reads whole tables. The planner takes the columns bucket and account_id for
-- independent, expects one row in fifty thousand, and would loop over all of them.
SELECT
    set_config('enable_nestloop', 'off', FALSE),
    set_config('work_mem', '64MB', FALSE);

-- name: views
SELECT
    pg_class.relname::text AS name,
    coalesce(obj_description(pg_class.oid, 'pg_class'), '') AS explanation,
    array_agg(pg_attribute.attname::text ORDER BY pg_attribute.attnum) AS columns
FROM pg_catalog.pg_class
INNER JOIN pg_catalog.pg_attribute ON pg_class.oid = pg_attribute.attrelid
WHERE pg_class.relnamespace = to_regnamespace('pgbill_audit')
    AND pg_class.relkind = 'v'
    AND pg_attribute.attnum > 0
GROUP BY pg_class.oid, pg_class.relname
ORDER BY pg_class.relname;

-- name: account_keys
SELECT
    account.account_id,
    account.key
FROM unnest(:buckets::integer[], :account_ids::bigint[]) AS named (bucket, account_id)
INNER JOIN pgbill.account
    ON named.bucket = account.bucket AND named.account_id = account.account_id;
