"""Decide about drafts that a run has held back for review.

A draft is what an invoice would have been: it has no number and no message, and no
invoice exists. Approved, it is issued by the next run, if that rates it the same, so
what was approved is what goes out; if something has changed meanwhile it is held again,
and says so. Discarded, it is rated anew. The first decision counts, and who made it is
kept. Whether the person who has started a run may approve is a setting of the run.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal

from psycopg import Connection

from pgbill import db
from pgbill.errors import ConfigError, UsageError

_QUERIES = db.Queries("drafts")

Decision = Literal["approved", "discarded"]


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft that was held back, and what was decided; none: it waits."""

    bucket: int
    account_id: int
    draft_id: int
    account_key: str
    legal_name: str
    run_id: int
    period_start: date
    period_end: date
    held_at: datetime
    reasons: list[str]
    currency: str
    net_amount: Decimal
    tax_amount: Decimal
    gross_amount: Decimal
    previous_gross_amount: Decimal | None
    decision: Decision | None
    decided_at: datetime | None
    decided_by: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a draft."""

    description: str
    service_from: date
    service_through: date
    """Inclusive."""
    quantity: Decimal
    unit_amount: Decimal | None
    net_amount: Decimal
    tax_category: str
    tax_rate: Decimal


@dataclass(frozen=True, slots=True)
class _Decided:
    answer: str


@dataclass(frozen=True, slots=True)
class _Currency:
    currency: str


def find(
    conn: Connection[Any],
    *,
    run_id: int | None = None,
    with_decided: bool = False,
    limit: int | None,
) -> list[Draft]:
    """Return drafts that wait, or all, the largest first."""
    return db.fetch_all(
        conn,
        _QUERIES["drafts"],
        Draft,
        draft_id=None,
        run_id=run_id,
        with_decided=with_decided,
        limit=limit,
    )


def get(conn: Connection[Any], draft_id: int) -> Draft:
    """Return a draft.

    Raises:
        UsageError: There is no such draft.
    """
    found = db.fetch_one(
        conn,
        _QUERIES["drafts"],
        Draft,
        draft_id=draft_id,
        run_id=None,
        with_decided=True,
        limit=1,
    )
    if found is None:
        raise UsageError(
            f"there is no draft {draft_id}.", hint="See pgbill draft list."
        )
    return found


def lines(conn: Connection[Any], draft: Draft) -> list[Line]:
    """Return the lines of a draft, in order."""
    return db.fetch_all(
        conn,
        _QUERIES["lines"],
        Line,
        bucket=draft.bucket,
        account_id=draft.account_id,
        draft_id=draft.draft_id,
    )


def decide(
    conn: Connection[Any],
    drafts: Sequence[Draft],
    decision: Decision,
    *,
    reason: str | None,
    by: str,
) -> None:
    """Decide about drafts, all of them or, if one cannot be, none.

    Raises:
        UsageError: It was decided about one before, or a run wants somebody else to
            approve what it has held.
    """
    with conn.transaction():
        for each in sorted(drafts, key=lambda it: (it.bucket, it.account_id)):
            decided = db.fetch_one(
                conn,
                _QUERIES["decide"],
                _Decided,
                bucket=each.bucket,
                account_id=each.account_id,
                draft_id=each.draft_id,
                decision=decision,
                reason=reason,
                by=by,
            )
            _check(conn, decided.answer if decided else "decided_before", each)


def check_limits(conn: Connection[Any], currencies: Collection[str]) -> None:
    """Refuse limits of a review in currencies that there are not.

    Raises:
        ConfigError: One is not known: nothing would ever be held by it.
    """
    if not currencies:
        return
    unknown = db.fetch_one(
        conn, _QUERIES["unknown_currency"], _Currency, currencies=list(currencies)
    )
    if unknown is not None:
        raise ConfigError(
            f"PGBILL_REVIEW_ABOVE is wrong: there is no currency {unknown.currency}."
        )


def _check(conn: Connection[Any], answer: str, draft: Draft) -> None:
    if answer == "decided_before":
        # Perhaps a moment ago: it waited when it was read.
        known = get(conn, draft.draft_id)
        raise UsageError(
            f"draft {draft.draft_id} was {known.decision} by {known.decided_by} before."
        )
    if answer == "same_person":
        raise UsageError(
            f"draft {draft.draft_id} must be approved by another person than the one"
            f" who has started run {draft.run_id}."
        )
