"""Read an invoice as it was issued.

All of it comes from the invoice, its lines, taxes and number, and from the copies of
buyer and seller that were made at issue. What either of them is today does not matter.
What a line was rated from comes as the text of its JSON: parsed by the driver, its
decimals would become floats.

Credit notes are kept with amounts below zero, so that sums over documents are right,
and printed with amounts above: their title says which way the money goes.
"""

from dataclasses import dataclass, fields, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeVar

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
    prepaid_amount: Decimal
    payable_amount: Decimal
    home_tax_amount: Decimal | None
    home_currency: str
    home_currency_digits: int
    seller: dict[str, Any]
    buyer: dict[str, Any]
    discount_percent: Decimal | None
    discount_until_on: date | None
    corrects: list[str]
    """The numbers of the invoices that a credit note corrects."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of an invoice; its days are both included."""

    description: str
    kind: str
    quantity: Decimal
    unit_code: str
    unit_amount: Decimal | None
    """None if the quantity is not priced by one amount; see `rating_input`."""
    net_amount: Decimal
    discount_amount: Decimal
    discount_texts: list[str]
    discount_amounts: list[Decimal]
    tax_included_amount: Decimal | None
    tax_category: str
    tax_rate: Decimal
    service_from_on: date
    service_through_on: date
    purchase_order: str | None
    contract_number: str | None
    cost_centre: str | None
    credited_number: str | None
    """The number of the invoice whose advance fee is given back, or none."""
    rating_input: str


@dataclass(frozen=True, slots=True)
class Tax:
    """The tax of an invoice for one category and rate."""

    tax_category: str
    tax_rate: Decimal
    taxable_amount: Decimal
    tax_amount: Decimal
    legal_text: str | None


Row = TypeVar("Row", Invoice, Line, Tax)


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


def printed(document: Document) -> Document:
    """Return a document with the signs that it is printed with."""
    if document.invoice.kind != "credit_note":
        return document
    return Document(
        _turned(document.invoice),
        lines=[_printed_line(each) for each in document.lines],
        taxes=[_turned(each) for each in document.taxes],
    )


def _printed_line(line: Line) -> Line:
    """Turn the amounts of a line; its quantity is printed above zero."""
    return replace(
        _turned(line),
        quantity=line.quantity.copy_abs(),
        discount_amounts=[each.copy_negate() for each in line.discount_amounts],
    )


def _turned(row: Row) -> Row:
    """Turn the sign of all amounts but prices: they are for a unit, whichever way."""
    amounts = {
        each.name: value.copy_negate()
        for each in fields(row)
        if each.name.endswith("_amount") and each.name != "unit_amount"
        if (value := getattr(row, each.name)) is not None
    }
    return replace(row, **amounts)
