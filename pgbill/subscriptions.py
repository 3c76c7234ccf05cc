"""Turn a file of subscriptions into subscriptions.

A row is one price of a subscription; rows of the same account and subscription belong
together. What an account has agreed to does not change afterwards, only its end does:
a change is another subscription. Nothing may begin, end or go on in what is closed
already, since no invoice would ever tell of it; so the leases of the accounts are taken
away and locked first, and no worker holds lines that were rated before the change.
"""

from typing import Any

from psycopg import Connection

from pgbill import column, db
from pgbill.column import Column
from pgbill.staging import Count, Found, Layout, Staged, Written

_QUERIES = db.Queries("subscriptions")

LAYOUT = Layout(
    columns=(
        Column("subscription", column.key, is_required=True),
        Column("account", column.key, is_required=True),
        Column("price", column.key, is_required=True),
        Column("quantity", column.decimal),
        Column("starts_on", column.day, is_required=True),
        Column("ends_on", column.day),
        Column("purchase_order", column.text),
        Column("contract_number", column.text),
        Column("cost_centre", column.text),
    ),
    queries=_QUERIES,
    table="staged_subscription",
)


def write(conn: Connection[Any], staged: Staged) -> Written:
    """Write the subscriptions that are new, and move the ends that have moved.

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
    db.execute(conn, _QUERIES["shorten_prices"])
    db.execute(conn, _QUERIES["prolong_prices"])
    changed_count = db.execute(conn, _QUERIES["update"])
    inserted = db.fetch_one(conn, _QUERIES["insert"], Count)
    all_of_them = db.fetch_one(conn, _QUERIES["count"], Count)
    assert inserted is not None
    assert all_of_them is not None
    unchanged_count = all_of_them.count - inserted.count - changed_count
    return Written(inserted.count, changed_count, unchanged_count)


def analyze(conn: Connection[Any]) -> None:
    """Renew the statistics, after the commit: plans made on an empty table scan it."""
    conn.execute("ANALYZE pgbill.subscription, pgbill.subscription_price")
