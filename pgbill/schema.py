"""Bring a database to this version, and refuse one that is not.

One transaction does it all: the migrations that are new, then everything replaceable
again (functions, triggers, views, grants), then a record of the files and of every
object. If nothing differs, there is no DDL at all. It may run beside workers: before
any DDL it locks `usage_import_state`, then `lease`, since DDL that met a run in another
order deadlocked every time; it waits for a lock a short while only, because others
queue behind one who waits, and then tries again.

Only this module knows Alembic, which takes long to import.
"""

import contextlib
import random
import re
import threading
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString, cast

from psycopg import Connection, errors, sql

from pgbill import db, fingerprint, installation, resources, roles
from pgbill.errors import ConfigError, SchemaError, TemporaryError

if TYPE_CHECKING:
    import sqlalchemy

_QUERIES = db.Queries("schema")
_SCHEMAS = ("pgbill", "pgbill_audit")
_OLDEST_MAJOR = 15

# Only pgbill uses this number: the letters of its name.
_ADVISORY_LOCK = int.from_bytes(b"pgbill", "big")
_LOCK_TIMEOUT = "2s"
# Alembic keeps the migration that it runs in globals.
_ONE_IN_THIS_PROCESS = threading.Lock()
_PATIENCE_SECONDS = 120.0


class _AnotherMigratesError(Exception):
    """Another process migrates this database at this moment."""


_BUSY = (
    _AnotherMigratesError,
    errors.LockNotAvailable,
    errors.DeadlockDetected,
    errors.SerializationFailure,
)


@dataclass(frozen=True, slots=True)
class View:
    """The name of a view."""

    schema: str
    name: str


@dataclass(frozen=True, slots=True)
class Check:
    """Something that was looked at, and what is wrong with it."""

    what: str
    problem: str | None


def require_current(conn: Connection[Any]) -> None:
    """Refuse to work on a schema that is not exactly the one that pgbill installs.

    Raises:
        SchemaError: It is missing, of another version, or was changed by hand.
    """
    if problem := installation.find_problem(conn):
        raise SchemaError(problem, hint="Run pgbill migrate.")


def migrate(dsn: str, *, patience_seconds: float = _PATIENCE_SECONDS) -> bool:
    """Bring the database to this version: all of it, or nothing.

    It can be called twice, from two places at once, and beside a run.

    Args:
        dsn: The database. Its login may create roles, or is a member of ours.
        patience_seconds: How long to go on trying while others hold the locks.

    Returns:
        False if it was current already, and nothing was done.

    Raises:
        SchemaError: It was changed by hand in a way that only a person can mend.
        TemporaryError: The database was too busy all the time.
    """
    with contextlib.closing(db.connect(dsn, application="migrate")) as conn:
        if problem := _version_problem(conn):
            raise ConfigError(f"the server is too old: {problem}")
        if installation.find_problem(conn) is None:
            return lift_tokens(conn)
        roles.ensure(conn)
        _ensure_extension(conn)
    for _ in _tries(patience_seconds):
        with contextlib.suppress(*_BUSY):
            # Both: if a migration was interrupted, only the second is left to do.
            return any([_install(dsn), _run_after_files(dsn)])
    raise TemporaryError(
        f"the database was too busy to be migrated for {patience_seconds:g} s.",
        hint="Try again when no import is running.",
    )


def check(conn: Connection[Any]) -> list[Check]:
    """Look at all that pgbill needs of a database.

    Nothing is changed, except that fencing tokens are lifted if they went back.
    """
    problems = [
        Check("server", _version_problem(conn)),
        Check("extension", _extension_problem(conn)),
        Check("roles", roles.find_problem(conn)),
        Check("schema", installation.find_problem(conn)),
    ]
    if not any(each.problem for each in problems):
        lift_tokens(conn)
    return problems


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


def _version_problem(conn: Connection[Any]) -> str | None:
    major = installation.server_major(conn)
    if major >= _OLDEST_MAJOR:
        return None
    return f"it is PostgreSQL {major}, pgbill needs {_OLDEST_MAJOR} or newer."


def _extension_problem(conn: Connection[Any]) -> str | None:
    query = "SELECT FROM pg_catalog.pg_extension WHERE extname = 'btree_gist'"
    if conn.execute(query).rowcount:
        return None
    return "btree_gist is not installed here; pgbill migrate does it."


def _tries(patience_seconds: float) -> Iterator[None]:
    give_up_at = time.monotonic() + patience_seconds
    while time.monotonic() < give_up_at:
        yield
        # Others get their turn, and two who migrate do not keep meeting.
        time.sleep(random.uniform(0.1, 1.0))  # noqa: S311 (not a secret)


def _ensure_extension(conn: Connection[Any]) -> None:
    """Install btree_gist, which keeps periods from overlapping."""
    try:
        conn.execute("CREATE EXTENSION IF NOT EXISTS btree_gist")
    except (errors.UniqueViolation, errors.DuplicateObject):
        # Somebody else has created it at this moment.
        return
    except (errors.InsufficientPrivilege, errors.FeatureNotSupported) as error:
        raise ConfigError(
            f"the extension btree_gist is missing: {error.diag.message_primary}.",
            hint="Have an administrator install it: CREATE EXTENSION btree_gist;",
        ) from error


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


def _install(dsn: str) -> bool:
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


def _be_alone(conn: Connection[Any], query: LiteralString) -> None:
    """Take the advisory lock, or give up: CONCURRENTLY waits for those who wait."""
    if conn.execute(query, [_ADVISORY_LOCK]).fetchone() != (True,):
        raise _AnotherMigratesError


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


def _run_after_files(dsn: str) -> bool:
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
