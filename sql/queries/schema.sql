-- name: settle
-- Definitions are printed in the light of these, so they must not differ from login to login.
SELECT
    set_config('search_path', '', true),
    set_config('quote_all_identifiers', 'off', true),
    set_config('DateStyle', 'ISO, MDY', true),
    set_config('IntervalStyle', 'postgres', true),
    set_config('TimeZone', 'UTC', true),
    set_config('extra_float_digits', '1', true),
    set_config('bytea_output', 'hex', true);

-- name: objects
-- All that a person could change by hand, each with the hash of its definition. Partitions
-- are left out: imports create them.
WITH relation AS (
    SELECT pg_class.*, format('%I.%I', pg_namespace.nspname, pg_class.relname) AS name
    FROM pg_catalog.pg_class
    JOIN pg_catalog.pg_namespace ON pg_namespace.oid = pg_class.relnamespace
    WHERE pg_namespace.nspname IN ('pgbill', 'pgbill_audit')
        AND NOT pg_class.relispartition
),

object AS (
    SELECT
        'table' AS kind,
        relation.name AS identity,
        concat_ws(
            ' ', relation.relkind, relation.relpersistence, relation.reloptions,
            relation.relrowsecurity, relation.relforcerowsecurity,
            pg_get_partkeydef(relation.oid)
        ) AS definition
    FROM relation
    WHERE relation.relkind IN ('r', 'p', 'f')

    UNION ALL

    SELECT
        'column',
        format('%s.%I', relation.name, pg_attribute.attname),
        concat_ws(
            ' ', format_type(pg_attribute.atttypid, pg_attribute.atttypmod),
            pg_attribute.attcollation::regcollation, pg_attribute.attnotnull,
            pg_attribute.attidentity, pg_attribute.attgenerated,
            pg_get_expr(pg_attrdef.adbin, pg_attrdef.adrelid)
        )
    FROM relation
    JOIN pg_catalog.pg_attribute
        ON pg_attribute.attrelid = relation.oid
        AND pg_attribute.attnum > 0
        AND NOT pg_attribute.attisdropped
    LEFT JOIN pg_catalog.pg_attrdef
        ON pg_attrdef.adrelid = relation.oid AND pg_attrdef.adnum = pg_attribute.attnum
    WHERE relation.relkind IN ('r', 'p', 'f', 'c')

    UNION ALL

    SELECT
        'constraint',
        format('%s %I', relation.name, pg_constraint.conname),
        pg_get_constraintdef(pg_constraint.oid)
    FROM relation
    JOIN pg_catalog.pg_constraint ON pg_constraint.conrelid = relation.oid
    -- NOT NULL is a constraint since PostgreSQL 18; the column says it in all versions.
    WHERE pg_constraint.contype IN ('c', 'f', 'p', 'u', 'x')
        AND pg_constraint.conparentid = 0

    UNION ALL

    SELECT
        'index',
        index_relation.name,
        concat_ws(' ', pg_get_indexdef(pg_index.indexrelid), pg_index.indisvalid)
    FROM relation
    JOIN pg_catalog.pg_index ON pg_index.indrelid = relation.oid
    JOIN relation AS index_relation ON index_relation.oid = pg_index.indexrelid

    UNION ALL

    SELECT
        'sequence',
        relation.name,
        concat_ws(
            ' ', format_type(pg_sequence.seqtypid, null), pg_sequence.seqincrement,
            pg_sequence.seqmin, pg_sequence.seqmax, pg_sequence.seqcache,
            pg_sequence.seqcycle
        )
    FROM relation
    JOIN pg_catalog.pg_sequence ON pg_sequence.seqrelid = relation.oid

    UNION ALL

    SELECT
        'trigger',
        format('%s %I', relation.name, pg_trigger.tgname),
        concat_ws(' ', pg_get_triggerdef(pg_trigger.oid), pg_trigger.tgenabled)
    FROM relation
    JOIN pg_catalog.pg_trigger ON pg_trigger.tgrelid = relation.oid
    WHERE NOT pg_trigger.tgisinternal

    UNION ALL

    -- Foreign keys are kept by triggers too, and a superuser can disable those.
    SELECT
        'disabled foreign key',
        format('%s %I', relation.name, pg_constraint.conname),
        string_agg(pg_trigger.tgenabled::text, '' ORDER BY pg_trigger.tgfoid)
    FROM relation
    JOIN pg_catalog.pg_trigger ON pg_trigger.tgrelid = relation.oid
    JOIN pg_catalog.pg_constraint ON pg_constraint.oid = pg_trigger.tgconstraint
    WHERE pg_trigger.tgisinternal
        AND pg_trigger.tgenabled <> 'O'
        AND pg_trigger.tgparentid = 0
    GROUP BY relation.name, pg_constraint.conname

    UNION ALL

    SELECT
        'rule',
        format('%s %I', relation.name, pg_rewrite.rulename),
        concat_ws(' ', pg_get_ruledef(pg_rewrite.oid), pg_rewrite.ev_enabled)
    FROM relation
    JOIN pg_catalog.pg_rewrite ON pg_rewrite.ev_class = relation.oid
    WHERE relation.relkind NOT IN ('v', 'm')

    UNION ALL

    SELECT
        'view',
        relation.name,
        concat_ws(' ', relation.relkind, relation.reloptions, pg_get_viewdef(relation.oid))
    FROM relation
    WHERE relation.relkind IN ('v', 'm')

    UNION ALL

    SELECT
        'function',
        format(
            '%I.%I(%s)', pg_namespace.nspname, pg_proc.proname,
            pg_get_function_identity_arguments(pg_proc.oid)
        ),
        pg_get_functiondef(pg_proc.oid)
    FROM pg_catalog.pg_proc
    JOIN pg_catalog.pg_namespace ON pg_namespace.oid = pg_proc.pronamespace
    WHERE pg_namespace.nspname IN ('pgbill', 'pgbill_audit')
        AND pg_proc.prokind IN ('f', 'p', 'w')
        AND NOT EXISTS (
            SELECT
            FROM pg_catalog.pg_depend
            WHERE pg_depend.classid = 'pg_catalog.pg_proc'::regclass
                AND pg_depend.objid = pg_proc.oid
                AND pg_depend.deptype = 'e'
        )
)

