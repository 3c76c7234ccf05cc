"""Turn a file of discounts into discounts.

What was granted stays: only the end of a discount moves, and not into what is closed,
since no invoice would ever tell of it. A discount changes lines that a worker may have
rated already; so the leases of the accounts are taken away and locked first, as for
subscriptions, and nobody issues what was rated before the change.
"""

from typing import Any

from psycopg import Connection

from pgbill import column, db
from pgbill.column import Column
from pgbill.staging import Count, Found, Layout, Staged, Written

_QUERIES = db.Queries("discounts")

LAYOUT = Layout(
    columns=(
        Column("key", column.key, is_required=True),
        Column("account", column.key, is_required=True),
        Column("description", column.text, is_required=True),
        Column("percent", column.decimal),
        Column("amount", column.decimal),
        Column("subscription", column.key),
        Column("price", column.key),
        Column("rank", column.whole(0, 1_000)),
        Column("starts_on", column.day, is_required=True),
        Column("ends_on", column.day),
        Column("periods", column.whole(1, 1_200)),
    ),
    queries=_QUERIES,
    table="staged_discount",
)


def write(conn: Connection[Any], staged: Staged) -> Written:
    """Write the discounts that are new, and move the ends that have moved.

    Must be the first in its transaction, as migrations lock `lease` first. Until the
    commit other imports of discounts queue, and nobody claims the accounts touched.

    Raises:
        BadInputError: Something is wrong with the file.
        LeaseHeldError: One of the accounts is being invoiced at this moment.
    """
    db.execute(conn, _QUERIES["lock_leases"])
    db.execute(conn, _QUERIES["lock_discounts"])
    db.execute(conn, _QUERIES["complete"])
    conn.execute("ANALYZE pg_temp.complete_discount")
    staged.refuse(db.fetch_all(conn, _QUERIES["problems"], Found))
    db.execute(conn, _QUERIES["revoke_leases"])
    staged.refuse(db.fetch_all(conn, _QUERIES["conflicts"], Found))
    changed_count = db.execute(conn, _QUERIES["update"])
    new = db.fetch_one(conn, _QUERIES["insert"], Count)
    assert new is not None
    unchanged_count = staged.read_count - new.count - changed_count
    return Written(new.count, changed_count, unchanged_count)


def analyze(conn: Connection[Any]) -> None:
    """Renew the statistics, after the commit: plans made on an empty table scan it."""
    conn.execute("ANALYZE pgbill.discount")
