"""Work on one run in a process of its own: claim, rate, issue, until nothing is due.

A worker claims many accounts, from as many buckets as it needs, rates them with one
statement and issues them with another. One bad account never spoils the batch: what
the database refuses is divided until the account is found, which fails alone, with the
reason. An account whose last holder did not let go is worked on alone.

What is lost is dropped; what is left over when the worker is told to stop is given
back.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import psycopg
from psycopg import Connection, errors

from pgbill import clock, db, issuing, lease, rating
from pgbill.errors import IssueDateError, LeaseLostError, TemporaryError
from pgbill.issuing import Mode, Rated
from pgbill.lease import Lease, Release, Scope, Worker
from pgbill.renewal import Loss, Renewal, Terms

_log = logging.getLogger(__name__)

_IDLE_SECONDS = 0.2
_DATE_RETRIES = 20
_RECONNECT_SECONDS = 30.0
_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker is told, all of it; it crosses a process boundary."""

    dsn: str
    scope: Scope
    mode: Mode
    issue_on: date | None
    terms: Terms
    batch_size: int
    max_attempts: int
    max_due_periods: int
    first_bucket: int
    """Where this worker begins, so that workers do not queue for the same bucket."""


@dataclass(slots=True)
class Tally:
    """What became of accounts since the last report."""

    invoiced: int = 0
    nothing_to_bill: int = 0
    failed: int = 0
    parked: int = 0
    lost: int = 0
    given_back: int = 0

    @property
    def done_count(self) -> int:
        """Accounts that the run need not look at again."""
        return self.invoiced + self.nothing_to_bill + self.failed + self.parked


Report = Callable[[Tally], None]


