"""Turn a file of subscriptions into subscriptions.

A row is one price of a subscription, in one quantity, over a range of days; rows of the
same account and subscription belong together. What an account has agreed to does not
change afterwards, only ends do: more seats are an end, and another row from that day
on. Nothing may begin, end or go on in what is closed already, since no invoice would
ever tell of it; so the leases of the accounts are taken away and locked first, and no
worker holds lines that were rated before the change.
"""

from typing import Any

from psycopg import Connection

from pgbill import column, db
from pgbill.column import Column
from pgbill.staging import Found, Layout, Staged, Written

_QUERIES = db.Queries("subscriptions")

LAYOUT = Layout(
    columns=(
        Column("subscription", column.key, is_required=True),
        Column("account", column.key, is_required=True),
        Column("price", column.key, is_required=True),
        Column("quantity", column.decimal),
        Column("starts_on", column.day, is_required=True),
        Column("ends_on", column.day),
        Column("price_starts_on", column.day),
        Column("price_ends_on", column.day),
        Column("purchase_order", column.text),
        Column("contract_number", column.text),
        Column("cost_centre", column.text),
    ),
    queries=_QUERIES,
    table="staged_subscription",
)


def write(conn: Connection[Any], staged: Staged) -> Written:
    """Write the subscriptions and prices that are new, and move the ends that moved.

    Must be the first in its transaction, as migrations lock `lease` first. Until the
    commit other imports of subscriptions queue, and nobody claims the accounts touched.

    Returns:
        Counts of subscriptions, not of rows.

    Raises:
        BadInputError: Something is wrong with the file.
        LeaseHeldError: One of the accounts is being invoiced at this moment.
    """
    db.execute(conn, _QUERIES["lock_leases"])
    db.execute(conn, _QUERIES["lock_subscriptions"])
    db.execute(conn, _QUERIES["resolve"])
    conn.execute("ANALYZE pg_temp.resolved_subscription")
    staged.refuse(db.fetch_all(conn, _QUERIES["problems"], Found))
    db.execute(conn, _QUERIES["revoke_leases"])
    staged.refuse(db.fetch_all(conn, _QUERIES["conflicts"], Found))
    return _write(conn)


def _write(conn: Connection[Any]) -> Written:
    for step in ("shorten_prices", "prolong_prices", "update", "insert"):
        db.execute(conn, _QUERIES[step])
    written = db.fetch_one(conn, _QUERIES["count"], Written)
    assert written is not None
    return written


def analyze(conn: Connection[Any]) -> None:
    """Renew the statistics, after the commit: plans made on an empty table scan it."""
    conn.execute("ANALYZE pgbill.subscription, pgbill.subscription_price")
