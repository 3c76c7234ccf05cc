"""Claim accounts, and carry the proof of it.

A worker bills an account only while it holds the account's lease. Leases expire, so
that a dead worker blocks nobody, and so a slow worker may act on a lease that is no
longer its own. It can do no harm: each claim draws a new fencing token, and triggers
refuse the rows that do not carry the newest. Expiry is for progress, the token is for
safety.

Every function here is one statement of the protocol and needs a connection in
autocommit mode: a client that stops at any point then holds no lock.
"""

import os
import socket
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal

from psycopg import Connection

from pgbill import db

_QUERIES = db.Queries("lease")

Outcome = Literal["given_back", "failed", "parked"]
Account = tuple[int, int]
"""Bucket and account id: the key of everything that belongs to an account."""


@dataclass(frozen=True, slots=True)
class Worker:
    """Who claims: a uuid for the database, a name for people."""

    worker_id: uuid.UUID
    holder: str

    @classmethod
    def of_this_process(cls) -> "Worker":
        """Draw a new identity; a process that comes back is another worker."""
        return cls(uuid.uuid4(), f"{socket.gethostname()}:{os.getpid()}")


@dataclass(frozen=True, slots=True)
class Scope:
    """Which accounts a run takes."""

    run_id: int
    through_on: date | None
    account: Account | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to bill the earliest open period of an account, for a while."""

    bucket: int
    account_id: int
    fencing_token: int
    due_on: date
    is_suspect: bool
    """Its last holder did not let go: work on it alone."""

    @property
    def account(self) -> Account:
        """The key of the account."""
        return self.bucket, self.account_id


@dataclass(frozen=True, slots=True)
class Release:
    """A lease to let go of without an invoice, and why."""

    lease: Lease
    outcome: Outcome
    detail: str | None = None
    may_pass: bool = False
    """Of a failure: the same run tries it again, after a while."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How a run retries what has failed and may pass, in seconds; by default not."""

    retry_after: float = 60
    """Before the second attempt; it doubles with each."""
    retry_wait: float = 0
    """A longer delay is not waited for: the next run tries the account."""


NO_PATIENCE = Patience()


@dataclass(frozen=True, slots=True)
class DueBucket:
    """A bucket with work, and whether some of it can be claimed now."""

    bucket: int
    is_claimable: bool


@dataclass(frozen=True, slots=True)
class _Renewed:
    account_id: int
    is_held: bool


@dataclass(frozen=True, slots=True)
class _Settled:
    is_ours: bool | None


def due_buckets(conn: Connection[Any], scope: Scope) -> list[DueBucket]:
    """Tell where accounts are due. Empty: the run has nothing left to do."""
    return db.fetch_all(
        conn,
        _QUERIES["due_buckets"],
        DueBucket,
        through_on=scope.through_on,
        run_id=scope.run_id,
        account_id=scope.account and scope.account[1],
    )


def claim(
    conn: Connection[Any],
    *,
    bucket: int,
    scope: Scope,
    worker: Worker,
    ttl_seconds: float,
    limit: int,
    max_attempts: int,
) -> list[Lease]:
    """Claim up to `limit` accounts of a bucket that are due and that nobody holds.

    Accounts that have used up their attempts are parked on the way.

    Returns:
        The leases, one billing period each. Empty if the bucket has nothing to claim
        now; an account with several due periods comes again after its release.
    """
    return db.fetch_all(
        conn,
        _QUERIES["claim"],
        Lease,
        bucket=bucket,
        through_on=scope.through_on,
        holder=worker.holder,
        worker_id=worker.worker_id,
        run_id=scope.run_id,
        ttl_seconds=ttl_seconds,
        limit=limit,
        max_attempts=max_attempts,
        account_id=scope.account and scope.account[1],
    )


def renew(
    conn: Connection[Any], leases: Iterable[Lease], *, ttl_seconds: float
) -> list[Lease]:
    """Extend the leases by `ttl_seconds` from now, one statement for each bucket.

    Returns:
        Those that are lost: another worker has claimed the account, or it was released.
    """
    lost: list[Lease] = []
    by_key = sorted(leases, key=attrgetter("bucket", "account_id"))
    for bucket, group in groupby(by_key, key=attrgetter("bucket")):
        held = list(group)
        renewed = db.fetch_all(
            conn,
            _QUERIES["renew"],
            _Renewed,
            bucket=bucket,
            account_ids=[lease.account_id for lease in held],
            tokens=[lease.fencing_token for lease in held],
            ttl_seconds=ttl_seconds,
        )
        gone = {each.account_id for each in renewed if not each.is_held}
        lost += [lease for lease in held if lease.account_id in gone]
    return lost


def release(
    conn: Connection[Any],
    releases: Sequence[Release],
    *,
    max_attempts: int,
    patience: Patience = NO_PATIENCE,
) -> None:
    """Let go of leases without an invoice; those that are lost already are passed over.

    A failure at the last permitted attempt parks the account; one before, if it may
    pass, is tried again by the same run when its delay is over.
    """
    if not releases:
        return
    db.execute(
        conn,
        _QUERIES["release"],
        buckets=[each.lease.bucket for each in releases],
        account_ids=[each.lease.account_id for each in releases],
        tokens=[each.lease.fencing_token for each in releases],
        outcomes=[each.outcome for each in releases],
        details=[each.detail for each in releases],
        max_attempts=max_attempts,
        may_pass=[each.may_pass for each in releases],
        retry_after=patience.retry_after,
        retry_wait=patience.retry_wait,
    )


def settle(
    conn: Connection[Any], lease: Lease
) -> Literal["settled", "lost", "not_closed"]:
    """Release a lease whose period is closed already.

    Returns:
        not_closed: nothing was released, the lease is ours, and its period is open.
    """
    settled = db.fetch_one(
        conn,
        _QUERIES["settle"],
        _Settled,
        bucket=lease.bucket,
        account_id=lease.account_id,
        token=lease.fencing_token,
    )
    if settled is None or settled.is_ours is None:
        return "not_closed"
    return "settled" if settled.is_ours else "lost"


def abandon(
    conn: Connection[Any],
    lease: Lease,
    *,
    scope: Scope,
    worker: Worker,
    detail: str,
    hard_limit: bool = False,
    refused: bool = False,
) -> None:
    """Record that the work on a lost lease was dropped; nothing else may be written.

    At the hard limit, or after the database has refused a write, it is an alert too.
    """
    db.execute(
        conn,
        _QUERIES["record_refusal" if refused else "abandon"],
        bucket=lease.bucket,
        account_id=lease.account_id,
        token=lease.fencing_token,
        holder=worker.holder,
        worker_id=worker.worker_id,
        run_id=scope.run_id,
        due_on=lease.due_on,
        detail=detail,
        hard_limit=hard_limit,
    )
