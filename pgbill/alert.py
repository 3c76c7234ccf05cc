"""Look at alerts, and acknowledge them.

An alert is something that a person must look at: a lease that expired while its holder
was still at work, an account that was parked, a message that may have been taken. It is
raised by the database, where it is noticed, and stays open until somebody says that it
was looked at; it is never deleted.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import Connection

from pgbill import db
from pgbill.errors import UsageError

_QUERIES = db.Queries("alert")


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert; `account` is the account's key, none if it is about no account."""

    alert_id: int
    kind: str
    account: str | None
    summary: str
    raised_at: datetime
    acked_at: datetime | None
    acked_by: str | None


@dataclass(frozen=True, slots=True)
class _Id:
    alert_id: int


def find(conn: Connection[Any], *, with_acked: bool, limit: int) -> list[Alert]:
    """Return the newest alerts, those that were acknowledged only if asked for."""
    return db.fetch_all(
        conn, _QUERIES["list"], Alert, with_acked=with_acked, limit=limit
    )


def acknowledge(conn: Connection[Any], alert_id: int, *, by: str) -> bool:
    """Say that a person has looked at an alert. The first one counts.

    Args:
        conn: As the role pgbill_owner; the caller commits.
        alert_id: Which.
        by: Who, for people.

    Returns:
        False if it was acknowledged before.

    Raises:
        UsageError: There is no such alert.
    """
    if db.execute(conn, _QUERIES["acknowledge"], alert_id=alert_id, acked_by=by):
        return True
    if db.fetch_one(conn, _QUERIES["is_known"], _Id, alert_id=alert_id) is None:
        raise UsageError(f"there is no alert {alert_id}.")
    return False


def acknowledge_all(conn: Connection[Any], *, by: str) -> list[int]:
    """Say that a person has looked at all that are open; return which these were."""
    acked = db.fetch_all(conn, _QUERIES["acknowledge_all"], _Id, acked_by=by)
    return sorted(each.alert_id for each in acked)
