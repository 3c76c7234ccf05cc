"""Turn a file of prepaid credits into prepaid credits.

What an account has paid in advance is applied by its next invoices, oldest first, and
spent once. So a credit never changes after it was imported: the same key with other
data is refused. No lease is asked for: an invoice that is being issued meanwhile
applies what it finds, and the next one the rest.
"""

from typing import Any

from psycopg import Connection

from pgbill import column, db
from pgbill.column import Column
from pgbill.staging import Count, Found, Layout, Staged, Written

_QUERIES = db.Queries("prepaid")

LAYOUT = Layout(
    columns=(
        Column("key", column.key, is_required=True),
        Column("account", column.key, is_required=True),
        Column("description", column.text, is_required=True),
        Column("amount", column.decimal, is_required=True),
        Column("available_on", column.day, is_required=True),
    ),
    queries=_QUERIES,
    table="staged_prepaid",
)


def write(conn: Connection[Any], staged: Staged) -> Written:
    """Write the credits that are new; other imports of credits queue until the commit.

    Must be the first in its transaction, as migrations lock `lease` first.

    Raises:
        BadInputError: Something is wrong with the file.
    """
    db.execute(conn, _QUERIES["lock_leases"])
    db.execute(conn, _QUERIES["lock_credits"])
    db.execute(conn, _QUERIES["complete"])
    conn.execute("ANALYZE pg_temp.complete_prepaid")
    staged.refuse(db.fetch_all(conn, _QUERIES["problems"], Found))
    staged.refuse(db.fetch_all(conn, _QUERIES["conflicts"], Found))
    new = db.fetch_one(conn, _QUERIES["insert"], Count)
    assert new is not None
    return Written(new.count, 0, staged.read_count - new.count)


def analyze(conn: Connection[Any]) -> None:
    """Renew the statistics, after the commit: plans made on an empty table scan it."""
    conn.execute("ANALYZE pgbill.prepaid_credit")
