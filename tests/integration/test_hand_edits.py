"""A schema that was changed by hand is refused, and what was changed is named.

A trigger that somebody has disabled breaks a promise without any sign of it, so `run`
and `relay` look before they begin. `migrate` mends what files create, and refuses the
rest.
"""

import contextlib
import re
import time
from typing import Any, LiteralString

import pytest
from psycopg import Connection

from pgbill import db, fingerprint, installation, roles, schema
from pgbill.errors import SchemaError

pytestmark = pytest.mark.one_server

_REPLACE_FENCE = """
    CREATE OR REPLACE FUNCTION pgbill.fence() RETURNS trigger LANGUAGE plpgsql
    AS 'BEGIN RETURN NULL; END'
"""
_ADD_TRIGGER = """
    CREATE TRIGGER mine BEFORE INSERT ON pgbill.invoice
    FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()
"""
_FENCE = "trigger pgbill.invoice _10_fence"
_MENDED: dict[LiteralString, str] = {
    "DROP TRIGGER _10_fence ON pgbill.invoice": f"{_FENCE} is missing",
    "ALTER TABLE pgbill.invoice DISABLE TRIGGER _10_fence": f"{_FENCE} is changed",
    "ALTER TABLE pgbill.invoice ENABLE REPLICA TRIGGER _10_fence": "fence is changed",
    "ALTER FUNCTION pgbill.fence() RESET search_path": "pgbill.fence() is changed",
    _REPLACE_FENCE: "function pgbill.fence() is changed",
}
_REFUSED: dict[LiteralString, str] = {
    "ALTER TABLE pgbill.lease DROP CONSTRAINT lease_attempts_are_not_negative": (
        "constraint pgbill.lease lease_attempts_are_not_negative is missing"
    ),
    "ALTER TABLE pgbill.lease ALTER attempts DROP DEFAULT": "attempts is changed",
    "ALTER TABLE pgbill.lease ALTER attempts DROP NOT NULL": "attempts is changed",
    "ALTER TABLE pgbill.lease ADD mine text": "column pgbill.lease.mine is added",
    "ALTER TABLE pgbill.lease RESET (fillfactor)": "table pgbill.lease is changed",
    "ALTER TABLE pgbill.lease ENABLE ROW LEVEL SECURITY": "pgbill.lease is changed",
    "ALTER TABLE pgbill.lease DISABLE TRIGGER ALL": "disabled foreign key pgbill.lease",
    "ALTER SEQUENCE pgbill.fencing_token CACHE 50": "fencing_token is changed",
    "DROP INDEX pgbill.lease_due": "index pgbill.lease_due is missing",
    "CREATE INDEX mine ON pgbill.lease (holder)": "index pgbill.mine is added",
    "CREATE TABLE pgbill.mine ()": "table pgbill.mine is added",
    "CREATE RULE mine AS ON DELETE TO pgbill.lease DO NOTHING": "rule pgbill.lease",
    _ADD_TRIGGER: "trigger pgbill.invoice mine is added",
}


@pytest.mark.parametrize(("edit", "told"), [*_MENDED.items(), *_REFUSED.items()])
def test_an_edit_is_found_and_named(
    conn: Connection[Any], edit: LiteralString, told: str
) -> None:
    conn.execute("RESET ROLE")
    conn.execute(edit)

    with pytest.raises(SchemaError, match=re.escape(told)) as raised:
        schema.require_current(conn)

    assert raised.value.exit_code == 78


@pytest.mark.parametrize("edit", _MENDED)
def test_what_files_create_is_mended(
    dsn: str, admin: Connection[Any], edit: LiteralString
) -> None:
    before = fingerprint.live(admin)
    admin.execute(edit)

    assert schema.migrate(dsn) is True

    assert fingerprint.differences(before, fingerprint.live(admin)) == []
    schema.require_current(admin)


@pytest.mark.parametrize(("edit", "told"), _REFUSED.items())
def test_what_migrations_create_is_refused_and_nothing_is_changed(
    dsn: str, admin: Connection[Any], edit: LiteralString, told: str
) -> None:
    admin.execute("ALTER TABLE pgbill.invoice DISABLE TRIGGER _10_fence")
    admin.execute(edit)
    before = fingerprint.live(admin)

    with pytest.raises(SchemaError, match=re.escape(told)):
        schema.migrate(dsn)

    assert fingerprint.live(admin) == before


