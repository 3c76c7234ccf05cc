"""Work on one run in a process of its own: claim and bill, until nothing is due.

A worker claims many accounts, from as many buckets as it needs, and bills them with one
statement. One bad account never spoils the batch: what the database refuses is divided
until the account is found, which fails alone, with the reason. An account whose last
holder did not let go is worked on alone.

What is lost is dropped; what is left over when the worker is told to stop is given
back.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import Connection, errors

from pgbill import clock, db, issuing, lease, roles
from pgbill.errors import IssueDateError, LeaseLostError, TemporaryError
from pgbill.issuing import Billed
from pgbill.job import Job, Report, Tally
from pgbill.lease import Lease, Release, Worker
from pgbill.renewal import Loss, Renewal

_log = logging.getLogger(__name__)

_IDLE_SECONDS = 0.1
_IDLE_AT_MOST_SECONDS = 2.0
_RETRY_SECONDS = 1.0
_RECONNECT_SECONDS = 30.0
_DATE_RETRIES = 20
_START_AGAIN = "Start the run again when it is there; it continues."

# What the data of an account can cause, and another account need not suffer for.
REFUSED = (
    LeaseLostError,
    errors.IntegrityError,
    errors.DataError,
    errors.InternalError,
    errors.ProgramLimitExceeded,
    errors.StatementTooComplex,
)


class Shift:
    """A worker at work. `run` returns when nothing is due, or after `stop`."""

    def __init__(self, job: Job, report: Report) -> None:
        """Draw a new identity; nothing is connected yet."""
        self.worker = Worker.of_this_process()
        self._job = job
        self._report = report
        self._renewal = Renewal(self._connect, job.terms, on_loss=self._interrupt)
        self._stopping = threading.Event()
        self._conn: Connection[Any] | None = None
        self._is_billing = False
        self._is_interrupted = False
        self._failing_since: float | None = None
        self._buckets: list[int] = []
        self._suspects: list[Lease] = []
        self._tally = Tally()
        self._idle_seconds = _IDLE_SECONDS

    def stop(self) -> None:
        """Finish what is being committed, give the rest back, and end."""
        self._stopping.set()

    def run(self) -> None:
        """Work until nothing is due.

        Raises:
            TemporaryError: The database went away and did not come back, or it answers
                and fails.
        """
        try:
            with self._renewal:
                self._work_through()
        finally:
            self._disconnect()

    def _work_through(self) -> None:
        while not self._stopping.is_set():
            try:
                if not self._turn():
                    break
            except (errors.OperationalError, TemporaryError) as error:
                self._recover(error)
        self._give_back(self._renewal.held())

    def _turn(self) -> bool:
        """Do some work, or wait for some; false if nothing is due."""
        if batch := self._claim(self._job.batch_size):
            self._work(batch)
            self._failing_since = None
            return True
        return self._wait()

    def _connect(self) -> Connection[Any]:
        return db.connect(self._job.dsn, role=roles.WORKER, application="worker")

    def _connection(self) -> Connection[Any]:
        if self._conn is None or self._conn.closed:
            self._conn = self._connect()
        return self._conn

    def _disconnect(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            with contextlib.suppress(psycopg.Error):
                conn.close()

    def _interrupt(self) -> None:
        """Cancel the statement that bills: a lease is lost. Called by the renewal."""
        conn = self._conn
        if self._is_billing and conn is not None:
            self._is_interrupted = True
            with contextlib.suppress(psycopg.Error):
                conn.cancel_safe(timeout=5)

    def _claim(self, size: int) -> list[Lease]:
        """Claim a batch, from as many buckets as it takes; or one suspect, alone."""
        if self._suspects:
            return [self._suspects.pop()]
        if not self._buckets:
            self._buckets = self._find_work()
        batch: list[Lease] = []
        while self._buckets and len(batch) < size and not self._stopping.is_set():
            claimed = self._claim_from(self._buckets[0], limit=size - len(batch))
            if claimed and claimed[0].is_suspect:
                self._suspects += claimed
                return batch or [self._suspects.pop()]
            if len(claimed) < size - len(batch):
                self._buckets.pop(0)
            batch += claimed
        return batch

    def _claim_from(self, bucket: int, *, limit: int) -> list[Lease]:
        since = clock.seconds()
        claimed = lease.claim(
            self._connection(),
            bucket=bucket,
            scope=self._job.scope,
            worker=self.worker,
            ttl_seconds=self._job.terms.ttl,
            limit=limit,
            max_attempts=self._job.policy.max_attempts,
        )
        self._renewal.hold(claimed, since=since)
        if claimed:
            self._idle_seconds = _IDLE_SECONDS
        return claimed

    def _find_work(self) -> list[int]:
        """Return buckets with accounts to claim, from this worker's own place on."""
        found = lease.due_buckets(self._connection(), self._job.scope)
        buckets = [each.bucket for each in found if each.is_claimable]
        first = self._job.first_bucket
        return [b for b in buckets if b >= first] + [b for b in buckets if b < first]

    def _wait(self) -> bool:
        """Wait for leases that others hold: they may die. False if nothing is due."""
        if not lease.due_buckets(self._connection(), self._job.scope):
            return False
        self._stopping.wait(self._idle_seconds)
        at_most = min(_IDLE_AT_MOST_SECONDS, self._job.terms.ttl / 4)
        self._idle_seconds = min(2 * self._idle_seconds, at_most)
        return True

    def _work(self, batch: list[Lease]) -> None:
        if self._stopping.is_set():
            self._give_back(batch)
            return
        self._bill(batch)
        self._drop_losses()
        self._hand_in()

    def _drop_losses(self) -> None:
        for loss in self._renewal.take_losses():
            self._abandon(loss)

    def _hand_in(self) -> None:
        tally, self._tally = self._tally, Tally()
        self._report(tally)

    def _bill(self, batch: Sequence[Lease]) -> None:
        """Bill what is live; divide what the database refuses, down to one account."""
        live = [each for each in batch if self._renewal.is_live(each)]
        if not live:
            return
        try:
            billed = self._commit(live)
        except errors.QueryCanceled as error:
            # If it was our renewal, the others go on: even if the cancel came late, and
            # hit another statement than it was meant for. Else it was somebody else, a
            # statement_timeout say.
            if self._is_interrupted:
                self._is_interrupted = False
                self._bill(live)
            else:
                self._divide(live, error)
        except REFUSED as error:
            self._divide(live, error)
        else:
            self._take(live, billed)

    def _divide(self, refused: Sequence[Lease], error: Exception) -> None:
        if len(refused) == 1:
            self._settle(refused[0], error)
            return
        half = len(refused) // 2
        self._bill(refused[:half])
        self._bill(refused[half:])

    def _commit(self, live: Sequence[Lease]) -> list[Billed]:
        """Bill in one transaction; a date that has moved on is taken anew."""
        self._is_billing = True
        try:
            for attempt in range(_DATE_RETRIES):
                try:
                    return self._ask_database(live)
                except (IssueDateError, errors.DeadlockDetected):
                    if attempt == _DATE_RETRIES - 1:
                        raise
            raise AssertionError  # pragma: no cover
        finally:
            self._is_billing = False

    def _ask_database(self, live: Sequence[Lease]) -> list[Billed]:
        return issuing.bill(
            self._connection(),
            live,
            scope=self._job.scope,
            worker=self.worker,
            policy=self._job.policy,
        )

    def _take(self, live: Sequence[Lease], billed: Sequence[Billed]) -> None:
        self._tally.count(billed)
        done = {each.account for each in billed}
        self._renewal.drop(each for each in live if each.account in done)
        for each in live:
            if each.account not in done:
                self._lose(each)

    def _settle(self, held: Lease, error: Exception) -> None:
        """Find out what the refusal of a single account means."""
        if isinstance(error, LeaseLostError):
            self._lose(held)
            return
        if isinstance(error, errors.UniqueViolation):
            # Closed already? By whom does not matter, if the lease is ours.
            found = lease.settle(self._connection(), held)
            if found == "settled":
                self._renewal.drop([held])
                return
            if found == "lost":
                self._lose(held)
                return
        reason = str(error)
        if isinstance(error, psycopg.Error):
            reason = error.diag.message_primary or reason
        # What was cancelled took too long, this time: the data may be all right.
        may_pass = isinstance(error, errors.QueryCanceled)
        self._fail([Release(held, "failed", reason, may_pass=may_pass)])

    def _fail(self, releases: Sequence[Release]) -> None:
        """Release accounts as failed; those that may pass come back in this run."""
        self._release(releases)
        waits = self._job.policy.patience.retry_wait > 0
        self._tally.failed += sum(not (waits and each.may_pass) for each in releases)

    def _lose(self, held: Lease) -> None:
        self._renewal.drop([held])
        detail = "another worker had claimed the account"
        self._abandon(Loss(held, detail, refused=True))

    def _abandon(self, loss: Loss) -> None:
        self._tally.lost += 1
        # A person is told by the alert: the run prints it.
        _log.info("account %s dropped: %s", loss.lease.account_id, loss.detail)
        lease.abandon(
            self._connection(),
            loss.lease,
            scope=self._job.scope,
            worker=self.worker,
            detail=loss.detail,
            hard_limit=loss.hard_limit,
            refused=loss.refused,
        )

    def _give_back(self, leases: Sequence[Lease]) -> None:
        held = [each for each in leases if self._renewal.is_live(each)]
        self._release([Release(each, "given_back") for each in held])
        self._tally.given_back += len(held)
        self._hand_in()

    def _release(self, releases: Sequence[Release]) -> None:
        lease.release(
            self._connection(),
            releases,
            max_attempts=self._job.policy.max_attempts,
            patience=self._job.policy.patience,
        )
        self._renewal.drop(each.lease for each in releases)

    def _recover(self, error: Exception) -> None:
        """Connect again, and give back all that is held: what had committed is not.

        Raises:
            TemporaryError: The database stayed away, or answers and fails, as it does
                when its disk is full.
        """
        _log.warning("the database failed: %s", error)
        if self._failing_since is None:
            self._failing_since = time.monotonic()
        else:
            self._stopping.wait(_RETRY_SECONDS)
        while not self._is_back():
            if self._fails_too_long or self._stopping.is_set():
                raise TemporaryError(
                    "the database went away and did not come back.", hint=_START_AGAIN
                ) from error
            self._stopping.wait(_RETRY_SECONDS)
        self._suspects.clear()
        self._buckets.clear()
        if self._fails_too_long:
            told = str(error).partition("\n")[0]
            raise TemporaryError(
                f"the database fails again and again: {told}.", hint=_START_AGAIN
            ) from error

    @property
    def _fails_too_long(self) -> bool:
        since = self._failing_since
        return since is not None and time.monotonic() > since + _RECONNECT_SECONDS

    def _is_back(self) -> bool:
        self._disconnect()
        try:
            self._give_back(self._renewal.held())
        except (TemporaryError, errors.OperationalError):
            return False
        return True