@dataclass(slots=True)
class Shift:
    """A worker at work. `run` returns when nothing is due, or after `stop`."""

    job: Job
    report: Report
    worker: Worker = field(default_factory=Worker.of_this_process)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _conn: Connection[Any] | None = None
    _is_rating: bool = False
    _buckets: list[int] = field(default_factory=list[int])
    _suspects: list[Lease] = field(default_factory=list[Lease])

    def stop(self) -> None:
        """Finish what is being committed, give the rest back, and end."""
        self._stopping.set()
        self._interrupt()

    def run(self) -> None:
        """Work until nothing is due.

        Raises:
            TemporaryError: The database went away and did not come back.
        """
        with Renewal(self._connect, self.job.terms, on_loss=self._interrupt) as renewal:
            while not self._stopping.is_set():
                batch: list[Lease] = []
                try:
                    batch = self._claim(renewal)
                    if batch:
                        self._work(batch, renewal)
                    elif not self._wait():
                        break
                except (errors.OperationalError, TemporaryError) as error:
                    self._recover(batch, renewal, error)
            if self._suspects:
                self._give_back_all([], renewal)
        self._disconnect()

    def _connect(self) -> Connection[Any]:
        return db.connect(self.job.dsn, role="pgbill_worker", application="worker")

    def _connection(self) -> Connection[Any]:
        if self._conn is None or self._conn.closed:
            self._conn = self._connect()
        return self._conn

    def _interrupt(self) -> None:
        """Cancel a rating; what is being committed is left alone. From any thread."""
        conn = self._conn
        if self._is_rating and conn is not None:
            conn.cancel_safe(timeout=5)

    def _claim(self, renewal: Renewal) -> list[Lease]:
        """Claim a batch, from as many buckets as it takes; or one suspect, alone."""
        if self._suspects:
            return [self._suspects.pop()]
        conn = self._connection()
        if not self._buckets:
            self._buckets = self._find_work(conn)
        batch: list[Lease] = []
        while self._buckets and len(batch) < self.job.batch_size:
            limit = self.job.batch_size - len(batch)
            since = clock.seconds()
            claimed = lease.claim(
                conn,
                bucket=self._buckets[0],
                scope=self.job.scope,
                worker=self.worker,
                ttl_seconds=self.job.terms.ttl,
                limit=limit,
                max_attempts=self.job.max_attempts,
            )
            renewal.hold(claimed, since=since)
            suspects = [each for each in claimed if each.is_suspect]
            self._suspects += suspects
            batch += [each for each in claimed if not each.is_suspect]
            if len(claimed) < limit and not suspects:
                self._buckets.pop(0)
            if self._suspects or self._stopping.is_set():
                break
        return batch or [self._suspects.pop() for _ in self._suspects[:1]]

    def _find_work(self, conn: Connection[Any]) -> list[int]:
        """Return buckets with accounts to claim, from this worker's own place on."""
        found = lease.due_buckets(conn, self.job.scope)
        buckets = [each.bucket for each in found if each.is_claimable]
        if self.job.scope.account is not None:
            return [each for each in buckets if each == self.job.scope.account[0]]
        first = self.job.first_bucket
        return [b for b in buckets if b >= first] + [b for b in buckets if b < first]

    def _wait(self) -> bool:
        """Wait for leases that others hold: they may die. False if nothing is due."""
        if not lease.due_buckets(self._connection(), self.job.scope):
            return False
        self._stopping.wait(_IDLE_SECONDS)
        return True

    def _work(self, batch: Sequence[Lease], renewal: Renewal) -> None:
        tally = Tally()
        rated = self._rate(batch, renewal, tally)
        if self._stopping.is_set():
            self._give_back(batch, renewal, tally)
        else:
            self._issue(rated, renewal, tally)
        self._drop_losses(batch, renewal, tally)
        renewal.drop(batch)
        self.report(tally)

    def _drop_losses(
        self, batch: Sequence[Lease], renewal: Renewal, tally: Tally
    ) -> None:
        for loss in renewal.take_losses():
            if loss.lease in batch:
                self._abandon(loss, tally)

    def _abandon(self, loss: Loss, tally: Tally) -> None:
        tally.lost += 1
        _log.warning("account %s dropped: %s", loss.lease.account_id, loss.detail)
        lease.abandon(
            self._connection(),
            loss.lease,
            scope=self.job.scope,
            worker=self.worker,
            detail=loss.detail,
            hard_limit=loss.hard_limit,
        )

    def _rate(
        self, batch: Sequence[Lease], renewal: Renewal, tally: Tally
    ) -> list[Rated]:
        """Rate what is live, and let go of the accounts that have a problem."""
        live = [each for each in batch if renewal.is_live(each)]
        if not live or self._stopping.is_set():
            return []
        try:
            drafts = self._ask_for_drafts(live)
        except errors.QueryCanceled:
            # A lease was lost meanwhile, or the worker is to stop.
            return self._rate(live, renewal, tally)
        except (errors.DataError, errors.IntegrityError, errors.InternalError) as error:
            if len(live) == 1:
                self._fail(live, str(error.diag.message_primary), renewal, tally)
                return []
            half = len(live) // 2
            return self._rate(live[:half], renewal, tally) + self._rate(
                live[half:], renewal, tally
            )
        return self._sort_out(live, drafts, renewal, tally)

    def _ask_for_drafts(self, live: Sequence[Lease]) -> list[rating.Draft]:
        self._is_rating = True
        try:
            return rating.rate(
                self._connection(),
                [each.account for each in live],
                through_on=self.job.scope.through_on,
                max_due_periods=self.job.max_due_periods,
            )
        finally:
            self._is_rating = False

    def _sort_out(
        self,
        live: Sequence[Lease],
        drafts: Sequence[rating.Draft],
        renewal: Renewal,
        tally: Tally,
    ) -> list[Rated]:
        leases = {each.account: each for each in live}
        releases: list[Release] = []
        rated: list[Rated] = []
        for draft in drafts:
            held = leases[draft.account]
            if draft.problem is None:
                rated.append(Rated(held, draft.draft))
            elif draft.problem.startswith("more than "):
                releases.append(Release(held, "parked", draft.problem))
                tally.parked += 1
            else:
                releases.append(Release(held, "failed", draft.problem))
                tally.failed += 1
        self._release(releases, renewal)
        return rated

    def _issue(self, rated: Sequence[Rated], renewal: Renewal, tally: Tally) -> None:
        """Issue what is live; divide what the database refuses, down to one account."""
        live = [each for each in rated if renewal.is_live(each.lease)]
        if not live:
            return
        try:
            closings = self._commit(live)
        except (
            LeaseLostError,
            errors.IntegrityError,
            errors.DataError,
            errors.InternalError,
        ) as error:
            if len(live) == 1:
                self._settle(live[0].lease, error, renewal, tally)
                return
            half = len(live) // 2
            self._issue(live[:half], renewal, tally)
            self._issue(live[half:], renewal, tally)
            return
        closed = {each.account for each in closings}
        renewal.drop(each.lease for each in live if each.lease.account in closed)
        tally.invoiced += sum(each.outcome == "invoiced" for each in closings)
        tally.nothing_to_bill += sum(each.outcome != "invoiced" for each in closings)
        for each in live:
            if each.lease.account not in closed:
                self._lose(each.lease, renewal, tally)

    def _commit(self, live: Sequence[Rated]) -> list[issuing.Closing]:
        """Issue in one transaction; a date that has moved on is taken anew."""
        for attempt in range(_DATE_RETRIES):
            try:
                return issuing.issue(
                    self._connection(),
                    live,
                    scope=self.job.scope,
                    worker=self.worker,
                    mode=self.job.mode,
                    issue_on=self.job.issue_on,
                )
            except (IssueDateError, errors.DeadlockDetected):
                if attempt == _DATE_RETRIES - 1:
                    raise
        raise AssertionError  # pragma: no cover

    def _settle(
        self, held: Lease, error: Exception, renewal: Renewal, tally: Tally
    ) -> None:
        """Find out what the refusal of a single account means."""
        if isinstance(error, LeaseLostError):
            self._lose(held, renewal, tally)
        elif isinstance(error, errors.UniqueViolation):
            # It is closed already: by whom does not matter, if the lease is still ours.
            if lease.settle(self._connection(), held):
                renewal.drop([held])
            else:
                self._lose(held, renewal, tally)
        else:
            reason = str(error)
            if isinstance(error, psycopg.Error):
                reason = error.diag.message_primary or reason
            self._fail([held], reason, renewal, tally)

    def _lose(self, held: Lease, renewal: Renewal, tally: Tally) -> None:
        renewal.drop([held])
        detail = "another worker had claimed the account before the invoice was issued"
        self._abandon(Loss(held, detail), tally)

    def _fail(
        self, leases: Sequence[Lease], reason: str, renewal: Renewal, tally: Tally
    ) -> None:
        tally.failed += len(leases)
        self._release([Release(each, "failed", reason) for each in leases], renewal)

    def _give_back(
        self, batch: Sequence[Lease], renewal: Renewal, tally: Tally
    ) -> None:
        held = [each for each in [*batch, *self._suspects] if renewal.is_live(each)]
        self._suspects.clear()
        tally.given_back += len(held)
        self._release([Release(each, "given_back") for each in held], renewal)

    def _give_back_all(self, batch: Sequence[Lease], renewal: Renewal) -> None:
        tally = Tally()
        self._give_back(batch, renewal, tally)
        renewal.drop(batch)
        self.report(tally)

    def _disconnect(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            with contextlib.suppress(psycopg.Error):
                conn.close()

    def _release(self, releases: Sequence[Release], renewal: Renewal) -> None:
        lease.release(self._connection(), releases, max_attempts=self.job.max_attempts)
        renewal.drop(each.lease for each in releases)

    def _recover(
        self, batch: Sequence[Lease], renewal: Renewal, error: Exception
    ) -> None:
        """Connect again, and give back what was held: what had committed is not ours.

        Raises:
            TemporaryError: The database stayed away.
        """
        _log.warning("the connection was lost: %s", error)
        deadline = time.monotonic() + _RECONNECT_SECONDS
        while True:
            self._disconnect()
            try:
                self._give_back_all(batch, renewal)
            except (TemporaryError, errors.OperationalError):
                if time.monotonic() > deadline or self._stopping.is_set():
                    raise TemporaryError(
                        "the database went away and did not come back.",
                        hint="Start the run again when it is there; it continues.",
                    ) from error
                self._stopping.wait(_RETRY_SECONDS)
            else:
                return
