"""A small seller, and the oracle that its books are right.

`Shop` is what most tests of the protocol need: a seller in Germany, a tax rate, a flat
fee in advance, a price per unit of a meter, and accounts that pay both. `findings` asks
every audit view, and the functions after it tell what a test would say in words.
"""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, cast

from psycopg import Connection, sql

from tests import builders
from tests.builders import Account, Price

FIRST_DAY = builders.FIRST_DAY
"""Through this day an account of a shop has one period due, the empty first one."""
FEBRUARY = date(2026, 2, 1)
MARCH = date(2026, 3, 1)


@dataclass(frozen=True, slots=True)
class Shop:
    """A seller with prices and a tax rate."""

    seller_id: int
    fee: Price
    unit: Price
    meter_id: int
    currency: str

    @classmethod
    def open(
        cls,
        conn: Connection[Any],
        *,
        currency: str = "EUR",
        **columns: Any,  # noqa: ANN401
    ) -> "Shop":
        """Open another shop; the tax rate is made by the first of a database."""
        if not value(conn, "SELECT EXISTS (SELECT FROM pgbill.tax_rate)"):
            builders.tax_rate(conn)
        seller_id = builders.seller(conn, **columns)
        meter_id = builders.meter(conn)
        return cls(
            seller_id,
            builders.price(conn, seller_id, amount="10", currency=currency),
            builders.price(
                conn, seller_id, amount="0.5", currency=currency, meter_id=meter_id
            ),
            meter_id,
            currency,
        )

    def account(self, conn: Connection[Any], **columns: Any) -> Account:  # noqa: ANN401
        """Add an account that pays the fee and for its usage."""
        columns.setdefault("currency", self.currency)
        account = builders.account(conn, self.seller_id, **columns)
        builders.subscription(
            conn,
            account,
            self.fee,
            self.unit,
            starts_on=columns.get("first_period_on", FIRST_DAY),
        )
        return account

    def use(
        self,
        conn: Connection[Any],
        account: Account,
        *quantities: str,
        **when: Any,  # noqa: ANN401
    ) -> int:
        """Import usage of the account; return the number of the import."""
        return builders.usage(conn, account, self.meter_id, *quantities, **when)


def value(conn: Connection[Any], query: str, *parameters: object) -> Any:  # noqa: ANN401
    """Return the only value of the only row."""
    row = conn.execute(_literal(query), parameters or None).fetchone()
    assert row is not None
    return row[0]


def values(conn: Connection[Any], query: str, *parameters: object) -> list[Any]:
    """Return the first column of each row."""
    return [row[0] for row in conn.execute(_literal(query), parameters or None)]


def run_sql(conn: Connection[Any], text: str, *parameters: object) -> None:
    """Run a statement of a test, which may be put together from strings."""
    conn.execute(_literal(text), parameters or None)


def _literal(text: str) -> sql.SQL:
    return sql.SQL(cast("Any", text))


def findings(conn: Connection[Any]) -> dict[str, int]:
    """Ask every audit view; return those that have rows, and how many."""
    views = values(
        conn,
        "SELECT relname::text FROM pg_catalog.pg_class"
        " WHERE relnamespace = 'pgbill_audit'::regnamespace AND relkind = 'v'"
        " ORDER BY relname",
    )
    assert views
    # One statement, which psycopg prepares when a test asks often.
    counting = " UNION ALL ".join(
        f"SELECT '{view}', count(*) FROM pgbill_audit.{view}"  # noqa: S608
        for view in views
    )
    counts = conn.execute(_literal(counting)).fetchall()
    return {view: count for view, count in counts if count}


@dataclass(frozen=True, slots=True)
class Books:
    """What has been written for an account."""

    periods: list[date]
    """Ends of the closed periods."""
    invoiced: list[date]
    """Ends of the periods that were invoiced, one for each invoice."""
    messages: int
    events: list[str]
    """Kinds of lease events, in order, with the outcome of releases."""


def books(conn: Connection[Any], account: Account) -> Books:
    """Read what has been written for an account."""
    key = account.bucket, account.account_id

    def of_it(what: str, table: str, order: str = "1") -> list[Any]:
        query = (
            f"SELECT {what} FROM pgbill.{table}"  # noqa: S608
            f" WHERE bucket = %s AND account_id = %s ORDER BY {order}"
        )
        return values(conn, query, *key)

    return Books(
        of_it("period_end", "billing_period"),
        of_it("period_end", "invoice"),
        len(of_it("message_id", "outbox_message")),
        of_it("concat_ws(' ', kind, outcome)", "lease_event", "lease_event_id"),
    )


def numbers(conn: Connection[Any], seller_id: int) -> list[int]:
    """Return the numbers of the seller's live invoices, in order."""
    return values(
        conn,
        "SELECT number FROM pgbill.invoice_number INNER JOIN pgbill.number_series"
        " USING (series_id) WHERE seller_id = %s AND kind = 'invoice'"
        " AND mode = 'live' ORDER BY number",
        seller_id,
    )


def lease_row(conn: Connection[Any], account: Account) -> dict[str, Any]:
    """Return the lease of an account, by column."""
    row = value(
        conn,
        "SELECT to_jsonb(lease) FROM pgbill.lease"
        " WHERE bucket = %s AND account_id = %s",
        account.bucket,
        account.account_id,
    )
    return cast("dict[str, Any]", row)


def amount(text: str) -> Decimal:
    """Read an amount as an accountant writes it: 1,234.50."""
    return Decimal(text.replace(",", ""))
