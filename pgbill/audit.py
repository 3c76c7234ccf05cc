"""Audit the promises: look for rows in views that must be empty.

Each view of the schema `pgbill_audit` asks whether one promise was broken, and its
comment says what a row in it means. They rely on nothing that keeps the promises: a
fence that was missing for an hour is found by what was written in that hour. So
nothing here knows any view by name; a view that is added is run. They only read, each
in a statement of its own, and may run beside workers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from psycopg import Connection, sql
from psycopg.abc import Buffer
from psycopg.types.datetime import TimestamptzLoader

from pgbill import db
from pgbill.errors import SchemaError, UsageError

_QUERIES = db.Queries("audit")
_SCHEMA = "pgbill_audit"


@dataclass(frozen=True, slots=True)
class View:
    """An audit: a view in which a row is a finding."""

    name: str
    explanation: str
    """What a finding means, and what to do."""
    columns: list[str]


@dataclass(frozen=True, slots=True)
class Audit:
    """What a view has found."""

    name: str
    explanation: str
    finding_count: int
    findings: list[dict[str, object]]
    """The first ones, by the names of the view's columns."""


@dataclass(frozen=True, slots=True)
class _AccountKey:
    account_id: int
    key: str


def views(conn: Connection[Any]) -> list[View]:
    """Return all audits, by name."""
    return db.fetch_all(conn, _QUERIES["views"], View)


def choose(known: list[View], name: str | None) -> list[View]:
    """Return the view of that name, or all of them.

    Raises:
        SchemaError: There is none at all.
        UsageError: There is none of that name.
    """
    if not known:
        raise SchemaError("the database has no audits.", hint="Run pgbill migrate.")
    chosen = [view for view in known if name in {None, view.name}]
    if not chosen:
        names = ", ".join(view.name for view in known)
        raise UsageError(f"there is no audit {name}. Known are: {names}.")
    return chosen


def run(
    conn: Connection[Any], name: str | None = None, *, limit: int = 20
) -> Iterator[Audit]:
    """Run the view of that name, or all; each is looked at when it is asked for.

    It changes settings of the session, so `conn` should be its own.

    Args:
        conn: As the role pgbill_reader, or any that may read.
        name: Of one view; none: all.
        limit: How many findings of a view are returned; all are counted.

    Raises:
        UsageError: There is no view of that name.
    """
    chosen = choose(views(conn), name)
    db.execute(conn, _QUERIES["settle"])
    return (examine(conn, view, limit=limit) for view in chosen)


class _Times(TimestamptzLoader):
    """Times, and words for those that Python has none for: an audit must not stop."""

    def load(self, data: Buffer) -> Any:  # noqa: ANN401
        """Return a datetime, or the text of an infinity."""
        text = bytes(data).decode()
        return text if text.endswith("infinity") else super().load(data)


def examine(conn: Connection[Any], view: View, *, limit: int) -> Audit:
    """Count the findings of a view and fetch the first ones, in one statement."""
    query = sql.SQL(
        "SELECT {columns}, count(*) OVER () FROM {view} ORDER BY {columns} LIMIT %s"
    ).format(
        columns=sql.SQL(", ").join(map(sql.Identifier, view.columns)),
        view=sql.Identifier(_SCHEMA, view.name),
    )
    with conn.cursor() as cursor:
        cursor.adapters.register_loader("timestamptz", _Times)
        rows = cursor.execute(query, [limit]).fetchall()
    findings = [dict(zip(view.columns, row, strict=False)) for row in rows]
    return Audit(
        name=view.name,
        explanation=view.explanation,
        finding_count=rows[0][-1] if rows else 0,
        findings=_name_accounts(conn, findings),
    )


def _name_accounts(
    conn: Connection[Any], findings: list[dict[str, object]]
) -> list[dict[str, object]]:
    """Put the key of the account first: it is what `pgbill explain` takes."""
    about = [each for each in findings if each.get("account_id") is not None]
    if not about:
        return findings
    keys = db.fetch_all(
        conn,
        _QUERIES["account_keys"],
        _AccountKey,
        buckets=[each["bucket"] for each in about],
        account_ids=[each["account_id"] for each in about],
    )
    key_of: dict[object, str] = {each.account_id: each.key for each in keys}
    return [
        {"account": key_of.get(each["account_id"]), **each}
        if "account_id" in each
        else each
        for each in findings
    ]
