"""Drop months of usage that are no longer needed, each only if all of it is done with.

A month goes when every record of it has been billed or rejected; what waits, is carried
forward or belongs to a cancelled invoice keeps its whole month. What went is told for
each import, so that the audits still add up, and no import may bring records of the
month again: they would be billed a second time.

A month is dropped as one transaction, which takes part in the watermark protocol as an
import would: it draws a number, so that an import that was checked before looks again.
Dropping locks out whoever reads usage, for a moment; others queue behind one who waits
for such a lock, so it waits for a short while only and tries again.
"""

import contextlib
import time
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from psycopg import Connection, errors, sql

from pgbill import db
from pgbill.errors import TemporaryError, UsageError

_QUERIES = db.Queries("retention")

_LOCK_TIMEOUT = "2s"
_PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Month:
    """A month (UTC) of usage, and what became of it.

    Attributes:
        month_on: Its first day.
        record_count: All of its records.
        unfinished_count: Those that are not done with; if there are any, it stays.
        reason: Why the first of these is not, in words; none if there is none.
    """

    month_on: date
    record_count: int
    unfinished_count: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class _Found:
    record_count: int
    unfinished_count: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class _Partition:
    name: str
    month_on: date
    from_at: datetime
    until_at: datetime


@dataclass(frozen=True, slots=True)
class _This:
    month_on: date


def drop(
    conn: Connection[Any],
    before: date,
    *,
    is_dry_run: bool = False,
    patience_seconds: float = 60,
) -> list[Month]:
    """Drop what can be dropped of the months before one; `conn` is in autocommit mode.

    Each month is a transaction of its own; one that stays keeps none of the others.

    Returns:
        The months that were there, oldest first; those with a reason are there still.

    Raises:
        UsageError: `before` has not begun, so months would go that are still written.
        TemporaryError: Usage was being read all the time.
    """
    this = db.fetch_one(conn, _QUERIES["this_month"], _This)
    assert this is not None
    if before > this.month_on:
        raise UsageError(f"{before:%Y-%m} has not begun.")
    months = db.fetch_all(conn, _QUERIES["partitions"], _Partition, before_on=before)
    if is_dry_run:
        return [_look(conn, month) for month in months]
    return [_drop_patiently(conn, month, patience_seconds) for month in months]


def _look(conn: Connection[Any], month: _Partition) -> Month:
    with conn.transaction():
        # As the audits do: the view is asked for a whole month, not for an account.
        conn.execute("SET LOCAL enable_nestloop = off")
        found = db.fetch_one(conn, _QUERIES["look"], _Found, **_bounds(month))
    assert found is not None
    return Month(
        month.month_on, found.record_count, found.unfinished_count, found.reason
    )


def _bounds(month: _Partition) -> dict[str, datetime]:
    return {"from_at": month.from_at, "until_at": month.until_at}


def _drop_patiently(
    conn: Connection[Any], month: _Partition, patience_seconds: float
) -> Month:
    until = time.monotonic() + patience_seconds
    while True:
        with contextlib.suppress(errors.LockNotAvailable, errors.DeadlockDetected):
            return _drop(conn, month)
        if time.monotonic() >= until:
            raise TemporaryError(
                f"usage was being read for {patience_seconds:g} s, so"
                f" {month.month_on:%Y-%m} was not dropped.",
                hint="Try again when no audit is running.",
            )
        time.sleep(_PAUSE_SECONDS)


def _drop(conn: Connection[Any], month: _Partition) -> Month:
    """Drop a month if all of it is done with; a transaction."""
    with conn.transaction():
        # First, as imports and migrations do: until the commit no record comes in.
        db.execute(conn, _QUERIES["draw"])
        found = _look(conn, month)
        if not found.unfinished_count:
            db.execute(
                conn, _QUERIES["tell"], month_on=month.month_on, **_bounds(month)
            )
            conn.execute("SELECT set_config('lock_timeout', %s, true)", [_LOCK_TIMEOUT])
            conn.execute(
                sql.SQL("DROP TABLE IF EXISTS pgbill.{}").format(
                    sql.Identifier(month.name)
                )
            )
        return found