SELECT
    object.kind,
    object.identity,
    encode(sha256(convert_to(object.definition, 'UTF8')), 'hex') AS sha256
FROM object
ORDER BY object.kind COLLATE "C", object.identity COLLATE "C";

-- name: recorded_objects
SELECT schema_object.kind, schema_object.identity, schema_object.sha256
FROM pgbill.schema_object
ORDER BY schema_object.kind COLLATE "C", schema_object.identity COLLATE "C";

-- name: files
SELECT schema_file.path, schema_file.sha256
FROM pgbill.schema_file
ORDER BY schema_file.path COLLATE "C";

-- name: state
SELECT
    schema_state.server_major,
    schema_state.fingerprint,
    schema_state.pgbill_version,
    schema_state.migrated_at,
    schema_state.migrated_by
FROM pgbill.schema_state;

-- name: record_files
WITH file AS (
    SELECT given.path, given.sha256
    FROM unnest(:paths::text[], :hashes::text[]) AS given (path, sha256)
),

removed AS (
    DELETE FROM pgbill.schema_file
    WHERE schema_file.path NOT IN (SELECT file.path FROM file)
)

INSERT INTO pgbill.schema_file (path, sha256)
SELECT file.path, file.sha256
FROM file
ON CONFLICT (path) DO UPDATE
SET sha256 = excluded.sha256, installed_at = now()
WHERE schema_file.sha256 <> excluded.sha256;

-- name: record_objects
WITH object AS (
    SELECT given.kind, given.identity, given.sha256
    FROM unnest(:kinds::text[], :identities::text[], :hashes::text[])
        AS given (kind, identity, sha256)
),

removed AS (
    DELETE FROM pgbill.schema_object
    WHERE NOT EXISTS (
        SELECT
        FROM object
        WHERE object.kind = schema_object.kind
            AND object.identity = schema_object.identity
    )
)

INSERT INTO pgbill.schema_object (kind, identity, sha256)
SELECT object.kind, object.identity, object.sha256
FROM object
ON CONFLICT (kind, identity) DO UPDATE
SET sha256 = excluded.sha256
WHERE schema_object.sha256 <> excluded.sha256;

-- name: record_state
INSERT INTO pgbill.schema_state (server_major, fingerprint, pgbill_version)
VALUES (:server_major, :fingerprint, :pgbill_version)
ON CONFLICT (only_row) DO UPDATE
SET
    server_major = excluded.server_major,
    fingerprint = excluded.fingerprint,
    pgbill_version = excluded.pgbill_version,
    migrated_at = now(),
    migrated_by = session_user;

-- name: tokens_behind
-- A lease carries its account's newest token, so none that was ever drawn is greater.
SELECT newest.fencing_token
FROM (SELECT max(lease.fencing_token) AS fencing_token FROM pgbill.lease) AS newest,
    pgbill.fencing_token AS sequence
WHERE newest.fencing_token > sequence.last_value;

-- name: lift_tokens
SELECT setval('pgbill.fencing_token', max(lease.fencing_token))
FROM pgbill.lease;

-- name: views
SELECT pg_views.schemaname AS schema, pg_views.viewname AS name
FROM pg_catalog.pg_views
WHERE pg_views.schemaname IN ('pgbill', 'pgbill_audit')
ORDER BY pg_views.schemaname, pg_views.viewname;
