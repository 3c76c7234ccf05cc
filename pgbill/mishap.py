"""Let a worker sleep past the expiry of what it holds, and kill another.

The schedule is told in accounts and seconds, so that it is the same for pipelines that
share out their work differently: whoever works on the first account is stopped, and
woken when the expiry is long over; whoever else works on one of the others is killed.
Whatever happens to the replay itself, nobody is left asleep.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Self

Kind = Literal["stopped", "woken", "killed"]


@dataclass(frozen=True, slots=True)
class Held:
    """What a worker process works on at this moment."""

    account: str
    pid: int
    claim: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Strike:
    """What was done to a worker process."""

    kind: Kind
    at: datetime
    pid: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """Whom it hits, and when, in seconds."""

    accounts: Sequence[str]
    """The worker on the first of them falls asleep, one on another dies."""
    after: float
    """How long a worker has had the account when it is hit."""
    asleep: float


@dataclass
class Mishaps:
    """A schedule under way. As a context manager it wakes who is still asleep."""

    schedule: Schedule
    strikes: list[Strike] = field(default_factory=list[Strike])

    def __post_init__(self) -> None:
        """Begin with nobody hit."""
        self._first_seen: dict[str, float] = {}
        self._sleeper: int | None = None
        self._wakes_at = 0.0

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Wake who is still asleep."""
        if self._is_asleep:
            _signal(self._sleeper, signal.SIGCONT)

    def watch(self, held: Sequence[Held], now: datetime) -> None:
        """Do what is due, given who works on what; to be called again and again."""
        clock = time.monotonic()
        for each in held:
            self._first_seen.setdefault(each.claim, clock)
        ripe = [each for each in held if self._is_ripe(each, clock)]
        if self._sleeper is None:
            self._stop(_on(ripe, self.schedule.accounts[:1]), now)
        elif self._is_asleep and clock >= self._wakes_at:
            self._strike("woken", self._sleeper, now)
        if not self._has("killed"):
            self._kill(_on(ripe, self.schedule.accounts[1:]), now)

    @property
    def is_over(self) -> bool:
        """Whether all has happened."""
        return self._has("woken") and self._has("killed")

    @property
    def _is_asleep(self) -> bool:
        return self._has("stopped") and not self._has("woken")

    def _has(self, kind: Kind) -> bool:
        return any(each.kind == kind for each in self.strikes)

    def _is_ripe(self, held: Held, clock: float) -> bool:
        return clock - self._first_seen[held.claim] >= self.schedule.after

    def _stop(self, held: Iterable[Held], now: datetime) -> None:
        for each in held:
            self._sleeper = each.pid
            self._wakes_at = time.monotonic() + self.schedule.asleep
            self._strike("stopped", each.pid, now)
            return

    def _kill(self, held: Iterable[Held], now: datetime) -> None:
        """Kill one; who sleeps, or is to, is spared."""
        for each in held:
            if self._sleeper not in (None, each.pid):
                self._strike("killed", each.pid, now)
                return

    def _strike(self, kind: Kind, pid: int | None, now: datetime) -> None:
        assert pid is not None
        _signal(pid, _SIGNALS[kind])
        self.strikes.append(Strike(kind, now, pid))


_SIGNALS: dict[Kind, signal.Signals] = {
    "stopped": signal.SIGSTOP,
    "woken": signal.SIGCONT,
    "killed": signal.SIGKILL,
}


def _on(held: Iterable[Held], accounts: Sequence[str]) -> list[Held]:
    return sorted(
        (each for each in held if each.account in accounts),
        key=lambda each: accounts.index(each.account),
    )


def _signal(pid: int | None, number: signal.Signals) -> None:
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
