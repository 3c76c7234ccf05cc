-- What `pgbill migrate` remembers: what it has installed, and how that looked afterwards.
-- It runs before the migrations, so it can be applied any number of times.

CREATE TABLE IF NOT EXISTS pgbill.schema_file (
    path text PRIMARY KEY,
    sha256 text NOT NULL,
    installed_at timestamptz NOT NULL DEFAULT now()
);

COMMENT ON TABLE pgbill.schema_file IS
'The files of SQL that are installed here, each with the hash of its text.';

CREATE TABLE IF NOT EXISTS pgbill.schema_object (
    kind text NOT NULL,
    identity text NOT NULL,
    sha256 text NOT NULL,
    PRIMARY KEY (kind, identity)
);

COMMENT ON TABLE pgbill.schema_object IS
'The objects of both schemas as migrate left them, to find and name what was changed by hand.';

CREATE TABLE IF NOT EXISTS pgbill.schema_state (
    only_row boolean PRIMARY KEY DEFAULT true
        CONSTRAINT schema_state_is_one_row CHECK (only_row),
    server_major integer NOT NULL,
    fingerprint text NOT NULL,
    pgbill_version text NOT NULL,
    migrated_at timestamptz NOT NULL DEFAULT now(),
    migrated_by text NOT NULL DEFAULT session_user
);

COMMENT ON TABLE pgbill.schema_state IS
'One row: by which version of pgbill, and when, the schema was brought to what it is.';
COMMENT ON COLUMN pgbill.schema_state.server_major IS
'Major versions of PostgreSQL print definitions differently, so a new one is a new baseline.';
COMMENT ON COLUMN pgbill.schema_state.fingerprint IS
'The hash of all rows of schema_object.';