def test_an_edit_that_was_undone_is_forgiven(admin: Connection[Any]) -> None:
    admin.execute("ALTER TABLE pgbill.invoice DISABLE TRIGGER _10_fence")
    admin.execute("ALTER TABLE pgbill.invoice ENABLE TRIGGER _10_fence")

    schema.require_current(admin)


def test_a_database_without_schema_is_refused(empty_dsn: str) -> None:
    with (
        contextlib.closing(db.connect(empty_dsn, application="test")) as conn,
        pytest.raises(SchemaError, match=r"not been migrated yet\. Run pgbill migrate"),
    ):
        schema.require_current(conn)


def test_an_older_database_is_refused_and_migrated(
    dsn: str, admin: Connection[Any]
) -> None:
    admin.execute("UPDATE pgbill.schema_file SET sha256 = '' WHERE path LIKE 'sql/%'")
    admin.execute("UPDATE pgbill.schema_state SET pgbill_version = '0.0.1'")
    with pytest.raises(SchemaError, match=r"installed by 0\.0\.1"):
        schema.require_current(admin)

    assert schema.migrate(dsn) is True

    schema.require_current(admin)


def test_an_upgraded_server_is_a_new_baseline(dsn: str, admin: Connection[Any]) -> None:
    """Another major version prints definitions differently."""
    admin.execute("UPDATE pgbill.schema_state SET server_major = 14, fingerprint = ''")
    admin.execute("UPDATE pgbill.schema_object SET sha256 = ''")
    with pytest.raises(SchemaError, match="PostgreSQL has been upgraded"):
        schema.require_current(admin)

    assert schema.migrate(dsn) is True

    schema.require_current(admin)


def test_partitions_come_and_go(admin: Connection[Any]) -> None:
    """Imports create one for each month."""
    admin.execute("""
        CREATE TABLE pgbill.usage_record_of_a_test PARTITION OF pgbill.usage_record
        FOR VALUES FROM ('1999-01-01') TO ('1999-02-01')
    """)

    schema.require_current(admin)


@pytest.mark.parametrize("role", roles.ALL)
def test_each_role_sees_the_same(dsn: str, role: str) -> None:
    with contextlib.closing(db.connect(dsn, role=role, application="test")) as conn:
        schema.require_current(conn)


def test_settings_of_the_connection_do_not_matter(conn: Connection[Any]) -> None:
    before = fingerprint.live(conn)
    settings: list[LiteralString] = [
        "SET search_path = pgbill, pg_catalog",
        "SET DateStyle = 'German'",
        "SET IntervalStyle = 'iso_8601'",
        "SET TimeZone = 'Asia/Kolkata'",
        "SET quote_all_identifiers = on",
    ]
    for setting in settings:
        conn.execute(setting)

    assert fingerprint.live(conn) == before
    assert conn.execute("SHOW search_path").fetchone() == ("pgbill, pg_catalog",)


def test_looking_is_quick(conn: Connection[Any]) -> None:
    schema.require_current(conn)
    started = time.perf_counter()

    schema.require_current(conn)

    assert time.perf_counter() - started < 0.1


def test_check_tells_one_thing_after_the_other(conn: Connection[Any]) -> None:
    conn.execute("RESET ROLE")

    checks = schema.check(conn)

    assert [check.what for check in checks] == [
        "server",
        "extension",
        "roles",
        "schema",
    ]
    assert [check.problem for check in checks] == [None] * 4


def test_nothing_is_given_to_everybody(conn: Connection[Any]) -> None:
    """PostgreSQL lets everybody execute a function unless told otherwise."""
    query = """
        SELECT pg_proc.oid::regprocedure::text
        FROM pg_proc
        WHERE pronamespace IN ('pgbill'::regnamespace, 'pgbill_audit'::regnamespace)
            AND has_function_privilege('pg_monitor', pg_proc.oid, 'EXECUTE')
    """

    assert conn.execute(query).fetchall() == []


def test_a_worker_reads_and_writes_nothing_by_itself(conn: Connection[Any]) -> None:
    query = """
        SELECT relation.oid::regclass::text, privilege
        FROM pg_class AS relation,
            unnest(ARRAY['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE']) AS privilege
        WHERE relation.relnamespace = 'pgbill'::regnamespace
            AND relation.relkind IN ('r', 'p', 'v')
            AND (
                has_table_privilege('pgbill_worker', relation.oid, privilege)
                OR has_table_privilege('pgbill_reader', relation.oid, privilege)
            )
    """

    assert conn.execute(query).fetchall() == []
    assert installation.state(conn) is not None
