"""Bring a database to this version, and refuse one that is not.

`migrate` does all or nothing (see `upgrade`); if nothing differs, there is no DDL at
all. It may run twice, at once from two places and beside workers. A run and a relay
begin with `require_current`, since a trigger that somebody has disabled breaks a
promise without any sign of it.
"""

import contextlib
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from psycopg import Connection, errors

from pgbill import db, installation, roles, upgrade
from pgbill.errors import ConfigError, SchemaError, TemporaryError

_OLDEST_MAJOR = 15
_PATIENCE_SECONDS = 120.0


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
            return upgrade.lift_tokens(conn)
        roles.ensure(conn)
        _ensure_extension(conn)
    for _ in _tries(patience_seconds):
        with contextlib.suppress(*upgrade.BUSY):
            # Both: if a migration was interrupted, only the second is left to do.
            return any([upgrade.install(dsn), upgrade.run_after_files(dsn)])
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
        upgrade.lift_tokens(conn)
    return problems


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
