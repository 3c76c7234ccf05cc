"""Close a month: no document is dated into it any more.

What was declared and handed over must stay what it was, so a closed month stays
closed: there is no command to open it again, and its row is frozen like an invoice. A
mistake in it is corrected by a document of a month that is open. Closing a month closes
all before it, as the ledger does.

The table of documents is locked for a moment: who is issuing is waited for, and who
comes later finds the month closed.
"""

from dataclasses import dataclass
from datetime import date
from typing import Any

from psycopg import Connection

from pgbill import db
from pgbill.errors import UsageError

_QUERIES = db.Queries("closing")


@dataclass(frozen=True, slots=True)
class Closed:
    """A month that is closed.

    Attributes:
        is_new: False if it had been closed before, so nothing has changed.
        document_count: Documents dated in it, or before.
        unexported_count: Those of them that no export has handed over.
    """

    month_on: date
    is_new: bool
    document_count: int
    unexported_count: int


@dataclass(frozen=True, slots=True)
class _Look:
    last_on: date | None
    today: date | None
    open_run_id: int | None
    document_count: int
    unexported_count: int


def close(
    conn: Connection[Any], month_on: date, *, by: str, dry_run: bool = False
) -> Closed:
    """Close the month that begins on a day; `conn` is in autocommit mode, as the owner.

    Raises:
        UsageError: The month is not over yet, or a run that is open dates into it.
    """
    with conn.transaction(force_rollback=dry_run):
        db.execute(conn, _QUERIES["lock_leases"])
        db.execute(conn, _QUERIES["lock_invoices"])
        look = db.fetch_one(conn, _QUERIES["look"], _Look, month_on=month_on)
        assert look is not None
        is_new = look.last_on is None or look.last_on < month_on
        if is_new:
            _check(look, month_on)
            db.execute(conn, _QUERIES["close"], month_on=month_on, by=by)
    return Closed(month_on, is_new, look.document_count, look.unexported_count)


def _check(look: _Look, month_on: date) -> None:
    if look.today is None or look.today.replace(day=1) <= month_on:
        raise UsageError(f"{month_on:%Y-%m} is not over yet.")
    if look.open_run_id is not None:
        raise UsageError(
            f"run {look.open_run_id} is open and dates its invoices into"
            f" {month_on:%Y-%m} or before.",
            hint="Finish it first, by the same command.",
        )
