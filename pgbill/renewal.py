"""Renew the leases of a worker, from a thread and a connection of their own.

Whatever the worker does, rating a huge account, waiting for a tax service, stuck in a
loop, its leases are renewed beside it, so slow work is not lost work. What ends a lease
is told at once: the work on it is cancelled, and nothing more is written for it.

A lease is lost when the database says that its token is no longer the newest. It is
treated as lost, without asking, when no renewal has succeeded until the local deadline
(start of the last successful one + time to live - margin, on a clock that runs during
suspend), and when the job has taken longer than the hard limit: a hung job must not
renew for ever.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import Connection

from pgbill import clock, lease
from pgbill.errors import PgbillError
from pgbill.lease import Account, Lease

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Terms:
    """How long leases live, all in seconds."""

    ttl: float
    every: float
    margin: float
    hard_limit: float


@dataclass(frozen=True, slots=True)
class Loss:
    """A lease that must not be worked on any more, and why."""

    lease: Lease
    detail: str
    hard_limit: bool = False
    refused: bool = False
    """The database has refused what was to be written with it."""


@dataclass(slots=True)
class _Held:
    lease: Lease
    claimed_at: float
    deadline: float


class Renewal:
    """The leases that a worker holds, kept alive until they are dropped or lost.

    Safe to call from any thread. As a context manager it runs the thread.
    """

    def __init__(
        self,
        connect: Callable[[], Connection[Any]],
        terms: Terms,
        *,
        on_loss: Callable[[], None],
    ) -> None:
        """Name how to connect, and what to call, in the thread, after a loss."""
        self._connect = connect
        self._terms = terms
        self._on_loss = on_loss
        self._held: dict[Account, _Held] = {}
        self._losses: list[Loss] = []
        self._has_untold = False
        self._guard = threading.Lock()
        self._stopped = threading.Event()
        self._conn: Connection[Any] | None = None
        self._thread = threading.Thread(target=self._run, name="renewal", daemon=True)

    def __enter__(self) -> "Renewal":
        """Start to renew."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop to renew; what is still held will expire."""
        self._stopped.set()
        self._thread.join(timeout=self._terms.ttl)

    def hold(self, leases: Iterable[Lease], *, since: float) -> None:
        """Renew these from now on; `since` is the clock before they were claimed."""
        with self._guard:
            for each in leases:
                deadline = since + self._terms.ttl - self._terms.margin
                self._held[each.account] = _Held(each, since, deadline)

    def drop(self, leases: Iterable[Lease]) -> None:
        """Forget these, also that they were lost: their end is known to the caller."""
        dropped = set(leases)
        with self._guard:
            for each in dropped:
                held = self._held.get(each.account)
                if held is not None and held.lease == each:
                    del self._held[each.account]
            self._losses = [loss for loss in self._losses if loss.lease not in dropped]

    def held(self) -> list[Lease]:
        """Return all that is renewed at this moment."""
        with self._guard:
            return [held.lease for held in self._held.values()]

    def is_live(self, held: Lease) -> bool:
        """Tell whether the lease may still be worked on, by all that is known here."""
        with self._guard:
            self._give_up_overdue(clock.seconds())
            # Whoever asks is not in a statement that could be cancelled.
            self._has_untold = False
            known = self._held.get(held.account)
            return known is not None and known.lease == held

    def take_losses(self) -> list[Loss]:
        """Return what was lost since the last call."""
        with self._guard:
            self._give_up_overdue(clock.seconds())
            losses, self._losses = self._losses, []
            return losses

    def _give_up_overdue(self, now: float) -> None:
        """Treat as lost what is past its deadline or the hard limit; guarded."""
        for held in list(self._held.values()):
            if now - held.claimed_at >= self._terms.hard_limit:
                limit = f"the hard limit of {self._terms.hard_limit:g} s"
                detail = f"it took longer than {limit}"
                self._lose(Loss(held.lease, detail, hard_limit=True))
            elif now >= held.deadline:
                self._lose(Loss(held.lease, "no renewal succeeded before its deadline"))

    def _lose(self, loss: Loss) -> None:
        self._held.pop(loss.lease.account, None)
        self._losses.append(loss)
        self._has_untold = True

    def _run(self) -> None:
        wait = self._terms.every
        while not self._stopped.wait(wait):
            wait = self._terms.every if self._round() else self._retry_seconds
        self._close()

    @property
    def _retry_seconds(self) -> float:
        return min(_RETRY_SECONDS, self._terms.every / 4)

    def _round(self) -> bool:
        """Renew everything once; false if it should be tried again soon."""
        with self._guard:
            self._give_up_overdue(clock.seconds())
            leases = [held.lease for held in self._held.values()]
        succeeded = self._renew(leases)
        with self._guard:
            self._give_up_overdue(clock.seconds())
            # Told once: the others of the batch are worked on again from the beginning,
            # and would be cancelled at each renewal.
            has_untold, self._has_untold = self._has_untold, False
        if has_untold:
            self._on_loss()
        return succeeded

    def _renew(self, leases: list[Lease]) -> bool:
        """Ask the database, bucket by bucket, so that each answer counts at once."""
        try:
            for group in _by_bucket(leases):
                started = clock.seconds()
                lost = lease.renew(
                    self._connection(), group, ttl_seconds=self._terms.ttl
                )
                self._learn(group, lost, started)
        except (psycopg.Error, PgbillError) as error:
            _log.warning("a renewal failed and is tried again: %s", error)
            self._close()
            return False
        return True

    def _learn(self, asked: list[Lease], lost: list[Lease], started: float) -> None:
        with self._guard:
            for each in asked:
                held = self._held.get(each.account)
                # Dropped or claimed anew while the database was asked.
                if held is None or held.lease != each:
                    continue
                if each in lost:
                    self._lose(Loss(each, "another worker has claimed the account"))
                else:
                    held.deadline = started + self._terms.ttl - self._terms.margin

    def _connection(self) -> Connection[Any]:
        if self._conn is None or self._conn.closed:
            self._conn = self._connect()
        return self._conn

    def _close(self) -> None:
        if self._conn is not None:
            with contextlib.suppress(psycopg.Error):
                self._conn.close()
            self._conn = None


def _by_bucket(leases: Iterable[Lease]) -> Iterator[list[Lease]]:
    buckets: dict[int, list[Lease]] = {}
    for each in leases:
        buckets.setdefault(each.bucket, []).append(each)
    yield from (buckets[bucket] for bucket in sorted(buckets))
