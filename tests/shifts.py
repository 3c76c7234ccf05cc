"""Shifts of a worker, run to their end within the test's process."""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any

from pgbill import taxing
from pgbill.issuing import Policy
from pgbill.job import Job, Tally, TaxService
from pgbill.lease import Account, Scope
from pgbill.renewal import Terms
from pgbill.worker import Shift
from tests.shop import FIRST_DAY

PATIENCE_SECONDS = 30.0


def job(
    dsn: str,
    *,
    run_id: int = 1,
    through_on: date | None = FIRST_DAY,
    account: Account | None = None,
    ttl: float = 60,
    every: float | None = None,
    hard_limit: float = 1800,
    batch_size: int = 100,
    first_bucket: int = 0,
    tax: TaxService | None = None,
    **policy: Any,  # noqa: ANN401
) -> Job:
    """Describe the work of a worker; leases are renewed three times in their life."""
    defaults = Policy("live", None, max_due_periods=3, max_attempts=5)
    return Job(
        dsn=dsn,
        scope=Scope(run_id, through_on, account),
        policy=replace(defaults, **policy),
        terms=Terms(ttl, every or ttl / 3, min(5, ttl / 4), hard_limit),
        batch_size=batch_size,
        first_bucket=first_bucket,
        tax=tax,
    )


def run_shift(work: Job, prepare: Callable[[Shift], object] | None = None) -> Tally:
    """Work until nothing is due, and return the sum of what was reported.

    A shift that does not end in time is told to stop, and fails the test.
    """
    total = Tally()
    shift = taxing.shift(work, lambda tally: add(total, tally))
    if prepare is not None:
        prepare(shift)
    too_late = threading.Event()

    def give_up() -> None:
        too_late.set()
        shift.stop()

    timer = threading.Timer(PATIENCE_SECONDS, give_up)
    timer.start()
    try:
        shift.run()
    finally:
        timer.cancel()
    assert not too_late.is_set(), "the shift did not come to its end"
    return total


def add(total: Tally, tally: Tally) -> None:
    """Add what was reported."""
    for field in Tally.__dataclass_fields__:
        setattr(total, field, getattr(total, field) + getattr(tally, field))
