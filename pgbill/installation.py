"""Know what SQL pgbill ships, what of it a database has, and whether all is still so.

Three tables, made by `sql/bootstrap.sql`, remember a migration: the files with their
hashes, the objects as they were afterwards, and who did it. Whatever differs from them
later was not done by `pgbill migrate`.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from psycopg import Connection

from pgbill import __version__, db, fingerprint, resources
from pgbill.fingerprint import SchemaObject

_QUERIES = db.Queries("schema")
_INCLUDE = re.compile(r"^\\ir +(\S+) *$", re.MULTILINE)
_NAMED_DIFFERENCES = 5


@dataclass(frozen=True, slots=True)
class File:
    """A file of SQL that was installed, and the hash of its text."""

    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class State:
    """By whom, on what server, the schema was brought to what it is."""

    server_major: int
    fingerprint: str
    pgbill_version: str
    migrated_at: datetime
    migrated_by: str


def migrations() -> list[Path]:
    """Return the SQL of the migrations, in their order."""
    files = resources.path("alembic", "versions").glob("*.sql")
    return sorted(file for file in files if not file.name.endswith(".after.sql"))


def after_files() -> list[Path]:
    """Return the SQL of migrations that must run outside a transaction."""
    return sorted(resources.path("alembic", "versions").glob("*.after.sql"))


def replaceable_files() -> list[Path]:
    """Return the files that `sql/install.sql` includes, in its order."""
    sql = resources.path("sql")
    text = (sql / "install.sql").read_text(encoding="utf-8")
    return [sql / included for included in _INCLUDE.findall(text)]


def name(file: Path) -> str:
    """Return the file's path below the checkout, the same on every machine."""
    return file.relative_to(resources.path()).as_posix()


@cache
def shipped() -> Mapping[str, str]:
    """Return all files that are to be installed, with the hash of each."""
    bootstrap = resources.path("sql", "bootstrap.sql")
    files = [*migrations(), *after_files(), bootstrap, *replaceable_files()]
    return {name(file): _sha256(file) for file in files}


def installed(conn: Connection[Any]) -> Mapping[str, str]:
    """Return the files that were installed, with the hash of each."""
    files = db.fetch_all(conn, _QUERIES["files"], File)
    return {file.path: file.sha256 for file in files}


def recorded_objects(conn: Connection[Any]) -> list[SchemaObject]:
    """Return the objects as `migrate` has left them."""
    return db.fetch_all(conn, _QUERIES["recorded_objects"], SchemaObject)


def state(conn: Connection[Any]) -> State | None:
    """Return who installed the schema, or none if nobody has finished doing it."""
    if not has_relation(conn, "schema_state"):
        return None
    return db.fetch_one(conn, _QUERIES["state"], State)


def find_problem(conn: Connection[Any]) -> str | None:
    """Say in a sentence why the schema is not current, or return none if it is.

    A transaction of its own, or a savepoint in the caller's.
    """
    with conn.transaction():
        known = state(conn)
        if known is None:
            return "the database has not been migrated yet."
        if installed(conn) != shipped():
            return (
                "the database's schema is not the one of this pgbill"
                f" {__version__}: it was installed by {known.pgbill_version}."
            )
        if known.server_major != server_major(conn):
            return "PostgreSQL has been upgraded since the schema was installed."
        found = fingerprint.live(conn)
        if fingerprint.digest(found) == known.fingerprint:
            return None
        return by_hand(fingerprint.differences(recorded_objects(conn), found))


def by_hand(changes: list[str]) -> str:
    """Say in a sentence what was changed by hand."""
    more = len(changes) - _NAMED_DIFFERENCES
    named = changes[:_NAMED_DIFFERENCES] + ([f"{more} more"] if more > 0 else [])
    return f"the database's schema was changed by hand: {'; '.join(named)}."


def record(conn: Connection[Any], paths: Iterable[str]) -> None:
    """Remember that these files, and no others, are installed, and their result."""
    listed = list(paths)
    db.execute(
        conn,
        _QUERIES["record_files"],
        paths=listed,
        hashes=[shipped()[path] for path in listed],
    )
    found = fingerprint.live(conn)
    db.execute(
        conn,
        _QUERIES["record_objects"],
        kinds=[each.kind for each in found],
        identities=[each.identity for each in found],
        hashes=[each.sha256 for each in found],
    )
    db.execute(
        conn,
        _QUERIES["record_state"],
        server_major=server_major(conn),
        fingerprint=fingerprint.digest(found),
        pgbill_version=__version__,
    )


def has_relation(conn: Connection[Any], table: str) -> bool:
    """Tell whether schema pgbill has that table."""
    query = "SELECT to_regclass(%s) IS NOT NULL"
    return conn.execute(query, [f"pgbill.{table}"]).fetchone() == (True,)


def server_major(conn: Connection[Any]) -> int:
    """Return the major version of the server."""
    return conn.info.server_version // 10_000


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
