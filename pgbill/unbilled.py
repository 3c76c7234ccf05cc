"""Report accruals: what is earned by a day and not invoiced, and the reverse.

A day of service is earned when it is over. Usage of the days up to then is rated with
what is known now; fees in arrears count by the part of their period; of a fee that was
billed in advance, the days to come are deferred. It is rated by the functions that a
run uses, and nothing is written. A document dated after the day counts as not issued,
so the report of a month's end is the same before and after the run that bills it.
"""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from psycopg import Connection

from pgbill import db
from pgbill.errors import UsageError

_QUERIES = db.Queries("unbilled")


@dataclass(frozen=True, slots=True)
class Accrual:
    """What is accrued and deferred of a revenue account, net of tax."""

    seller: str
    revenue_account: str | None
    """None: of lines that name none."""
    currency: str
    accrued_amount: Decimal
    deferred_amount: Decimal


@dataclass(frozen=True, slots=True)
class Problem:
    """An account that could not be rated, and so is not in the report."""

    account: str
    problem: str


@dataclass(frozen=True, slots=True)
class Report:
    """The accruals at the end of a day."""

    as_of: date
    accruals: list[Accrual]
    problems: list[Problem]


@dataclass(frozen=True, slots=True)
class _Day:
    is_to_come: bool


def report(conn: Connection[Any], as_of: date) -> Report:
    """Compute the accruals at the end of a day, from one snapshot.

    Args:
        conn: As the role pgbill_worker, which may rate; in autocommit mode.
        as_of: Days up to this one, inclusive, are earned.

    Raises:
        UsageError: The day is still to come: what is earned by then nobody knows.
    """
    day = db.fetch_one(conn, _QUERIES["is_to_come"], _Day, as_of=as_of)
    if day is not None and day.is_to_come:
        raise UsageError(f"{as_of} is still to come: a report is of days up to today.")
    with conn.transaction():
        conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        accruals = db.fetch_all(conn, _QUERIES["report"], Accrual, as_of=as_of)
        problems = db.fetch_all(conn, _QUERIES["problems"], Problem, as_of=as_of)
    return Report(as_of, accruals, problems)
