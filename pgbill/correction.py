"""Correct issued invoices: credit them, cancel them, or issue them again.

An issued invoice never changes. What is wrong with it is put right by documents that
name it: a credit note takes back a part or all of it, and a reissue, which needs a
cancellation, bills its period anew. Whoever corrects gives a reason, and both are kept.

The database does each as one statement: it claims the account's lease like any worker,
looks at what is left, writes, lets go, and draws the numbers last. So a clerk who stops
at any point holds nothing, two clerks cannot take the same amount back, and a dry run
is the real thing, undone. An account that a worker holds is left alone.
"""

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import psycopg
from psycopg import Connection

from pgbill import db
from pgbill.errors import IssueDateError, LeaseHeldError
from pgbill.invoice import Header

_QUERIES = db.Queries("correction")
_DATE_RETRIES = 20

Told = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Order:
    """Who wants it, and why."""

    reason: str
    issued_by: str
    is_dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Taking:
    """What is to be taken back of a line, as the line shows it: net, or with tax."""

    line_no: int
    amount: Decimal | None = None
    """None: all that is left."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a document that was written."""

    line_no: int
    credited_line_no: int | None
    description: str
    net_amount: Decimal
    tax_included_amount: Decimal | None
    tax_rate: Decimal


@dataclass(frozen=True, slots=True)
class Document:
    """A document that was written, or would be."""

    number: str | None
    """None in a dry run: it is given with the document."""
    kind: str
    issued_on: date
    currency: str
    net_amount: Decimal
    tax_amount: Decimal
    gross_amount: Decimal
    prepaid_amount: Decimal
    """Below zero: what goes back to the prepaid credit."""
    payable_amount: Decimal
    lines: list[Line]


@dataclass(frozen=True, slots=True)
class Correction:
    """What has become of an invoice."""

    number: str
    """Of the invoice that was to be corrected."""
    gross_amount: Decimal
    is_dry_run: bool
    credit_note: Document | None
    """None: all of it had been credited before."""
    invoice: Document | None = None
    """What was issued in its place, or none."""
    left_amount: Decimal | None = None
    """What was left of it before, with tax; none: it was not asked for all of it."""

    @property
    def difference_amount(self) -> Decimal | None:
        """What the buyer owes more than before, with tax: credits had lowered that."""
        if self.invoice is None or self.left_amount is None:
            return None
        return self.invoice.gross_amount - self.left_amount


@dataclass(frozen=True, slots=True)
class _Answer:
    told: str | None


def credit(
    conn: Connection[Any],
    invoice: Header,
    order: Order,
    *,
    takings: Sequence[Taking] | None = None,
    amount: Decimal | None = None,
) -> Correction:
    """Credit some lines, or an amount with tax, or all that is left.

    It commits: `conn` must be in autocommit mode.

    Raises:
        CorrectionError: It cannot be credited so; nothing has changed.
        LeaseHeldError: A worker holds the account.
    """
    return _credit(conn, invoice, order, takings=takings, amount=amount)


def cancel(conn: Connection[Any], invoice: Header, order: Order) -> Correction:
    """Credit all that is left, and say that the invoice does not hold any more.

    Raises:
        CorrectionError: It cannot be cancelled; nothing has changed.
        LeaseHeldError: A worker holds the account.
    """
    return _credit(conn, invoice, order, is_cancellation=True)


def _credit(
    conn: Connection[Any],
    invoice: Header,
    order: Order,
    *,
    takings: Sequence[Taking] | None = None,
    amount: Decimal | None = None,
    is_cancellation: bool = False,
) -> Correction:
    told = write(
        conn,
        "credit",
        invoice,
        order,
        line_nos=[each.line_no for each in takings] if takings else None,
        amounts=[each.amount for each in takings] if takings else None,
        amount=amount,
        is_cancellation=is_cancellation,
    )
    note = document(told) if told else None
    return Correction(
        invoice.number,
        invoice.gross_amount,
        order.is_dry_run,
        note,
        left_amount=left_before(invoice, note) if is_cancellation else None,
    )


def left_before(invoice: Header, note: Document | None) -> Decimal:
    """Return what was left of an invoice of which a note has taken all; none: none."""
    # The zero has the currency's digits.
    return -note.gross_amount if note else 0 * invoice.gross_amount


def write(
    conn: Connection[Any],
    query: str,
    invoice: Header,
    order: Order,
    **values: object,
) -> Told | None:
    """Let the database correct an invoice; a series that moves on is asked again."""
    for retry in range(_DATE_RETRIES + 1):
        try:
            answer = _ask(conn, query, invoice, order, values)
        except IssueDateError:
            if retry == _DATE_RETRIES:
                raise
        else:
            return json.loads(answer.told) if answer and answer.told else None
    raise AssertionError


def _ask(
    conn: Connection[Any],
    query: str,
    invoice: Header,
    order: Order,
    values: dict[str, object],
) -> _Answer | None:
    try:
        return db.fetch_one(
            conn,
            _QUERIES[query],
            _Answer,
            bucket=invoice.bucket,
            account_id=invoice.account_id,
            invoice_id=invoice.invoice_id,
            reason=order.reason,
            issued_by=order.issued_by,
            worker_id=uuid.uuid4(),
            is_dry_run=order.is_dry_run,
            **values,
        )
    except psycopg.errors.LockNotAvailable as error:
        raise LeaseHeldError(
            f"somebody is writing for account {invoice.account} at this moment.",
            hint="Try again in a minute.",
        ) from error


def document(told: Told) -> Document:
    """Read a document as the database tells it."""
    return Document(
        number=told.get("number"),
        kind=told["kind"],
        issued_on=date.fromisoformat(told["issued_on"]),
        currency=told["currency"],
        net_amount=Decimal(told["net_amount"]),
        tax_amount=Decimal(told["tax_amount"]),
        gross_amount=Decimal(told["gross_amount"]),
        prepaid_amount=Decimal(told["prepaid_amount"]),
        payable_amount=Decimal(told["payable_amount"]),
        lines=[_line(each) for each in told["lines"]],
    )


def _line(told: Told) -> Line:
    included = told["tax_included_amount"]
    return Line(
        line_no=told["line_no"],
        credited_line_no=told["credited_line_no"],
        description=told["description"],
        net_amount=Decimal(told["net_amount"]),
        tax_included_amount=None if included is None else Decimal(included),
        tax_rate=Decimal(told["tax_rate"]),
    )
