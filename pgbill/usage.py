"""Turn a file of usage into usage records, so that each is billed once.

The watermark protocol: an import draws its number by updating the one row of
`usage_import_state`, and holds that row until it commits. So imports queue, and numbers
become visible in their order; a closing that has seen number n has seen all before it.
(With a plain sequence, one import in a thousand committed below a watermark that was
already stored, and was never billed.) No account, lease or period is locked, so a run
goes on meanwhile.

A record never changes. What was too much is taken off by another record, which names
the one that it corrects, and is billed, late or not, as any other.

Whatever can be looked at before the queue is: also which records are there already,
which takes longest. If another import has committed meanwhile, that is looked at again;
so others mostly wait for the writing alone.
"""

from dataclasses import dataclass
from typing import Any

from psycopg import Connection, sql

from pgbill import column, db, dimensions
from pgbill.column import Column
from pgbill.staging import Count, Found, Layout, Staged, Written

_QUERIES = db.Queries("usage")

LAYOUT = Layout(
    columns=(
        Column("key", column.key, is_required=True),
        Column("account", column.key, is_required=True),
        Column("meter", column.key, is_required=True),
        Column("quantity", column.signed, is_required=True),
        Column("occurred_at", column.instant, is_required=True),
        Column("dimensions", dimensions.parse, is_object=True),
        Column("corrects", column.key),
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


def prepare(conn: Connection[Any], staged: Staged) -> int:
    """Check the file, find what is new of it, and make the months that are missing.

    Not in the transaction that writes: a new month locks account for a moment.

    Returns:
        The last import that had committed before; `write` wants to know.

    Raises:
        BadInputError: Something is wrong with the file.
    """
    db.execute(conn, _QUERIES["resolve"])
    conn.execute("ANALYZE pg_temp.resolved_usage")
    staged.refuse(db.fetch_all(conn, _QUERIES["problems"], Found))
    last = db.fetch_one(conn, _QUERIES["last"], _Import)
    assert last is not None
    _find_known(conn, staged)
    db.execute(conn, _QUERIES["create_partitions"])
    return last.import_seq


def write(conn: Connection[Any], staged: Staged, *, last_seq: int) -> Written:
    """Write the records that are new, as one import; others queue until the commit.

    Must be the first in its transaction, as migrations lock `usage_import_state` first.

    Args:
        conn: In a transaction that the caller commits.
        staged: The file.
        last_seq: What `prepare` has returned.

    Raises:
        BadInputError: A key has meanwhile been imported with other data.
    """
    drawn = db.fetch_one(conn, _QUERIES["draw"], _Import)
    assert drawn is not None
    if drawn.import_seq != last_seq + 1:
        db.execute(conn, _QUERIES["forget_known"])
        _find_known(conn, staged)
    new = db.fetch_one(conn, _QUERIES["write"], Count, import_seq=drawn.import_seq)
    assert new is not None
    return Written(new.count, 0, staged.read_count - new.count)


def _find_known(conn: Connection[Any], staged: Staged) -> None:
    db.execute(conn, _QUERIES["find_known"])
    conn.execute("ANALYZE pg_temp.known_usage")
    staged.refuse(db.fetch_all(conn, _QUERIES["conflicts"], Found))
    staged.refuse(db.fetch_all(conn, _QUERIES["dropped"], Found))
    staged.refuse(db.fetch_all(conn, _QUERIES["wrong_corrections"], Found))


def analyze(conn: Connection[Any]) -> None:
    """Renew the statistics of what has grown, after the commit.

    Plans that were made while a partition was new scan it for every account.
    """
    grown = db.fetch_all(conn, _QUERIES["grown_partitions"], _Partition)
    names = [each.name for each in grown] + ["usage_watermark"]
    for name in names:
        conn.execute(sql.SQL("ANALYZE pgbill.{}").format(sql.Identifier(name)))
