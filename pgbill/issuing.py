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
from pgbill.lease import Account, Lease, Scope, Worker

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


@dataclass(frozen=True, slots=True)
class Billed:
    """What became of an account: invoiced, nothing_to_bill, failed or parked."""

    bucket: int
    account_id: int
    outcome: str

    @property
    def account(self) -> Account:
        """The key of the account."""
        return self.bucket, self.account_id


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
