"""List what is still to be paid at the end of a day.

The list is handed over to whoever reminds people: pgbill sends no reminders. Items of a
system before are in it, and so is what an account has paid on account without an
invoice to fill. It is computed from rows that never change, so the list of a day in the
past is what it was, but for payments that came in later with an earlier date.
"""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from psycopg import Connection

from pgbill import db
from pgbill.errors import UsageError

_QUERIES = db.Queries("receivables")


@dataclass(frozen=True, slots=True)
class OpenItem:
    """A document of which something is open, or money without a document."""

    number: str | None
    """None: it was paid on account, as the other nones."""
    account: str
    buyer: str
    seller: str
    kind: str
    issued_on: date | None
    payable_on: date | None
    age_days: int | None
    overdue_days: int
    """0 until the day on which it is payable, and of money on account."""
    currency: str
    payable_amount: Decimal
    credited_amount: Decimal
    paid_amount: Decimal
    open_amount: Decimal
    """Below zero the account is owed it."""
    state: str


@dataclass(frozen=True, slots=True)
class _Day:
    day: date


@dataclass(frozen=True, slots=True)
class _Seller:
    seller_id: int


def find(
    conn: Connection[Any], *, as_of: date | None = None, seller: str | None = None
) -> list[OpenItem]:
    """Return what is open at the end of a day, by default of today (UTC).

    Raises:
        UsageError: There is no such seller.
    """
    if seller is not None:
        known = db.fetch_one(conn, _QUERIES["seller"], _Seller, seller=seller)
        if known is None:
            raise UsageError(f"there is no seller {seller}.")
    if as_of is None:
        today = db.fetch_one(conn, _QUERIES["today"], _Day)
        assert today is not None
        as_of = today.day
    return db.fetch_all(
        conn, _QUERIES["open_items"], OpenItem, as_of=as_of, seller=seller
    )
