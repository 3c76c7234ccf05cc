"""Issue many finished drafts in one transaction.

A transaction for each invoice would cost ten to twenty times as much, in commits alone.
The function in the database is the transaction: it drops accounts whose lease is lost,
writes everything else, and draws the numbers last.
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
class Rated:
    """A lease and the draft that was rated under it."""

    lease: Lease
    draft: str


@dataclass(frozen=True, slots=True)
class Closing:
    """How the period of an account was closed: invoiced, or nothing_to_bill."""

    bucket: int
    account_id: int
    outcome: str

    @property
    def account(self) -> Account:
        """The key of the account."""
        return self.bucket, self.account_id


def issue(
    conn: Connection[Any],
    rated: Sequence[Rated],
    *,
    scope: Scope,
    worker: Worker,
    mode: Mode,
    issue_on: date | None,
) -> list[Closing]:
    """Close the periods and issue the invoices; the leases are released with them.

    It commits: `conn` must be in autocommit mode.

    Returns:
        What was closed. An account that is missing has been claimed by another worker,
        and nothing was written for it.

    Raises:
        IssueDateError: A series has moved to a later date meanwhile; issue again.
        psycopg.IntegrityError: One of the accounts is invoiced already. Nothing of the
            batch was written.
    """
    return db.fetch_all(
        conn,
        _QUERIES["issue"],
        Closing,
        buckets=[each.lease.bucket for each in rated],
        account_ids=[each.lease.account_id for each in rated],
        tokens=[each.lease.fencing_token for each in rated],
        drafts=[each.draft for each in rated],
        worker_id=worker.worker_id,
        run_id=scope.run_id,
        mode=mode,
        issue_on=issue_on,
    )
