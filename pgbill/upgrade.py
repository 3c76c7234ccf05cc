"""Run what is new in one transaction: migrations, then all that is replaceable.

Before any DDL, `usage_import_state` and then `lease` are locked, as imports and workers
lock them, since DDL that met a run in another order deadlocked every time. A lock is
waited for a short while only, because others queue behind one who waits: the caller
tries again. What cannot run in a transaction (`NNNN_name.after.sql`) follows it.

Only this module knows Alembic, which takes long to import.
"""

import contextlib
import re
import threading
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString, cast

from psycopg import Connection, errors, sql

from pgbill import db, fingerprint, installation, resources, roles
from pgbill.errors import SchemaError

if TYPE_CHECKING:
    import sqlalchemy

_QUERIES = db.Queries("schema")
_SCHEMAS = ("pgbill", "pgbill_audit")

# Only pgbill uses this number: the letters of its name.
_ADVISORY_LOCK = int.from_bytes(b"pgbill", "big")
_LOCK_TIMEOUT = "2s"
# Alembic keeps the migration that it runs in globals.
_ONE_IN_THIS_PROCESS = threading.Lock()


class AnotherMigratesError(Exception):
    """Another process migrates this database at this moment."""


# What passes by waiting.
BUSY = (
    AnotherMigratesError,
    errors.LockNotAvailable,
    errors.DeadlockDetected,
    errors.SerializationFailure,
)


@dataclass(frozen=True, slots=True)
class View:
    """The name of a view."""

    schema: str
    name: str


def install(dsn: str) -> bool:
    """Do all that fits into one transaction; false if another did it meanwhile."""
    with _alembic_connection(dsn) as connection:
        conn = cast("Connection[Any]", connection.connection.driver_connection)
        conn.execute("SET LOCAL statement_timeout = 0")
        conn.execute("SET LOCAL search_path = ''")
        conn.execute("SELECT set_config('lock_timeout', %s, true)", [_LOCK_TIMEOUT])
        _be_alone(conn, "SELECT pg_try_advisory_xact_lock(%s)")
        if installation.find_problem(conn) is None:
            return False
        _become_owner(conn)
        _run_file(conn, resources.path("sql", "bootstrap.sql"))
        _refuse_other_migrations(conn)
        baseline = _baseline(conn)
        _refuse_changes(conn, baseline, replaceable=False)
        _lock_tables(conn)
        _drop_views(conn)
        _upgrade(connection)
        for file in installation.replaceable_files():
            _run_file(conn, file)
        if _same_replaceable_files(conn):
            _refuse_changes(conn, baseline, replaceable=True)
        lift_tokens(conn)
        pending = {installation.name(file) for file in _pending_after_files(conn)}
        installation.record(conn, installation.shipped().keys() - pending)
        return True


def run_after_files(dsn: str) -> bool:
    """Run what cannot run in a transaction; blank lines separate its statements.

    A file that is interrupted runs again from its beginning, so it must be able to.
    """
    with contextlib.closing(
        db.connect(dsn, role=roles.OWNER, application="migrate")
    ) as conn:
        pending = _pending_after_files(conn)
        if not pending:
            return False
        _be_alone(conn, "SELECT pg_try_advisory_lock(%s)")
        for file in pending:
            text = file.read_text(encoding="utf-8")
            for statement in re.split(r"(?<=;)\s*\n\s*\n", text.strip()):
                _run(conn, statement, file)
        with conn.transaction():
            installation.record(conn, installation.shipped())
        return True


def lift_tokens(conn: Connection[Any]) -> bool:
    """Lift the sequence of fencing tokens above all that are in use.

    A failover that loses transactions may lose what the sequence had drawn, and a token
    that is drawn twice proves nothing.

    Returns:
        False if it was above them, as it should be.
    """
    with conn.transaction():
        conn.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(roles.OWNER)))
        if db.execute(conn, _QUERIES["tokens_behind"]) == 0:
            return False
        # Tokens are drawn while leases are locked, so none is drawn meanwhile.
        conn.execute("LOCK TABLE pgbill.lease IN EXCLUSIVE MODE")
        db.execute(conn, _QUERIES["lift_tokens"])
        return True


@contextlib.contextmanager
def _alembic_connection(dsn: str) -> Generator["sqlalchemy.Connection"]:
    """Open one transaction for psycopg and Alembic alike; it commits at the end."""
    import sqlalchemy
    from sqlalchemy.pool import StaticPool

    with (
        _ONE_IN_THIS_PROCESS,
        contextlib.closing(
            db.connect(dsn, application="migrate", autocommit=False)
        ) as conn,
    ):
        engine = sqlalchemy.create_engine(
            "postgresql+psycopg://",
            creator=lambda: conn,
            poolclass=StaticPool,
            use_native_hstore=False,
        )
        with engine.begin() as connection:
            yield connection
        engine.dispose()


def _be_alone(conn: Connection[Any], query: LiteralString) -> None:
    """Take the advisory lock, or give up: CONCURRENTLY waits for those who wait."""
    if conn.execute(query, [_ADVISORY_LOCK]).fetchone() != (True,):
        raise AnotherMigratesError


