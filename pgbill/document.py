"""Read an invoice as it was issued.

All of it comes from the invoice, its lines, taxes and number, and from the copies of
buyer and seller that were made at issue. What either of them is today does not matter.
"""

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from psycopg import Connection

from pgbill import db

_QUERIES = db.Queries("document")


@dataclass(frozen=True, slots=True)
class Invoice:
    """The head of an invoice or credit note."""

    kind: str
    mode: str
    language: str
    currency: str
    currency_digits: int
    number_text: str
    issued_at: datetime
    issued_on: date
    tax_point_on: date
    payable_on: date
    net_amount: Decimal
    tax_amount: Decimal
    gross_amount: Decimal
    home_tax_amount: Decimal | None
    home_currency: str
    home_currency_digits: int
    seller: dict[str, Any]
    buyer: dict[str, Any]
    discount_percent: Decimal | None
    discount_until_on: date | None


@dataclass(frozen=True, slots=True)
class Line:
    """A line of an invoice; its days are both included.

    Prorated, it is for `part_days` of `whole_days`; otherwise both are none.
    """

    description: str
    kind: str
    quantity: Decimal
    unit_code: str
    unit_amount: Decimal
    part_days: int | None
    whole_days: int | None
    net_amount: Decimal
    service_from_on: date
    service_through_on: date
    purchase_order: str | None
    contract_number: str | None
    cost_centre: str | None


@dataclass(frozen=True, slots=True)
class Tax:
    """The tax of an invoice for one category and rate."""

    tax_category: str
    tax_rate: Decimal
    taxable_amount: Decimal
    tax_amount: Decimal
    legal_text: str | None


@dataclass(frozen=True, slots=True)
class Document:
    """An invoice with all that belongs to it."""

    invoice: Invoice
    lines: list[Line]
    taxes: list[Tax]


def load(
    conn: Connection[Any], *, bucket: int, account_id: int, invoice_id: int
) -> Document | None:
    """Return a document; none if there is none with a number."""
    key = {"bucket": bucket, "account_id": account_id, "invoice_id": invoice_id}
    invoice = db.fetch_one(conn, _QUERIES["invoice"], Invoice, **key)
    if invoice is None:
        return None
    return Document(
        invoice,
        lines=db.fetch_all(conn, _QUERIES["lines"], Line, **key),
        taxes=db.fetch_all(conn, _QUERIES["taxes"], Tax, **key),
    )
