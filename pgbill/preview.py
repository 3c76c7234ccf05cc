"""Show the next invoice of an account before it is issued.

It is the run's own rating, asked for one account: what it shows is what a run would
issue if it closed the account's earliest open period at this moment. Nothing is written
and no lease is taken, in a transaction that could not write: a preview never gets in
the way of a run. What only the issuing decides is not foretold: the number, the dates,
and how much of the prepaid credit is used.
"""

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from psycopg import Connection

from pgbill import db, lineview
from pgbill.errors import UsageError
from pgbill.invoice import Tax
from pgbill.lineview import Line, Rated

_QUERIES = db.Queries("preview")


@dataclass(frozen=True, slots=True)
class Account:
    """Whose invoice it is, and until when its period is open."""

    bucket: int
    account_id: int
    key: str
    legal_name: str
    zone: str
    currency: str
    period_ends_at: datetime
    is_open: bool
    """Whether the period is not over yet, by the database's clock."""


@dataclass(frozen=True, slots=True)
class Totals:
    """What a closing would come to now."""

    outcome: str | None
    """None: the tax is not known yet. Else that of the closing, or failed or parked."""
    problem: str | None
    is_taxed: bool
    period_start: date
    period_end: date
    """The boundary: the first day that the period does not have."""
    net_amount: Decimal | None
    """None, as the others, while there is a problem, or no tax."""
    tax_amount: Decimal | None
    gross_amount: Decimal | None
    prepaid_left_amount: Decimal


@dataclass(frozen=True, slots=True)
class Preview:
    """The next invoice of an account, as it would be now."""

    account: Account
    totals: Totals
    remarks: list[str]
    """What a reader must know, in sentences."""
    lines: list[Line]
    taxes: list[Tax]


def look(
    conn: Connection[Any], key: str, *, max_due_periods: int, tax_by_table: bool
) -> Preview:
    """Rate the earliest open period of an account; all from one snapshot.

    Args:
        conn: As the role pgbill_worker, which may rate; in autocommit mode.
        key: The account's key.
        max_due_periods: With more periods due, a run would park the account.
        tax_by_table: If false, only kept answers of the tax service give tax.

    Raises:
        UsageError: There is no such account.
    """
    with conn.transaction():
        conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        account = db.fetch_one(conn, _QUERIES["account"], Account, key=key)
        if account is None:
            raise UsageError(f"there is no account {key}.")
        asked = {
            "bucket": account.bucket,
            "account_id": account.account_id,
            "max_due_periods": max_due_periods,
            "tax_by_table": tax_by_table,
        }
        totals = db.fetch_one(conn, _QUERIES["totals"], Totals, **asked)
        assert totals is not None
        return Preview(
            account,
            totals,
            remarks=_remarks(account, totals),
            lines=lineview.of(db.fetch_all(conn, _QUERIES["lines"], Rated, **asked)),
            taxes=db.fetch_all(conn, _QUERIES["taxes"], Tax, **asked),
        )


def _remarks(account: Account, totals: Totals) -> list[str]:
    remarks: list[str] = []
    if account.is_open:
        ends_at = account.period_ends_at.astimezone(ZoneInfo(account.zone))
        remarks.append(
            f"The period is open until {ends_at:%Y-%m-%d %H:%M} in {account.zone}:"
            " usage and changes until then are still to come."
        )
    if totals.problem is not None:
        would = "park" if totals.outcome == "parked" else "not bill"
        remarks.append(f"A run would {would} this account: {totals.problem}.")
    elif not totals.is_taxed:
        remarks.append(
            "The tax service has not been asked about these lines yet, so there is"
            " no tax."
        )
    sentence = _OUTCOMES.get(totals.outcome or "")
    if sentence is None and totals.gross_amount is not None and totals.gross_amount < 0:
        sentence = "The total is below zero: it would be a credit note."
    return [*remarks, sentence] if sentence else remarks


_OUTCOMES = {
    "nothing_to_bill": "There is nothing to bill: no invoice would be issued.",
    "carried_forward": "No invoice would be issued: the lines would wait for the next.",
}
