"""Turn a file of usage into usage records, so that each is billed once.

The watermark protocol: an import draws its number by updating the one row of
`usage_import_state`, and holds that row until it commits. So imports queue, and numbers
become visible in their order; a closing that has seen number n has seen all before it.
(With a plain sequence, one import in a thousand committed below a watermark that was
already stored, and was never billed.) No account, lease or period is locked, so a run
goes on meanwhile.

What can be found wrong without the queue is looked for before it: others wait only for
the check against what is there already, and for the writing.
"""

from dataclasses import dataclass
from typing import Any

from psycopg import Connection, sql

from pgbill import column, db
from pgbill.column import Column
from pgbill.staging import Count, Found, Layout, Staged, Written

_QUERIES = db.Queries("usage")

LAYOUT = Layout(
    columns=(
        Column("key", column.key, is_required=True),
        Column("account", column.key, is_required=True),
        Column("meter", column.key, is_required=True),
        Column("quantity", column.decimal, is_required=True),
        Column("occurred_at", column.instant, is_required=True),
    ),
    queries=_QUERIES,
    table="staged_usage",
)


@dataclass(frozen=True, slots=True)
class _Import:
    import_seq: int


@dataclass(frozen=True, slots=True)
class _Partition:
    name: str


def prepare(conn: Connection[Any], staged: Staged) -> None:
    """Find the accounts and meters, and make the partitions that are missing.

    In a transaction of its own, since a new partition locks account for a moment.

    Raises:
        BadInputError: Something is wrong with the file, whatever was imported before.
    """
    db.execute(conn, _QUERIES["resolve"])
    conn.execute("ANALYZE pg_temp.resolved_usage")
    staged.refuse(db.fetch_all(conn, _QUERIES["problems"], Found))
    db.execute(conn, _QUERIES["create_partitions"])


def write(conn: Connection[Any], staged: Staged) -> Written:
    """Write the records that are new, as one import; others queue until the commit.

    Must be the first in its transaction, as migrations lock `usage_import_state` first.

    Raises:
        BadInputError: A key was imported before with other data.
    """
    drawn = db.fetch_one(conn, _QUERIES["draw"], _Import)
    assert drawn is not None
    db.execute(conn, _QUERIES["find_known"])
    conn.execute("ANALYZE pg_temp.known_usage")
    staged.refuse(db.fetch_all(conn, _QUERIES["conflicts"], Found))
    new = db.fetch_one(conn, _QUERIES["write"], Count, import_seq=drawn.import_seq)
    assert new is not None
    return Written(new.count, 0, staged.read_count - new.count)


def analyze(conn: Connection[Any]) -> None:
    """Renew the statistics of what has grown, after the commit.

    Plans that were made while a partition was new scan it for every account.
    """
    grown = db.fetch_all(conn, _QUERIES["grown_partitions"], _Partition)
    names = [each.name for each in grown] + ["usage_watermark"]
    for name in names:
        conn.execute(sql.SQL("ANALYZE pgbill.{}").format(sql.Identifier(name)))
