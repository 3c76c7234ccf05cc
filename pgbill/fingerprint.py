"""See the schema of a database, object by object, and name what differs.

A trigger that somebody has disabled breaks a promise without any sign of it. So each
object of both schemas, columns, constraints, indexes, triggers, functions and views, is
reduced to a name and a hash of its definition, which can be recorded and compared.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from psycopg import Connection

from pgbill import db

_QUERIES = db.Queries("schema")

# What files in sql/ create, again and again; all else comes from migrations, once.
_REPLACEABLE = frozenset({"function", "trigger", "view"})


@dataclass(frozen=True, slots=True)
class SchemaObject:
    """An object of the database and the hash of its definition."""

    kind: str
    identity: str
    sha256: str

    def __str__(self) -> str:
        """Name it for people."""
        return f"{self.kind} {self.identity}"

    @property
    def is_replaceable(self) -> bool:
        """Whether installing the files of sql/ again restores it."""
        return self.kind in _REPLACEABLE


def live(conn: Connection[Any]) -> list[SchemaObject]:
    """Return the objects of both schemas as they are now, in order.

    The same whatever the connection's role, search path and formats are. A transaction
    of its own, or a savepoint in the caller's; no setting is left behind.
    """
    with conn.transaction(force_rollback=True):
        db.execute(conn, _QUERIES["settle"])
        return db.fetch_all(conn, _QUERIES["objects"], SchemaObject)


def digest(objects: Iterable[SchemaObject]) -> str:
    """Return one hash for all of them."""
    listed = "\n".join(f"{each} {each.sha256}" for each in objects)
    return hashlib.sha256(listed.encode()).hexdigest()


def differences(
    before: Iterable[SchemaObject], now: Iterable[SchemaObject]
) -> list[str]:
    """Name what is missing, changed or added, for people; empty if all is the same."""
    old = {str(each): each.sha256 for each in before}
    new = {str(each): each.sha256 for each in now}
    both = old.keys() & new.keys()
    return [
        *(f"{name} is missing" for name in old if name not in both),
        *(
            f"{name} is changed"
            for name in old
            if name in both and old[name] != new[name]
        ),
        *(f"{name} is added" for name in new if name not in both),
    ]
