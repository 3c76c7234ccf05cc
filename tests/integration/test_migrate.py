"""`migrate` brings a database to this version, whatever else happens to it.

Twice, at once from two places, under a lock that another holds: all or nothing.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import Connection, conninfo, sql
from typer.testing import CliRunner

from pgbill import db, installation, programs, resources, roles, schema, upgrade
from pgbill.cli import app
from pgbill.errors import ConfigError, SchemaError, TemporaryError
from pgbill.server import Server
from tests import builders
from tests.servers import DatabaseServer

_CATALOGS = "pg_class", "pg_proc", "pg_trigger", "pg_constraint", "pg_rewrite"


@pytest.fixture
def patch_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let pgbill ship a copy of its files, for the test to change."""
    for folder in ("sql", "alembic"):
        shutil.copytree(resources.path(folder), tmp_path / folder)
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "pgbill")
    installation.shipped.cache_clear()
    yield tmp_path
    installation.shipped.cache_clear()


def _catalog(dsn: str) -> list[tuple[Any, ...]]:
    """Return what any DDL would change: every row of the catalogs, and who wrote it."""
    with psycopg.connect(dsn) as conn:
        return [
            row
            for catalog in _CATALOGS
            for row in conn.execute(
                sql.SQL("SELECT tableoid, oid, xmin::text FROM {}").format(
                    sql.Identifier(catalog)
                )
            )
        ]


def _add_migration(root: Path, name: str, text: str) -> None:
    head = installation.migrations()[-1].stem[:4]
    folder = root / "alembic" / "versions"
    (folder / f"{name}.sql").write_text(text)
    template = installation.migrations()[0].with_suffix(".py").read_text()
    lines = [
        f'revision, down_revision = "{name[:4]}", "{head}"'
        if line.startswith("revision")
        else line
        for line in template.splitlines()
    ]
    (folder / f"{name}.py").write_text("\n".join(lines))
    installation.shipped.cache_clear()


def test_the_second_time_there_is_no_ddl(dsn: str) -> None:
    before = _catalog(dsn)

    assert schema.migrate(dsn) is False

    assert _catalog(dsn) == before


def test_three_at_once_end_well_and_one_of_them_does_it(empty_dsn: str) -> None:
    done = _migrate_at_once([empty_dsn] * 3)

    assert done.count("pgbill: the database is at this version now.\n") == 1
    assert done.count("pgbill: the database was at this version already.\n") == 2


def test_three_databases_of_a_new_server_at_once(home: Path) -> None:
    """Roles belong to the server, so all want to create them."""
    server = Server(programs.embedded(), home / "roles", options={"fsync": "off"})
    server.start()
    databases = ["one", "two", "three"]
    with psycopg.connect(str(server.dsn("postgres")), autocommit=True) as conn:
        for name in databases:
            conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))

    done = _migrate_at_once([str(server.dsn(name)) for name in databases])

    server.stop()
    assert done == ["pgbill: the database is at this version now.\n"] * 3


def _migrate_at_once(dsns: list[str]) -> list[str]:
    """Migrate in a process for each database, and return what they said."""
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "pgbill", "migrate"],
            env={**os.environ, "PGBILL_DSN": dsn},
            stderr=subprocess.PIPE,
            text=True,
        )
        for dsn in dsns
    ]
    return [process.communicate()[1] for process in started]


def test_an_error_leaves_nothing_behind(empty_dsn: str, patch_shipped: Path) -> None:
    _add_migration(patch_shipped, "9001_broken", "CREATE TABLE pgbill.x (y absent);")

    with pytest.raises(SchemaError, match='type "absent" does not exist'):
        schema.migrate(empty_dsn)

    with psycopg.connect(empty_dsn) as conn:
        found = conn.execute("SELECT to_regnamespace('pgbill')").fetchone()
    assert found == (None,)


def test_a_new_migration_may_change_a_column_that_a_view_uses(
    dsn: str, patch_shipped: Path
) -> None:
    (patch_shipped / "sql" / "views" / "x.sql").write_text(
        "CREATE OR REPLACE VIEW pgbill.x AS SELECT attempts FROM pgbill.lease;"
    )
    install = patch_shipped / "sql" / "install.sql"
    install.write_text("\\ir views/x.sql\n" + install.read_text())
    installation.shipped.cache_clear()
    assert schema.migrate(dsn) is True
    text = "ALTER TABLE pgbill.lease ALTER COLUMN attempts TYPE bigint;"
    _add_migration(patch_shipped, "9001_attempts", text)

    assert schema.migrate(dsn) is True

    with db.connect(dsn, application="test") as conn:
        schema.require_current(conn)


