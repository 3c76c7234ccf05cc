"""Invoice many accounts in one transaction.

A transaction for each invoice would cost ten to twenty times as much, in commits
alone.
Python moves rows, SQL moves money: with a table of tax rates there is nothing to move
at all, so the database rates and issues in one statement, and no amount leaves it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from psycopg import Connection

from pgbill import db
from pgbill.lease import NO_PATIENCE, Account, Lease, Patience, Scope, Worker

_QUERIES = db.Queries("issuing")

Mode = Literal["live", "test"]


@dataclass(frozen=True, slots=True)
class Policy:
    """What the settings say of invoices."""

    mode: Mode
    issue_on: date | None
    """None: today in the seller's zone."""
    max_due_periods: int
    max_attempts: int
    patience: Patience = NO_PATIENCE


@dataclass(frozen=True, slots=True)
class Billed:
    """What became of an account."""

    bucket: int
    account_id: int
    outcome: str
    """invoiced, nothing_to_bill, carried_forward, held, failed or parked."""

    @property
    def account(self) -> Account:
        """The key of the account."""
        return self.bucket, self.account_id


@dataclass(frozen=True, slots=True)
class Asked:
    """An account that is rated but for its tax, and what is to be asked."""

    bucket: int
    account_id: int
    outcome: str | None
    """None: it can go on; else failed or parked, for the reason in `problem`."""
    problem: str | None
    draft: str
    period_end: date
    account_key: str
    question: str | None
    """None: there is no line, so nothing to ask."""
    question_hash: str | None
    answer: str | None
    """None: nobody has asked the same question before."""

    @property
    def account(self) -> Account:
        """The key of the account."""
        return self.bucket, self.account_id


@dataclass(frozen=True, slots=True)
class Answered:
    """A lease with its draft and the answer, ready to be issued."""

    lease: Lease
    asked: Asked
    answer: str


def rate_and_question(
    conn: Connection[Any], leases: Sequence[Lease], *, scope: Scope, policy: Policy
) -> list[Asked]:
    """Rate the accounts, and say what a tax service is to be asked. Writes nothing."""
    return db.fetch_all(
        conn,
        _QUERIES["rate_and_question"],
        Asked,
        buckets=[each.bucket for each in leases],
        account_ids=[each.account_id for each in leases],
        through_on=scope.through_on,
        max_due_periods=policy.max_due_periods,
    )


def keep_answers(
    conn: Connection[Any], answered: Sequence[Answered], *, provider: str
) -> None:
    """Keep what the service has answered, so that nobody asks it again.

    It commits; accounts whose lease is lost are passed over.
    """
    new = [
        each
        for each in answered
        if each.asked.question is not None and each.asked.answer is None
    ]
    if not new:
        return
    db.execute(
        conn,
        _QUERIES["keep_tax_answers"],
        buckets=[each.lease.bucket for each in new],
        account_ids=[each.lease.account_id for each in new],
        tokens=[each.lease.fencing_token for each in new],
        period_ends=[each.asked.period_end for each in new],
        hashes=[each.asked.question_hash for each in new],
        questions=[each.asked.question for each in new],
        answers=[each.answer for each in new],
        provider=provider,
    )


def issue(
    conn: Connection[Any],
    answered: Sequence[Answered],
    *,
    scope: Scope,
    worker: Worker,
    policy: Policy,
) -> list[Billed]:
    """Issue invoices from drafts and their tax; as `bill` otherwise."""
    return db.fetch_all(
        conn,
        _QUERIES["issue"],
        Billed,
        buckets=[each.lease.bucket for each in answered],
        account_ids=[each.lease.account_id for each in answered],
        tokens=[each.lease.fencing_token for each in answered],
        drafts=[each.asked.draft for each in answered],
        answers=[each.answer for each in answered],
        worker_id=worker.worker_id,
        run_id=scope.run_id,
        mode=policy.mode,
        issue_on=policy.issue_on,
    )


def bill(
    conn: Connection[Any],
    leases: Sequence[Lease],
    *,
    scope: Scope,
    worker: Worker,
    policy: Policy,
) -> list[Billed]:
    """Rate the accounts and issue their invoices; the leases are released with it.

    It commits: `conn` must be in autocommit mode.

    Returns:
        What became of each. An account that is missing has been claimed by another
        worker, and nothing was written for it.

    Raises:
        IssueDateError: A series has moved to a later date meanwhile; bill again.
        psycopg.Error: One of the accounts cannot be billed. Nothing was written.
    """
    return db.fetch_all(
        conn,
        _QUERIES["bill"],
        Billed,
        buckets=[each.bucket for each in leases],
        account_ids=[each.account_id for each in leases],
        tokens=[each.fencing_token for each in leases],
        worker_id=worker.worker_id,
        run_id=scope.run_id,
        mode=policy.mode,
        issue_on=policy.issue_on,
        through_on=scope.through_on,
        max_due_periods=policy.max_due_periods,
        max_attempts=policy.max_attempts,
    )
