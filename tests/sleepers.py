"""Eight workers with short leases, a quarter of which keeps falling asleep.

A program of its own, so that its workers are forked from a process without threads. A
sleeper stops its whole process, renewals and all, between its claims and the statement
that bills them; it is woken long after its leases have expired, and goes on as if
nothing had happened. Prints what was reported in the end, as JSON.
"""

import argparse
import json
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date

from pgbill.crew import Crew
from pgbill.issuing import Billed
from pgbill.job import Tally
from pgbill.lease import Lease
from pgbill.worker import Shift
from tests.shifts import add, job

_WORKERS = 8
_SLEEPERS = 2
_TTL_SECONDS = 0.3
_NAP_SECONDS = 0.5
_EVERY_NAP = 3


def _fall_asleep_before_some_commits() -> None:
    commit = Shift._commit  # pyright: ignore[reportPrivateUsage]
    count = 0

    def sleepy(self: Shift, live: Sequence[Lease]) -> list[Billed]:
        nonlocal count
        count += 1
        job = self._job  # pyright: ignore[reportPrivateUsage]
        if job.first_bucket < _SLEEPERS * 256 // _WORKERS and count % _EVERY_NAP == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
        return commit(self, live)

    Shift._commit = sleepy  # pyright: ignore[reportPrivateUsage]


class _Waker:
    """Wakes the processes that have stopped themselves."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids
        self._wake_at: dict[int, float] = {}
        self.naps = 0

    def look(self) -> None:
        now = time.monotonic()
        for pid in self._pids:
            if pid in self._wake_at:
                if now >= self._wake_at[pid]:
                    del self._wake_at[pid]
                    os.kill(pid, signal.SIGCONT)
            elif self._is_asleep(pid):
                self.naps += 1
                self._wake_at[pid] = now + _NAP_SECONDS

    def _is_asleep(self, pid: int) -> bool:
        flags = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        try:
            return os.waitid(os.P_PID, pid, flags) is not None
        except ChildProcessError:
            return False


def main() -> None:
    """Run the workers until nothing is due."""
    parser = argparse.ArgumentParser()
    parser.add_argument("dsn")
    parser.add_argument("through_on", type=date.fromisoformat)
    given = parser.parse_args()
    _fall_asleep_before_some_commits()
    crew = Crew()
    for number in range(_WORKERS):
        crew.start(
            job(
                given.dsn,
                through_on=given.through_on,
                ttl=_TTL_SECONDS,
                batch_size=10,
                first_bucket=number * 256 // _WORKERS,
                max_attempts=1000,
            )
        )
    members = crew._members  # pyright: ignore[reportPrivateUsage]
    waker = _Waker([int(member.process.pid or 0) for member in members])
    total = Tally()
    while len(crew):
        for news in crew.hear(0.05):
            if isinstance(news, Tally):
                add(total, news)
            else:
                assert news.exit_code == 0, news
        waker.look()
    print(json.dumps({**asdict(total), "naps": waker.naps}))  # noqa: T201


if __name__ == "__main__":
    main()
