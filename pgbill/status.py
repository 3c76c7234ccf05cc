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
    next_due_at: datetime | None


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
    leases: Leases
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
        leases=leases,
        outbox={state: counts.get(state, 0) for state in STATES},
        uncertain=db.fetch_all(
            conn, _QUERIES["uncertain"], Uncertain, limit=_LISTED_MESSAGES
        ),
        alerts=db.fetch_all(conn, _QUERIES["open_alerts"], Alerts),
        incident_count=alerts.incident_count,
        newest_alerts=alert.find(conn, with_acked=False, limit=_LISTED_ALERTS),
        alerts_in_unknown_mails=alerts.unknown_count,
    )
