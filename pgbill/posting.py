"""Read what an export hands over: its head, and its documents with their entries.

An entry says what it is (a receivable, revenue, tax, prepaid credit) and carries the
revenue account of its lines; which accounts the rest goes to, settings say. Amounts are
debits, and credits below zero; those of a document add up to nothing. Documents come
one at a time, in the order of their numbers, however many there are.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from psycopg import Connection
from psycopg.rows import class_row

from pgbill import db

_QUERIES = db.Queries("journal")
_FETCHED_ROWS = 5_000


@dataclass(frozen=True, slots=True)
class Accounts:
    """The accounts of the ledger that no line names."""

    receivable: str
    revenue: str
    """Of lines whose prices and charges name none."""
    tax: str
    prepaid: str

    def of(self, entry: "Entry") -> str:
        """Return the account that an entry goes to."""
        if entry.kind == "revenue":
            return entry.revenue_account or self.revenue
        others = {
            "receivable": self.receivable,
            "tax": self.tax,
            "prepaid": self.prepaid,
        }
        return others[entry.kind]


@dataclass(frozen=True, slots=True)
class Head:
    """An export: who hands over what to whom, with control totals of its revenue."""

    export_id: int
    through_on: date
    exported_at: datetime
    exported_by: str
    seller: str
    legal_name: str
    street: str
    postal_code: str
    city: str
    region: str | None
    country: str
    vat_id: str | None
    tax_number: str | None
    register_entry: str | None
    contact_name: str | None
    contact_email: str | None
    contact_phone: str | None
    home_currency: str
    document_count: int
    first_on: date
    last_on: date
    debit_amount: Decimal
    credit_amount: Decimal


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry, with what its document says."""

    number: str
    document_kind: str
    issued_on: date
    tax_point_on: date
    payable_on: date
    net_amount: Decimal
    gross_amount: Decimal
    exchange_rate: Decimal | None
    """Home currency for one unit; none: not known, or not needed."""
    account: str
    buyer: dict[str, Any]
    credited_number: str | None
    """Of a credit note: the invoice that it corrects, or none."""
    entry_no: int
    kind: str
    amount: Decimal
    currency: str
    revenue_account: str | None
    cost_centre: str | None
    tax_category: str | None
    tax_rate: Decimal | None
    tax_amount: Decimal | None
    service_from: date | None
    service_through: date | None
    """Inclusive."""

    @property
    def tax_code(self) -> str | None:
        """The tax category with its rate, such as S19."""
        if self.tax_category is None or self.tax_rate is None:
            return None
        return tax_code(self.tax_category, self.tax_rate)


@dataclass(frozen=True, slots=True)
class Customer:
    """A buyer, as the newest of its documents in the export has it."""

    account: str
    buyer: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TaxCode:
    """A tax category with its rate."""

    tax_category: str
    tax_rate: Decimal


@dataclass(frozen=True, slots=True)
class _RevenueAccount:
    revenue_account: str | None


def tax_code(category: str, rate: Decimal) -> str:
    """Write a tax category and its rate as one word, such as S19 or S5.5."""
    plain = f"{rate.normalize():f}"
    return f"{category}{plain}"


def head(conn: Connection[Any], export_id: int) -> Head | None:
    """Return an export that has documents, or none."""
    return db.fetch_one(conn, _QUERIES["head"], Head, export_id=export_id)


def documents(conn: Connection[Any], export_id: int) -> Iterator[list[Entry]]:
    """Go through the documents: the entries of each. Needs a transaction."""
    with conn.cursor("journal", row_factory=class_row(Entry)) as cursor:
        cursor.itersize = _FETCHED_ROWS
        cursor.execute(_QUERIES["entries"], {"export_id": export_id})
        for _, entries in itertools.groupby(cursor, key=lambda entry: entry.number):
            yield _without_nothing(list(entries))


def _without_nothing(entries: list[Entry]) -> list[Entry]:
    """Leave out a receivable of zero, where prepaid credit has paid all."""
    if all(each.kind != "prepaid" for each in entries):
        return entries
    return [each for each in entries if each.amount or each.kind != "receivable"]


def customers(conn: Connection[Any], export_id: int) -> list[Customer]:
    """Return the buyers of an export."""
    return db.fetch_all(conn, _QUERIES["customers"], Customer, export_id=export_id)


def tax_codes(conn: Connection[Any], export_id: int) -> list[TaxCode]:
    """Return the tax codes of an export."""
    return db.fetch_all(conn, _QUERIES["tax_codes"], TaxCode, export_id=export_id)


def revenue_accounts(conn: Connection[Any], export_id: int) -> list[str | None]:
    """Return the revenue accounts of an export, none for lines that name none."""
    found = db.fetch_all(
        conn, _QUERIES["revenue_accounts"], _RevenueAccount, export_id=export_id
    )
    return [each.revenue_account for each in found]
