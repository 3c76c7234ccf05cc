"""Look at alerts, and acknowledge them.

An alert is something that a person must look at: a lease that expired while its holder
was still at work, a late write that was refused, an account that was parked, a message
that may have been taken. It is raised by the database, where it is noticed, and stays
open until somebody says that it was looked at; it is never deleted.

Alerts of one incident (a lease expired, then a late write of its holder was refused)
are listed and acknowledged as one: it went wrong once.
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg
from psycopg import Connection

from pgbill import db
from pgbill.errors import TemporaryError, UsageError

_QUERIES = db.Queries("alert")

KINDS = (
    "lease_expired",
    "write_refused",
    "account_parked",
    "hard_limit",
    "message_uncertain",
)
"""What is raised; docs/alerts.md says what each means."""

_LOOK_EVERY_SECONDS = 2.0
_TOLD_AT_MOST = 100
_READ_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Alert:
    """The alerts of one incident."""

    alert_id: int
    """That of the first."""
    kind: str
    """The kinds, in the order in which they were raised, separated by commas."""
    account: str | None
    """The account's key; none if it is about no account."""
    summary: str
    raised_at: datetime
    acked_at: datetime | None
    acked_by: str | None
    run_id: int | None
    """The run that found it."""


@dataclass(frozen=True, slots=True)
class News:
    """An alert that a run has just found."""

    alert_id: int
    kind: str
    summary: str
    holder: str | None
    """Whose lease has expired; none: it is about something else."""


@dataclass(frozen=True, slots=True)
class _Id:
    alert_id: int


def find(
    conn: Connection[Any], *, with_acked: bool, limit: int, kind: str | None = None
) -> list[Alert]:
    """Return the newest incidents.

    Args:
        conn: As the role pgbill_reader, or any that may read.
        with_acked: Also those that were acknowledged.
        limit: How many at most.
        kind: Only those with an alert of this kind; none: all.

    Raises:
        UsageError: There is no such kind.
    """
    _check_kind(kind)
    return db.fetch_all(
        conn, _QUERIES["list"], Alert, with_acked=with_acked, kind=kind, limit=limit
    )


def acknowledge(conn: Connection[Any], alert_id: int, *, by: str) -> list[int]:
    """Say that a person has looked at an alert, and so at its incident.

    Args:
        conn: As the role pgbill_owner; the caller commits.
        alert_id: Which; any of the incident.
        by: Who, for people. The first one counts.

    Returns:
        All alerts that are acknowledged by it; empty if that was done before.

    Raises:
        UsageError: There is no such alert.
    """
    acked = db.fetch_all(
        conn, _QUERIES["acknowledge"], _Id, alert_id=alert_id, acked_by=by
    )
    if acked:
        return sorted(each.alert_id for each in acked)
    if db.fetch_one(conn, _QUERIES["is_known"], _Id, alert_id=alert_id) is None:
        raise UsageError(f"there is no alert {alert_id}.")
    return []


def acknowledge_all(
    conn: Connection[Any], *, by: str, kind: str | None = None
) -> list[int]:
    """Say that a person has looked at all that are open, perhaps of a kind.

    Returns:
        Which these were.

    Raises:
        UsageError: There is no such kind.
    """
    _check_kind(kind)
    acked = db.fetch_all(conn, _QUERIES["acknowledge_all"], _Id, acked_by=by, kind=kind)
    return sorted(each.alert_id for each in acked)


def _check_kind(kind: str | None) -> None:
    if kind is not None and kind not in KINDS:
        raise UsageError(f"--kind is one of {', '.join(KINDS)}.")


@dataclass(slots=True)
class Watch:
    """Tell the alerts of a run while it runs, each once; a storm is cut short.

    Of a dead worker the first lease that expires is told, and at the end how many
    they were: they go one after the other, each in the same words.

    It looks from a connection that is open for a moment: workers may be forked at any
    other time.
    """

    connect: Callable[[], Connection[Any]]
    run_id: int
    tell: Callable[[str], None]
    _after_id: int = 0
    _told: list[int] = field(default_factory=list[int])
    _told_count: int = 0
    _of_holder: dict[str, int] = field(default_factory=dict[str, int])
    _next_look_at: float = 0

    def begin(self, conn: Connection[Any]) -> None:
        """Remember what is there already."""
        newest = db.fetch_one(conn, _QUERIES["newest"], _Id)
        self._after_id = newest.alert_id if newest else 0
        self._next_look_at = time.monotonic() + _LOOK_EVERY_SECONDS

    def look(self) -> None:
        """Tell what is new, if it is time to look and the database is there."""
        if time.monotonic() < self._next_look_at:
            return
        with (
            contextlib.suppress(TemporaryError, psycopg.OperationalError),
            contextlib.closing(self.connect()) as conn,
        ):
            self.look_with(conn)
        self._next_look_at = time.monotonic() + _LOOK_EVERY_SECONDS

    def look_with(self, conn: Connection[Any]) -> None:
        """Tell what is new."""
        found = db.fetch_all(
            conn,
            _QUERIES["of_run"],
            News,
            after_id=self._after_id,
            told_ids=self._told,
            run_id=self.run_id,
            limit=_READ_AT_ONCE,
        )
        expired: dict[str, list[News]] = {}
        for each in found:
            self._told.append(each.alert_id)
            if each.holder is None:
                self._say(f"alert {each.alert_id}, {each.kind}: {each.summary}")
            else:
                expired.setdefault(each.holder, []).append(each)
        for holder, alerts in expired.items():
            self._tell_of(holder, alerts)

    def finish_with(self, conn: Connection[Any]) -> None:
        """Tell what is new, and of whom more has expired than was told at first."""
        self.look_with(conn)
        for holder, count in self._of_holder.items():
            if count > 1:
                self._say(f"{count} leases of {holder} expired: pgbill alert list")

    def _tell_of(self, holder: str, alerts: list[News]) -> None:
        """Tell of a worker's leases: of the first ones now, of all at the end."""
        if holder not in self._of_holder:
            first = alerts[0]
            self._say(f"alert {first.alert_id}, {first.kind}: {first.summary}")
        self._of_holder[holder] = self._of_holder.get(holder, 0) + len(alerts)

    def _say(self, sentence: str) -> None:
        if self._told_count < _TOLD_AT_MOST:
            self.tell(sentence)
        elif self._told_count == _TOLD_AT_MOST:
            self.tell(
                "there are more alerts, which are not told here: pgbill alert list"
            )
        self._told_count += 1