def test_what_cannot_run_in_a_transaction_runs_after_it(
    dsn: str, patch_shipped: Path
) -> None:
    _add_migration(patch_shipped, "9001_index", "SELECT 1;")
    after = patch_shipped / "alembic" / "versions" / "9001_index.after.sql"
    after.write_text(
        "-- Why.\nDROP INDEX CONCURRENTLY IF EXISTS pgbill.a;\n\n"
        "CREATE INDEX CONCURRENTLY a ON pgbill.lease (holder);\n"
    )
    installation.shipped.cache_clear()

    assert schema.migrate(dsn) is True

    with db.connect(dsn, application="test") as conn:
        schema.require_current(conn)
        assert conn.execute("SELECT to_regclass('pgbill.a')").fetchone() != (None,)
    assert schema.migrate(dsn) is False


def test_an_interrupted_after_file_runs_again(dsn: str, patch_shipped: Path) -> None:
    _add_migration(patch_shipped, "9001_index", "SELECT 1;")
    after = patch_shipped / "alembic" / "versions" / "9001_index.after.sql"
    after.write_text("CREATE INDEX a ON pgbill.lease (holder);\n\nSELECT 1 / 0;\n")
    installation.shipped.cache_clear()
    with pytest.raises(SchemaError, match="division by zero"):
        schema.migrate(dsn)
    after.write_text("CREATE INDEX IF NOT EXISTS a ON pgbill.lease (holder);\n")
    installation.shipped.cache_clear()

    assert schema.migrate(dsn) is True

    with db.connect(dsn, application="test") as conn:
        schema.require_current(conn)