def _become_owner(conn: Connection[Any]) -> None:
    owner = sql.Identifier(roles.OWNER)
    for schema in _SCHEMAS:
        query = "SELECT to_regnamespace(%s) IS NULL"
        if conn.execute(query, [schema]).fetchone() == (True,):
            create = sql.SQL("CREATE SCHEMA {} AUTHORIZATION {}")
            conn.execute(create.format(sql.Identifier(schema), owner))
    conn.execute(sql.SQL("SET LOCAL ROLE {}").format(owner))


def _refuse_other_migrations(conn: Connection[Any]) -> None:
    """Refuse a database on which other migrations were applied than ours.

    Raises:
        SchemaError: One is unknown, so of a later version, or has another text now.
    """
    shipped = installation.shipped()
    for path, sha256 in installation.installed(conn).items():
        if path.startswith("alembic/") and path not in shipped:
            raise SchemaError(
                f"the database is newer than this pgbill, which has no {path}.",
                hint="Install the newer pgbill.",
            )
        if path.startswith("alembic/") and sha256 != shipped[path]:
            raise SchemaError(
                f"{path} was applied to this database with another text.",
                hint="A migration that has been applied never changes: add another.",
            )


def _baseline(conn: Connection[Any]) -> list[fingerprint.SchemaObject]:
    """Return the objects as they ought to be; none if that cannot be known.

    It cannot after a major upgrade of PostgreSQL, which prints definitions differently,
    and when a migration was interrupted before its `.after.sql` had been recorded.
    """
    state = installation.state(conn)
    if state is None or state.server_major != installation.server_major(conn):
        return []
    installed = installation.installed(conn)
    for file in _pending_after_files(conn):
        sibling = installation.name(file).replace(".after.sql", ".sql")
        if sibling in installed:
            return []
    return installation.recorded_objects(conn)


def _refuse_changes(
    conn: Connection[Any],
    baseline: list[fingerprint.SchemaObject],
    *,
    replaceable: bool,
) -> None:
    """Refuse what was changed by hand and what installing files again does not mend."""
    if not baseline:
        return
    changes = fingerprint.differences(
        [each for each in baseline if each.is_replaceable == replaceable],
        [each for each in fingerprint.live(conn) if each.is_replaceable == replaceable],
    )
    if changes:
        raise SchemaError(
            installation.by_hand(changes),
            hint="Undo that, and run pgbill migrate again; it has changed nothing now.",
        )


def _same_replaceable_files(conn: Connection[Any]) -> bool:
    installed, shipped = installation.installed(conn), installation.shipped()
    paths = map(installation.name, installation.replaceable_files())
    return all(installed.get(path) == shipped[path] for path in paths)


def _lock_tables(conn: Connection[Any]) -> None:
    """Keep imports and workers out, in the order in which they themselves lock."""
    for table in ("usage_import_state", "lease"):
        if installation.has_relation(conn, table):
            name = sql.Identifier("pgbill", table)
            conn.execute(sql.SQL("LOCK TABLE {} IN EXCLUSIVE MODE").format(name))


def _drop_views(conn: Connection[Any]) -> None:
    """Drop all views, since a column that a view uses cannot change its type."""
    views = db.fetch_all(conn, _QUERIES["views"], View)
    names = [sql.Identifier(view.schema, view.name) for view in views]
    if not names:
        return
    try:
        conn.execute(sql.SQL("DROP VIEW {}").format(sql.SQL(", ").join(names)))
    except errors.DependentObjectsStillExist as error:
        raise SchemaError(
            f"something depends on pgbill's views: {error.diag.message_detail}.",
            hint="Drop it, run pgbill migrate, and create it again.",
        ) from error


def _upgrade(connection: "sqlalchemy.Connection") -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    # Alembic's configuration interpolates percent signs.
    folder = str(resources.path("alembic")).replace("%", "%%")
    config.set_main_option("script_location", folder)
    config.attributes["connection"] = connection
    with _naming("a migration"):
        command.upgrade(config, "head")


def _run_file(conn: Connection[Any], file: Path) -> None:
    """Run a file as it stands, all its statements at once."""
    _run(conn, file.read_text(encoding="utf-8"), file)


def _run(conn: Connection[Any], text: str, file: Path) -> None:
    with _naming(installation.name(file)):
        # The files are part of the program, as literal as its strings.
        conn.execute(sql.SQL(cast("LiteralString", text)))


@contextlib.contextmanager
def _naming(what: str) -> Generator[None]:
    """Say what could not be installed; what may pass by waiting is left as it is."""
    try:
        yield
    except errors.OperationalError:
        raise
    except errors.Error as error:
        raise SchemaError(f"{what} cannot be installed: {error}.") from error


def _pending_after_files(conn: Connection[Any]) -> list[Path]:
    installed = installation.installed(conn)
    files = installation.after_files()
    return [file for file in files if installation.name(file) not in installed]
