"""Read all that is known of one account.

Everything that happens to an account leaves a row with a time: its claims and how they
ended (`lease_event`, written by trigger), its closings, invoices, messages, attempts,
outcomes and alerts. All of them have the account first in their key, so reading them
takes a moment, however many other accounts there are.
"""

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeVar

from psycopg import Connection

from pgbill import db

_QUERIES = db.Queries("history")

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Account:
    """An account with its lease, as they are now."""

    bucket: int
    account_id: int
    key: str
    legal_name: str
    zone: str
    first_period_on: date
    due_on: date
    fencing_token: int
    holder: str | None
    claimed_at: datetime | None
    expires_at: datetime | None
    attempts: int
    parked_at: datetime | None
    draft_at: datetime | None
    retry_at: datetime | None
    detail: str | None
    asked_at: datetime


@dataclass(frozen=True, slots=True)
class Event:
    """A row of lease_event."""

    occurred_at: datetime
    kind: str
    fencing_token: int
    holder: str | None
    run_id: int | None
    due_on: date
    outcome: str | None
    detail: str | None
    acted_by: str | None


@dataclass(frozen=True, slots=True)
class Closing:
    """A closed billing period."""

    period_start: date
    period_end: date
    zone: str
    """That of the account when it was closed."""
    zone_before: str | None
    """That of the closing before; none: there is none."""
    outcome: str
    usage_seq: int
    closed_at: datetime
    fencing_token: int


@dataclass(frozen=True, slots=True)
class Invoice:
    """An issued document."""

    invoice_id: int
    kind: str
    mode: str
    number_text: str | None
    period_end: date | None
    revision: int
    issued_on: date
    issued_at: datetime | None
    payable_on: date
    currency: str
    gross_amount: Decimal
    fencing_token: int
    credited_invoice_id: int | None
    reason: str | None
    issued_by: str | None
    line_count: int


@dataclass(frozen=True, slots=True)
class Cancellation:
    """The cancellation of an invoice."""

    period_end: date
    revision: int
    credit_note_id: int
    reason: str
    cancelled_by: str
    cancelled_at: datetime


@dataclass(frozen=True, slots=True)
class Message:
    """An outbox message."""

    message_id: int
    invoice_id: int
    channel: str
    address: str
    created_at: datetime
    expires_at: datetime | None
    retry_of: int | None
    retry_reason: str | None
    retried_by: str | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """A delivery attempt, with its outcome if there is one."""

    message_id: int
    attempt_no: int
    holder: str
    sent_to: str
    begun_at: datetime
    outcome: str | None
    reply_code: int | None
    reply_text: str | None
    recorded_by: str | None
    recorded_at: datetime | None


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert about the account."""

    alert_id: int
    kind: str
    summary: str
    raised_at: datetime
    acked_at: datetime | None
    acked_by: str | None


@dataclass(frozen=True, slots=True)
class History:
    """The rows of an account, each kind in its own order."""

    account: Account
    events: list[Event]
    closings: list[Closing]
    invoices: list[Invoice]
    cancellations: list[Cancellation]
    messages: list[Message]
    attempts: list[Attempt]
    alerts: list[Alert]


def read(conn: Connection[Any], key: str) -> History | None:
    """Return the history of the account of that key, or none if there is no such."""
    account = db.fetch_one(conn, _QUERIES["account"], Account, key=key)
    if account is None:
        return None

    def rows(name: str, row: type[Row]) -> list[Row]:
        return db.fetch_all(
            conn,
            _QUERIES[name],
            row,
            bucket=account.bucket,
            account_id=account.account_id,
        )

    return History(
        account=account,
        events=rows("events", Event),
        closings=rows("closings", Closing),
        invoices=rows("invoices", Invoice),
        cancellations=rows("cancellations", Cancellation),
        messages=rows("messages", Message),
        attempts=rows("attempts", Attempt),
        alerts=rows("alerts", Alert),
    )