def test_a_lock_that_another_holds_is_waited_for(
    dsn: str, admin: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run lives through it: nobody queues behind a lock for longer than a moment."""
    monkeypatch.setattr(upgrade, "_LOCK_TIMEOUT", "50ms")
    admin.execute("UPDATE pgbill.schema_file SET sha256 = '' WHERE path LIKE 'sql/%'")

    with admin.transaction():
        admin.execute("SELECT FROM pgbill.lease FOR KEY SHARE")
        with pytest.raises(TemporaryError, match="too busy") as raised:
            schema.migrate(dsn, patience_seconds=0.01)

    assert raised.value.exit_code == 75
    assert schema.migrate(dsn) is True


def test_the_locks_are_taken_in_the_order_of_a_run(
    dsn: str, admin: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Imports first, then leases, before any other table: the other way deadlocks."""
    taken: list[str] = []
    lock_tables = upgrade._lock_tables  # pyright: ignore[reportPrivateUsage]

    def lock_and_look(conn: Connection[Any]) -> None:
        for _ in ("before", "after"):
            query = (
                "SELECT relation::regclass::text FROM pg_locks"
                " WHERE pid = pg_backend_pid() AND mode LIKE '%%Exclusive%%'"
                " AND relation::regclass::text NOT LIKE '%%schema\\_%%'"
                " AND relation::regclass::text LIKE 'pgbill.%%'"
            )
            taken.extend(name for (name,) in conn.execute(query, []).fetchall())
            if not taken:
                lock_tables(conn)

    monkeypatch.setattr(upgrade, "_lock_tables", lock_and_look)
    admin.execute("UPDATE pgbill.schema_file SET sha256 = '' WHERE path LIKE 'sql/%'")

    schema.migrate(dsn)

    assert sorted(taken) == ["pgbill.lease", "pgbill.usage_import_state"]


@pytest.mark.parametrize("mend", [schema.check, upgrade.lift_tokens])
def test_tokens_never_come_twice(
    admin: Connection[Any], mend: Callable[[Connection[Any]], object]
) -> None:
    """A failover that loses transactions may set the sequence back."""
    builders.account(admin, builders.seller(admin))
    admin.execute("UPDATE pgbill.lease SET fencing_token = 1000")

    mend(admin)

    drawn = admin.execute("SELECT nextval('pgbill.fencing_token')").fetchone()
    assert drawn == (1001,)


def test_a_newer_database_is_refused(dsn: str, admin: Connection[Any]) -> None:
    admin.execute(
        "INSERT INTO pgbill.schema_file VALUES ('alembic/versions/9999_x.sql', '')"
    )

    with pytest.raises(SchemaError, match=r"newer than this pgbill.*9999_x\.sql"):
        schema.migrate(dsn)


def test_a_migration_that_was_edited_is_refused(
    dsn: str, admin: Connection[Any]
) -> None:
    admin.execute(
        "UPDATE pgbill.schema_file SET sha256 = '' WHERE path LIKE '%/0001_%'"
    )

    with pytest.raises(SchemaError, match=r"0001_\w+\.sql was applied .* another text"):
        schema.migrate(dsn)


def test_a_view_of_the_users_own_is_named(dsn: str, admin: Connection[Any]) -> None:
    view, *_ = db.fetch_all(admin, db.Queries("schema")["views"], upgrade.View)
    name = sql.Identifier(view.schema, view.name)
    create = sql.SQL("CREATE VIEW public.mine AS SELECT count(*) FROM {}")
    admin.execute(create.format(name))
    admin.execute("UPDATE pgbill.schema_file SET sha256 = '' WHERE path LIKE 'sql/%'")

    with pytest.raises(SchemaError, match=r"view public\.mine depends on"):
        schema.migrate(dsn)


def test_psql_installs_the_same(dsn: str, admin: Connection[Any]) -> None:
    """`sql/install.sql` is one list for psql and for migrate."""
    psql = programs.embedded() / "psql"
    install = resources.path("sql", "install.sql")
    environment = conninfo.make_conninfo(dsn, options=f"-c role={roles.OWNER}")

    done = programs.run(
        [
            str(psql),
            environment,
            "-X",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            "-f",
            str(install),
        ],
        identity=programs.Identity(),
        cwd=None,
    )

    assert (done.returncode, done.stderr.count("ERROR")) == (0, 0), done.stderr
    schema.require_current(admin)


@pytest.mark.usefixtures("template")
def test_a_login_that_may_create_roles_is_enough(
    server: DatabaseServer, login: str, empty_dsn: str
) -> None:
    _own(server, empty_dsn, login)
    with server.connect() as admin:
        admin.execute(sql.SQL("ALTER ROLE {} CREATEROLE").format(sql.Identifier(login)))
        # Since PostgreSQL 16, that is not enough for roles that somebody else created.
        if server.major >= 16:
            for role in roles.ALL:
                grant = sql.SQL("GRANT {} TO {} WITH ADMIN TRUE, SET FALSE")
                admin.execute(grant.format(sql.Identifier(role), sql.Identifier(login)))

    assert schema.migrate(conninfo.make_conninfo(empty_dsn, user=login)) is True


@pytest.mark.usefixtures("template")
def test_a_login_that_may_not_is_told_what_to_ask_for(
    server: DatabaseServer, login: str, empty_dsn: str
) -> None:
    _own(server, empty_dsn, login)

    with pytest.raises(ConfigError, match="Have an administrator run") as raised:
        schema.migrate(conninfo.make_conninfo(empty_dsn, user=login))

    assert raised.value.exit_code == 78


@pytest.fixture
def login(server: DatabaseServer) -> Iterator[str]:
    """Return a login without any right; requested before the database that it owns."""
    name = f"pgbill_test_{uuid4().hex[:12]}"
    with server.connect() as admin:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
        yield name
        admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def _own(server: DatabaseServer, dsn: str, login: str) -> None:
    database = str(conninfo.conninfo_to_dict(dsn)["dbname"])
    query = sql.SQL("ALTER DATABASE {} OWNER TO {}")
    with server.connect() as admin:
        admin.execute(query.format(sql.Identifier(database), sql.Identifier(login)))


def test_a_missing_file_is_told_in_a_sentence(dsn: str, patch_shipped: Path) -> None:
    """An installation that was copied in part is for a person to mend."""
    (patch_shipped / "sql" / "functions" / "price.sql").unlink()

    result = CliRunner().invoke(app, ["migrate"], env={"PGBILL_DSN": dsn})

    assert (result.exit_code, result.stdout) == (78, "")
    assert result.stderr == (
        "pgbill: sql/functions/price.sql, which belongs to pgbill, is missing."
        " Install pgbill again.\n"
    )
