"""Bill a bucket as a run would, and roll all of it back.

A dry run must come to exactly the amounts that the run then issues, with several
periods of an account after one another, minimums, prepaid credit, reviews and refusals.
So it does not compute them in another way: it claims, rates and issues as a worker, in
one transaction for each bucket, reads what that has come to, and rolls back. No
invoice, number or message is ever visible to anybody; sequences of ids move on, which
nothing depends on. While it works on a bucket it holds the rows of the series, as long
as a worker would need for the bucket's accounts; a run beside it waits so long.

What a tax service has not answered yet cannot be asked from within a transaction: it is
returned, and the bucket is rehearsed again with the answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

import psycopg
from psycopg import Connection, errors

from pgbill import db, issuing, lease
from pgbill.errors import IssueDateError
from pgbill.issuing import Answered, Asked, Policy
from pgbill.lease import Account, Lease, Release, Scope, Worker
from pgbill.worker import REFUSED

_QUERIES = db.Queries("rehearsal")

_TTL_SECONDS = 3_600
_TRIES = 20
_NOTHING_TO_ASK = "{}"
_NOT_ASKED = "the tax service is to be asked"


@dataclass(frozen=True, slots=True)
class Row:
    """What would become of a period of an account."""

    account_key: str
    period_start: date | None
    """None, like the amounts, where no draft was made."""
    period_end: date
    outcome: str
    """invoiced, nothing_to_bill, carried_forward, held, failed or parked."""
    currency: str
    net_amount: Decimal | None
    tax_amount: Decimal | None
    gross_amount: Decimal | None
    previous_gross_amount: Decimal | None
    """Of the closing before the account's first due one; none: that has no invoice."""
    is_first: bool
    """It is the account's first due one: what was before counts once."""
    reason: str | None
    was_before: bool
    """It is parked, or waits for a review, since before: a run passes it by."""


@dataclass(slots=True)
class Rehearsed:
    """What would become of a bucket, and what is to be asked first."""

    rows: list[Row] = field(default_factory=list[Row])
    unanswered: list[Asked] = field(default_factory=list[Asked])


@dataclass(frozen=True, slots=True)
class Plan:
    """What is rehearsed."""

    scope: Scope
    policy: Policy
    settings: str
    """Those that a run would keep, as JSON; its review is among them."""
    batch_size: int
    asks_service: bool


class Rehearsal:
    """A worker whose work is rolled back. For one thread."""

    def __init__(
        self, conn: Connection[Any], plan: Plan, problems: dict[Account, str]
    ) -> None:
        """Take an autocommit connection, and why the service gave no answers."""
        self._conn = conn
        self._plan = plan
        self._problems = problems
        self._worker = Worker.of_this_process()
        self._scope = plan.scope
        self._unanswered: list[Asked] = []

    def bucket(self, bucket: int) -> Rehearsed:
        """Rehearse all that is due in a bucket, until nothing can be claimed."""
        for _ in range(_TRIES):
            try:
                return self._try(bucket)
            except errors.DeadlockDetected:
                # A run beside us wanted the series in another order; it goes first.
                continue
        return self._try(bucket)

    def _try(self, bucket: int) -> Rehearsed:
        self._unanswered = []
        with self._conn.transaction(force_rollback=True):
            run = db.fetch_one(
                self._conn,
                _QUERIES["begin"],
                _Begun,
                settings=self._plan.settings,
                mode=self._plan.policy.mode,
            )
            assert run is not None
            asked = self._plan.scope
            self._scope = Scope(run.run_id, asked.through_on, asked.account)
            while batch := self._claim(bucket):
                self._bill(batch)
            return Rehearsed(self._rows(bucket), self._unanswered)

    def _claim(self, bucket: int) -> list[Lease]:
        return lease.claim(
            self._conn,
            bucket=bucket,
            scope=self._scope,
            worker=self._worker,
            ttl_seconds=_TTL_SECONDS,
            limit=self._plan.batch_size,
            max_attempts=self._plan.policy.max_attempts,
        )

    def _bill(self, batch: Sequence[Lease]) -> None:
        """Bill; divide what the database refuses, down to one account."""
        try:
            self._commit(batch)
        except (*REFUSED, errors.QueryCanceled) as error:
            if len(batch) > 1:
                half = len(batch) // 2
                self._bill(batch[:half])
                self._bill(batch[half:])
                return
            reason = str(error)
            if isinstance(error, psycopg.Error):
                reason = error.diag.message_primary or reason
            self._release([Release(batch[0], "failed", reason)])

    def _commit(self, batch: Sequence[Lease]) -> None:
        """Bill up to a savepoint; a date that has moved on is taken anew."""
        for attempt in range(_TRIES):
            try:
                with self._conn.transaction():
                    self._write(batch)
                    return
            except IssueDateError:
                if attempt == _TRIES - 1:
                    raise

    def _write(self, batch: Sequence[Lease]) -> None:
        plan = self._plan
        given: dict[str, Any] = {
            "scope": self._scope,
            "worker": self._worker,
            "policy": plan.policy,
        }
        if not plan.asks_service:
            issuing.bill(self._conn, batch, **given)
        elif ready := self._answered(batch):
            issuing.issue(self._conn, ready, **given)

    def _answered(self, batch: Sequence[Lease]) -> list[Answered]:
        """Rate, and return what can be issued; the rest fails in this rehearsal."""
        held = {each.account: each for each in batch}
        ready: list[Answered] = []
        rated = issuing.rate_and_question(
            self._conn, batch, scope=self._scope, policy=self._plan.policy
        )
        for asked in rated:
            mine = held[asked.account]
            if asked.outcome is not None:
                kind = "parked" if asked.outcome == "parked" else "failed"
                self._release([Release(mine, kind, asked.problem)])
            elif asked.question is None or asked.answer is not None:
                ready.append(Answered(mine, asked, asked.answer or _NOTHING_TO_ASK))
            else:
                self._leave(mine, asked)
        return ready

    def _leave(self, mine: Lease, asked: Asked) -> None:
        problem = self._problems.get(asked.account)
        if problem is None:
            self._unanswered.append(asked)
        self._release([Release(mine, "failed", problem or _NOT_ASKED)])

    def _release(self, releases: Sequence[Release]) -> None:
        lease.release(self._conn, releases, max_attempts=self._plan.policy.max_attempts)

    def _rows(self, bucket: int) -> list[Row]:
        return db.fetch_all(
            self._conn,
            _QUERIES["rows"],
            Row,
            bucket=bucket,
            run_id=self._scope.run_id,
            through_on=self._scope.through_on,
            account_id=self._scope.account and self._scope.account[1],
        )


@dataclass(frozen=True, slots=True)
class _Begun:
    run_id: int
