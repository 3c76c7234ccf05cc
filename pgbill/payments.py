"""Turn a file of payments into payments.

A payment names its invoice by number, or comes with the text that a bank passes on, in
which the number stands somewhere, or with the key of its account. It is matched once,
when it is imported; what was matched never changes, and a refund is a payment below
zero. What matches nothing is refused with the whole file, unless the caller lets it in:
then it is kept beside, until the same key comes again with what it is for.

What is paid and what is open is nobody's column: `pgbill.invoice_payment_state`.
"""

from dataclasses import dataclass
from typing import Any

from psycopg import Connection

from pgbill import column, db
from pgbill.column import Column
from pgbill.staging import Count, Found, Layout, Staged, Written

_QUERIES = db.Queries("payments")

LAYOUT = Layout(
    columns=(
        Column("key", column.key, is_required=True),
        Column("invoice", column.key),
        Column("reference", column.text),
        Column("seller", column.key),
        Column("amount", column.signed, is_required=True),
        Column("currency", column.text),
        Column("paid_on", column.day, is_required=True),
        Column("payer", column.text),
    ),
    queries=_QUERIES,
    table="staged_payment",
)


@dataclass(frozen=True, slots=True)
class Matched:
    """What was written, and what matched nothing.

    Attributes:
        unmatched: The first twenty of them, with the reason.
        unmatched_count: Rows of the file that matched nothing.
    """

    written: Written
    unmatched: list[Found]
    unmatched_count: int


def write(conn: Connection[Any], staged: Staged, *, allow_unmatched: bool) -> Matched:
    """Write the payments that are new; other imports of them queue until the commit.

    Must be the first in its transaction, as migrations lock `lease` first.

    Raises:
        BadInputError: Something is wrong with the file, or matches nothing and must.
    """
    db.execute(conn, _QUERIES["lock_leases"])
    db.execute(conn, _QUERIES["lock_payments"])
    db.execute(conn, _QUERIES["complete"])
    conn.execute("ANALYZE pg_temp.complete_payment")
    unmatched = db.fetch_all(conn, _QUERIES["unmatched"], Found)
    wrong = db.fetch_all(conn, _QUERIES["problems"], Found)
    if not allow_unmatched:
        staged.note(unmatched)
    staged.refuse(wrong)
    staged.refuse(db.fetch_all(conn, _QUERIES["conflicts"], Found))
    new = db.fetch_one(conn, _QUERIES["insert"], Count)
    kept = db.fetch_one(conn, _QUERIES["keep_unmatched"], Count)
    assert new is not None
    assert kept is not None
    count = unmatched[0].problem_count if unmatched else 0
    unchanged = staged.read_count - new.count - count
    return Matched(Written(new.count, 0, unchanged), unmatched, count)


def analyze(conn: Connection[Any]) -> None:
    """Renew the statistics, after the commit: plans made on an empty table scan it."""
    conn.execute("ANALYZE pgbill.payment")
