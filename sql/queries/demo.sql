-- name: comment
SELECT shobj_description(pg_database.oid, 'pg_database') AS comment
FROM pg_catalog.pg_database
WHERE pg_database.datname = :name;
