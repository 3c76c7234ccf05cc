"""See how everything stands: runs, leases, outbox, alerts.

All of it is read, nothing is kept: a running count would serialise all commits. It is
read without locks and in several statements, so that counts may disagree by what
happened between two of them.
"""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from psycopg import Connection

from pgbill import alert, db
from pgbill.alert import Alert

_QUERIES = db.Queries("status")
_ENDED_RUNS = 3
_LISTED_MESSAGES = 20
_LISTED_ALERTS = 5
_LISTED_WORKERS = 200
_LISTED_SLOW = 10
_SLOW_SECONDS = 10

STATES = ("held", "pending", "claimed", "deferred", "uncertain", "accepted", "failed")
"""The states of messages, in the order of their life."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run that is open, or one of the last that have ended."""

    run_id: int
    through_on: date | None
    issue_on: date | None
    mode: str
    account_key: str | None
    started_at: datetime
    started_by: str
    sealed_at: datetime | None
    ending: str | None
    invoiced_count: int
    nothing_to_bill_count: int


@dataclass(frozen=True, slots=True)
class Leases:
    """How many accounts there are, and who works on them."""

    account_count: int
    due_count: int
    """Due by now, and nobody holds them."""
    held_count: int
    expired_count: int
    """Their holder did not renew them in time: it is dead, or it hangs."""
    parked_count: int
    """No run takes them before a person has looked: `pgbill runs retry`."""
    draft_count: int
    """No run takes them either: a draft waits for a review, `pgbill draft list`."""
    next_due_at: datetime | None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an open run is."""

    run_id: int
    closed_count: int
    """Periods that it has closed."""
    due_count: int
    """Accounts that it has before it, some with several periods."""
    failed_count: int
    per_second: float
    """Periods closed, over the last minute."""
    held_count: int
    """Leases on them, of workers that are at work or dead."""
    seconds_left: float | None
    """At this rate; none: nothing moves."""

    @property
    def percent(self) -> float:
        """How much of it is done."""
        whole = self.closed_count + self.due_count
        return 100.0 if whole == 0 else 100 * self.closed_count / whole


@dataclass(frozen=True, slots=True)
class Worker:
    """A process that holds leases; times in seconds."""

    holder: str
    held_count: int
    expired_count: int
    longest_seconds: float
    """Since it claimed the oldest of them."""
    renewed_seconds: float
    """Since it renewed, or claimed, one."""


@dataclass(frozen=True, slots=True)
class Slow:
    """An account that somebody has worked on for long."""

    account_key: str
    holder: str
    due_on: date
    attempts: int
    seconds: float
    is_expired: bool


@dataclass(frozen=True, slots=True)
class Uncertain:
    """A message of which it is not known whether it was taken."""

    message_id: int
    account: str
    sent_to: str
    attempt_no: int
    holder: str
    begun_at: datetime


@dataclass(frozen=True, slots=True)
class Alerts:
    """Alerts of a kind that nobody has acknowledged."""

    kind: str
    alert_count: int
    oldest_at: datetime


@dataclass(frozen=True, slots=True)
class Status:
    """How everything stands."""

    runs: list[Run]
    progress: list[Progress]
    """Of the open runs."""
    leases: Leases
    workers: list[Worker]
    slow: list[Slow]
    outbox: dict[str, int]
    """Messages by state, in the order of `STATES`."""
    uncertain: list[Uncertain]
    """The oldest ones."""
    alerts: list[Alerts]
    incident_count: int
    """Alerts about one mishap are one here."""
    newest_alerts: list[Alert]
    alerts_in_unknown_mails: int
    """Open ones; it is not known whether the mails that they are in have arrived."""


@dataclass(frozen=True, slots=True)
class _Open:
    incident_count: int
    unknown_count: int


@dataclass(frozen=True, slots=True)
class _Messages:
    state: str
    message_count: int


def read(conn: Connection[Any]) -> Status:
    """Look at everything, as the role pgbill_reader or any that may read."""
    leases = db.fetch_one(conn, _QUERIES["leases"], Leases)
    alerts = db.fetch_one(conn, _QUERIES["alerts"], _Open)
    assert leases is not None
    assert alerts is not None
    counts = {
        each.state: each.message_count
        for each in db.fetch_all(conn, _QUERIES["outbox"], _Messages)
    }
    return Status(
        runs=db.fetch_all(conn, _QUERIES["runs"], Run, ended_count=_ENDED_RUNS),
        progress=db.fetch_all(conn, _QUERIES["progress"], Progress),
        leases=leases,
        workers=db.fetch_all(conn, _QUERIES["workers"], Worker, limit=_LISTED_WORKERS),
        slow=db.fetch_all(
            conn,
            _QUERIES["slow"],
            Slow,
            slow_seconds=_SLOW_SECONDS,
            limit=_LISTED_SLOW,
        ),
        outbox={state: counts.get(state, 0) for state in STATES},
        uncertain=db.fetch_all(
            conn, _QUERIES["uncertain"], Uncertain, limit=_LISTED_MESSAGES
        ),
        alerts=db.fetch_all(conn, _QUERIES["open_alerts"], Alerts),
        incident_count=alerts.incident_count,
        newest_alerts=alert.find(conn, with_acked=False, limit=_LISTED_ALERTS),
        alerts_in_unknown_mails=alerts.unknown_count,
    )
