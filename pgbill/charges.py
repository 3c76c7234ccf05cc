"""Turn a file of charges into charges: one-off amounts, or credits, of an account.

A charge never changes, since an invoice may have billed it while nobody looked: the
same key with other data is refused, and a charge that was wrong is taken back by
another one, below zero. A worker that is rating the account meanwhile has not seen it;
the next closing bills it. So no lease is asked for.

Which tax classes there are is the catalog's business, or a tax service's: it is not
known here, and an account with a class that nobody knows fails with a clear word.
"""

from typing import Any

from psycopg import Connection

from pgbill import column, db
from pgbill.column import Column
from pgbill.staging import Count, Found, Layout, Staged, Written

_QUERIES = db.Queries("charges")

_UNIT_CODE = column.matching("[A-Z0-9]{2,3}", "a UN/ECE unit code such as C62")

LAYOUT = Layout(
    columns=(
        Column("key", column.key, is_required=True),
        Column("account", column.key, is_required=True),
        Column("description", column.text, is_required=True),
        Column("unit_amount", column.signed, is_required=True),
        Column("quantity", column.decimal),
        Column("per_quantity", column.decimal),
        Column("unit_code", _UNIT_CODE),
        Column("discount_amount", column.signed),
        Column("tax_class", column.key, is_required=True),
        Column("tax_included", column.boolean),
        Column("service_on", column.day, is_required=True),
        Column("purchase_order", column.text),
        Column("contract_number", column.text),
        Column("cost_centre", column.text),
        Column("revenue_account", column.text),
    ),
    queries=_QUERIES,
    table="staged_charge",
)


def write(conn: Connection[Any], staged: Staged) -> Written:
    """Write the charges that are new; other imports of charges queue until the commit.

    Must be the first in its transaction, as migrations lock `lease` first.

    Raises:
        BadInputError: Something is wrong with the file.
    """
    db.execute(conn, _QUERIES["lock_leases"])
    db.execute(conn, _QUERIES["lock_charges"])
    db.execute(conn, _QUERIES["complete"])
    conn.execute("ANALYZE pg_temp.complete_charge")
    staged.refuse(db.fetch_all(conn, _QUERIES["problems"], Found))
    staged.refuse(db.fetch_all(conn, _QUERIES["conflicts"], Found))
    new = db.fetch_one(conn, _QUERIES["insert"], Count)
    assert new is not None
    return Written(new.count, 0, staged.read_count - new.count)


def unknown_tax_classes(conn: Connection[Any]) -> list[Found]:
    """Return tax classes of the file that nothing knows, up to 20, while it is loaded.

    None if there are no tax rates at all: they may come after the charges.
    """
    return db.fetch_all(conn, _QUERIES["unknown_tax_classes"], Found)


def analyze(conn: Connection[Any]) -> None:
    """Renew the statistics, after the commit: plans made on an empty table scan it."""
    conn.execute("ANALYZE pgbill.charge")
