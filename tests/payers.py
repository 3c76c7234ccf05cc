"""What accounts owe and have paid, in words that a test compares.

Payments come in by the real import, from a file, since what matches is decided there.
"""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from psycopg import Connection

from pgbill import correction, importing, invoice
from pgbill.correction import Order
from pgbill.importing import Report
from tests.actors import bill_all
from tests.builders import Account
from tests.inputs import Row, write_csv
from tests.shop import FIRST_DAY, Shop, value

_THROUGH = (FIRST_DAY, date(2026, 1, 31), date(2026, 2, 28))


def pay(
    conn: Connection[Any], folder: Path, *payments: Row, allow_unmatched: bool = False
) -> Report:
    """Import payments, each with a key and a day if it has none."""
    rows: Sequence[Row] = [
        {"key": f"k-{number}", "paid_on": "2026-02-10"} | payment
        for number, payment in enumerate(payments, start=1)
    ]
    return importing.payments(
        conn, write_csv(folder / "b.csv", rows), allow_unmatched=allow_unmatched
    )


def bill(conn: Connection[Any], account: Account, count: int) -> None:
    """Issue the first invoices of the account, each over 11.90 without usage."""
    bill_all(conn, account, through_on=_THROUGH[count - 1])


def owing(conn: Connection[Any], shop: Shop, *, key: str = "a-1") -> Account:
    """Add an account that owes the fee of January: 11.90."""
    account = shop.account(conn, key=key)
    bill_all(conn, account)
    return account


def states(conn: Connection[Any]) -> dict[str, tuple[str, str]]:
    """Return the state and the open amount of each invoice, by its number."""
    rows = conn.execute(
        "SELECT number_text, state, open_amount::text"
        " FROM pgbill.invoice_payment_state ORDER BY number_text"
    ).fetchall()
    return {number: (state, amount) for number, state, amount in rows}


def on_account(conn: Connection[Any]) -> str | None:
    """Return what was paid without an invoice to fill, or none."""
    found = value(
        conn,
        "SELECT sum(paid_amount)::text FROM pgbill.receivables_at('infinity')"
        " WHERE kind = 'on_account'",
    )
    return None if found is None else str(found)


def credit(
    conn: Connection[Any],
    number: str,
    amount: str | None = None,
    *,
    seller: str | None = None,
) -> None:
    """Credit a part of an invoice, with tax, or all that is left; dated today."""
    correction.credit(
        conn,
        invoice.header(conn, number, seller=seller),
        Order("too much", "ada"),
        amount=None if amount is None else Decimal(amount),
    )
