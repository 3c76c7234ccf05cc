"""Turn a file of invoices that another system has issued into references.

A company that changes its system has numbers under which money still comes in. They
are kept with what was open when they were imported, so that payments find them and the
list of what is open is whole. Nothing else is done with them: they are not billed,
mailed, exported, or corrected, and they never change.
"""

from typing import Any

from psycopg import Connection

from pgbill import column, db
from pgbill.column import Column
from pgbill.staging import Count, Found, Layout, Staged, Written

_QUERIES = db.Queries("oldinvoices")

LAYOUT = Layout(
    columns=(
        Column("number", column.key, is_required=True),
        Column("account", column.key, is_required=True),
        Column("issued_on", column.day, is_required=True),
        Column("payable_on", column.day, is_required=True),
        Column("currency", column.text),
        Column("gross_amount", column.signed, is_required=True),
        Column("open_amount", column.signed, is_required=True),
    ),
    queries=_QUERIES,
    table="staged_invoice",
)


def write(conn: Connection[Any], staged: Staged) -> Written:
    """Write the invoices that are new; other imports of them queue until the commit.

    Must be the first in its transaction, as migrations lock `lease` first.

    Raises:
        BadInputError: Something is wrong with the file.
    """
    db.execute(conn, _QUERIES["lock_leases"])
    db.execute(conn, _QUERIES["lock_invoices"])
    db.execute(conn, _QUERIES["complete"])
    conn.execute("ANALYZE pg_temp.complete_invoice")
    staged.refuse(db.fetch_all(conn, _QUERIES["problems"], Found))
    staged.refuse(db.fetch_all(conn, _QUERIES["conflicts"], Found))
    new = db.fetch_one(conn, _QUERIES["insert"], Count)
    assert new is not None
    return Written(new.count, 0, staged.read_count - new.count)


def analyze(conn: Connection[Any]) -> None:
    """Renew the statistics, after the commit: plans made on an empty table scan it."""
    conn.execute("ANALYZE pgbill.imported_invoice")
