"""Know until when the books are closed, before anything is dated.

A trigger refuses every document that is dated into a closed month; here a command asks
first, so that it can say so in one sentence and has done nothing yet.
"""

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from psycopg import Connection

from pgbill import db
from pgbill.errors import UsageError

_QUERIES = db.Queries("closedmonth")


@dataclass(frozen=True, slots=True)
class _Until:
    closed_until: date | None


def closed_until(conn: Connection[Any]) -> date | None:
    """Return the first day on which a document may be dated; none: on any."""
    found = db.fetch_one(conn, _QUERIES["closed_until"], _Until)
    return found and found.closed_until


def refuse(conn: Connection[Any], issue_on: date, *, option: str) -> None:
    """Refuse a date that lies in a closed month, or before one.

    Raises:
        UsageError: It does.
    """
    until = closed_until(conn)
    if until is not None and issue_on < until:
        raise UsageError(
            f"{option} {issue_on} lies in a closed month: the books are closed until"
            f" {until - timedelta(days=1)}.",
            hint=f"Take {until} or a later day.",
        )
