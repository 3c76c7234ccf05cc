"""What is asked of a run, and how it is checked before anything is done.

A run, and a dry run, is asked for by a `Request`; the settings say the rest. What
cannot be meant is refused here: an account that is unknown, an issue date that would
move the dates of a series for good, go back in them, or lie in a closed month.
"""

import json
from dataclasses import dataclass
from datetime import date
from typing import Any

from psycopg import Connection

from pgbill import closedmonth, db
from pgbill.config import Settings
from pgbill.errors import UsageError
from pgbill.issuing import Policy
from pgbill.lease import Account, Patience
from pgbill.renewal import Terms

_QUERIES = db.Queries("request")

# A typing error in the year would move the date of a series for good.
_ISSUE_DAYS_AHEAD = 60


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a run."""

    through_on: date | None
    """Inclusive; none: by yesterday in each account's zone."""
    issue_on: date | None
    """None: today in the seller's zone."""
    workers: int
    account_key: str | None = None
    hold_mail: bool = False
    """Messages wait until a person releases them."""


@dataclass(frozen=True, slots=True)
class _Account:
    bucket: int
    account_id: int


@dataclass(frozen=True, slots=True)
class _IssueDate:
    issued_on: date | None
    seller_key: str | None
    allowed_until: date


def find_account(conn: Connection[Any], key: str | None) -> Account | None:
    """Return the key of the account that a run is for; none: it is for all.

    Raises:
        UsageError: There is no such account.
    """
    if key is None:
        return None
    found = db.fetch_one(conn, _QUERIES["find_account"], _Account, key=key)
    if found is None:
        raise UsageError(
            f"there is no account {key}.", hint="Check --account against your import."
        )
    return found.bucket, found.account_id


def check_issue_date(
    conn: Connection[Any],
    settings: Settings,
    request: Request,
    account: Account | None,
) -> None:
    """Refuse a date far ahead, or before the last of a series that the run draws from.

    Those are the series of the account's seller, else of sellers with something due.

    Raises:
        UsageError: It is one.
    """
    if request.issue_on is None:
        return
    closedmonth.refuse(conn, request.issue_on, option="--issue-on")
    latest = db.fetch_one(
        conn,
        _QUERIES["latest_issue_date"],
        _IssueDate,
        mode=settings.mode,
        days_ahead=_ISSUE_DAYS_AHEAD,
        through_on=request.through_on,
        bucket=account and account[0],
        account_id=account and account[1],
    )
    if latest and request.issue_on > latest.allowed_until:
        raise UsageError(
            f"--issue-on {request.issue_on} is more than {_ISSUE_DAYS_AHEAD} days from"
            " now.",
            hint="The series could never be dated earlier again: check the year.",
        )
    if latest and latest.issued_on and latest.issued_on > request.issue_on:
        raise UsageError(
            f"--issue-on {request.issue_on} is before the last invoice of seller"
            f" {latest.seller_key}, which was issued on {latest.issued_on}.",
            hint="The dates of a series never go back: take that date or a later one.",
        )


def kept_settings(settings: Settings, request: Request) -> str:
    """Return the settings that a run keeps, as JSON."""
    return json.dumps(
        {
            "workers": request.workers,
            "batch_size": settings.batch_size,
            "lease_ttl_seconds": settings.lease_ttl_seconds,
            "renew_every_seconds": settings.renew_every_seconds,
            "hard_limit_seconds": settings.hard_limit_seconds,
            "max_attempts": settings.max_attempts,
            "max_due_periods": settings.max_due_periods,
            "review": settings.review,
            "retry_after_seconds": settings.retry_after_seconds,
            "retry_wait_seconds": settings.retry_wait_seconds,
        }
    )


def terms(settings: Settings) -> Terms:
    """Return how long leases live."""
    return Terms(
        ttl=settings.lease_ttl_seconds,
        every=settings.renew_every_seconds,
        margin=settings.margin_seconds,
        hard_limit=settings.hard_limit_seconds,
    )


def policy(settings: Settings, request: Request) -> Policy:
    """Return what the settings and the request say of invoices."""
    return Policy(
        mode=settings.mode,
        issue_on=request.issue_on,
        max_due_periods=settings.max_due_periods,
        max_attempts=settings.max_attempts,
        patience=Patience(settings.retry_after_seconds, settings.retry_wait_seconds),
    )
