"""Look at issued invoices and credit notes.

What was issued never changes, so this only reads. State and delivery are not part of an
invoice: whether it is cancelled follows from its cancellation, whether it was delivered
from the outcomes of the attempts.
"""

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeVar

from psycopg import Connection

from pgbill import db, lineview
from pgbill.errors import UsageError
from pgbill.lineview import Line, Rated

_QUERIES = db.Queries("invoice")

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Listed:
    """A document in a list."""

    number: str | None
    account: str
    buyer: str | None
    kind: str
    mode: str
    state: str
    period_start: date | None
    period_end: date | None
    issued_on: date
    payable_on: date
    net_amount: Decimal
    tax_amount: Decimal
    gross_amount: Decimal
    prepaid_amount: Decimal
    payable_amount: Decimal
    currency: str
    run_id: int | None


@dataclass(frozen=True, slots=True)
class Header:
    """What stands at the top of a document."""

    bucket: int
    account_id: int
    invoice_id: int
    number: str
    seller: str
    seller_name: str
    account: str
    buyer_name: str | None
    kind: str
    mode: str
    state: str
    period_start: date | None
    period_end: date | None
    revision: int
    issued_on: date
    issued_at: datetime
    tax_point_on: date
    payable_on: date
    currency: str
    net_amount: Decimal
    tax_amount: Decimal
    gross_amount: Decimal
    prepaid_amount: Decimal
    payable_amount: Decimal
    run_id: int | None
    fencing_token: int
    cancellation_reason: str | None
    reason: str | None
    """Why a person has issued it; none: a run has."""
    issued_by: str | None


@dataclass(frozen=True, slots=True)
class Tax:
    """The tax of a category and rate."""

    tax_category: str
    tax_rate: Decimal
    taxable_amount: Decimal
    tax_amount: Decimal
    legal_text: str | None


@dataclass(frozen=True, slots=True)
class Delivery:
    """How a message with the document stands."""

    message_id: int
    channel: str
    address: str
    state: str
    attempts: int | None
    last_attempt_at: datetime | None
    reply: str | None


@dataclass(frozen=True, slots=True)
class Related:
    """A document that corrects this one, or that this one corrects."""

    relation: str
    """corrects, credited by, issued again as, or in place of."""
    number: str
    gross_amount: Decimal
    issued_on: date
    reason: str | None
    issued_by: str | None


@dataclass(frozen=True, slots=True)
class Document:
    """An issued document, whole."""

    header: Header
    lines: list[Line]
    taxes: list[Tax]
    deliveries: list[Delivery]
    related: list[Related]


@dataclass(frozen=True, slots=True)
class _Key:
    key: str


def find(
    conn: Connection[Any],
    *,
    account_key: str | None = None,
    run_id: int | None = None,
    limit: int,
) -> list[Listed]:
    """Return the newest documents, of one account or one run if that is asked for.

    Raises:
        UsageError: There is no such account.
    """
    if account_key is not None:
        known = db.fetch_one(conn, _QUERIES["account_exists"], _Key, key=account_key)
        if known is None:
            raise UsageError(f"there is no account {account_key}.")
    return db.fetch_all(
        conn, _QUERIES["list"], Listed, account=account_key, run_id=run_id, limit=limit
    )


def header(conn: Connection[Any], number: str, *, seller: str | None = None) -> Header:
    """Return the head of the document of that number.

    Raises:
        UsageError: There is none, or several sellers have one.
    """
    headers = db.fetch_all(
        conn, _QUERIES["headers"], Header, number=number, seller=seller
    )
    if not headers:
        raise UsageError(f"there is no invoice {number}.")
    if len(headers) > 1:
        sellers = ", ".join(sorted({each.seller for each in headers}))
        raise UsageError(
            f"several sellers have an invoice {number}: {sellers}.",
            hint="Name one with --seller.",
        )
    return headers[0]


def is_cancelled(conn: Connection[Any], head: Header) -> bool:
    """Tell whether a document is cancelled by now."""
    return header(conn, head.number, seller=head.seller).state == "cancelled"


def is_issued_again(conn: Connection[Any], head: Header) -> bool:
    """Tell whether another document stands in its place by now."""
    return any(it.relation == "issued again as" for it in related(conn, head))


def get(conn: Connection[Any], number: str, *, seller: str | None = None) -> Document:
    """Return the document of that number.

    Args:
        conn: As the role pgbill_reader, or any that may read.
        number: As printed.
        seller: The seller's key; needed if several sellers use the number.

    Raises:
        UsageError: There is none, or several sellers have one.
    """
    head = header(conn, number, seller=seller)

    def rows(name: str, row: type[Row]) -> list[Row]:
        return db.fetch_all(
            conn,
            _QUERIES[name],
            row,
            bucket=head.bucket,
            account_id=head.account_id,
            invoice_id=head.invoice_id,
        )

    return Document(
        header=head,
        lines=lineview.of(rows("lines", Rated)),
        taxes=rows("taxes", Tax),
        deliveries=rows("deliveries", Delivery),
        related=related(conn, head),
    )


def related(conn: Connection[Any], head: Header) -> list[Related]:
    """Return what corrects a document, or is corrected by it, in order of issue."""
    return db.fetch_all(
        conn,
        _QUERIES["related"],
        Related,
        bucket=head.bucket,
        account_id=head.account_id,
        invoice_id=head.invoice_id,
    )
