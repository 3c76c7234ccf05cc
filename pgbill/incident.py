"""Plan the replay, the same for both pipelines, and keep what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pgbill import timeline
from pgbill.mishap import Schedule
from pgbill.timeline import Copies, Timeline

_LATENCY_SECONDS = 0.08
# How long the slow answers take, in expiries, the largest account first; see the story.
_EXPIRIES = (2.2, 2.0, 2.6, 2.0, 2.0, 3.0)
_STRUCK_AFTER = 0.4
_ASLEEP = 2.5


@dataclass(frozen=True, slots=True)
class Plan:
    """What is replayed, for both alike."""

    through: str
    due: list[str]
    slow: dict[str, float]
    """Account: how many seconds the tax service takes for it."""
    workers: int
    ttl_seconds: float

    def latency(self, question: Mapping[str, Any]) -> float:
        """Return how long an answer takes; the key begins with the account's."""
        account = str(question["key"]).partition("/")[0]
        return self.slow.get(account, _LATENCY_SECONDS)

    @classmethod
    def of(
        cls, due: list[str], *, through: str, workers: int, ttl_seconds: float
    ) -> Self:
        """Let the answers for the first of them be slow."""
        pairs = zip(due, _EXPIRIES, strict=False)
        slow = {account: times * ttl_seconds for account, times in pairs}
        return cls(through, due, slow, workers, ttl_seconds)

    @property
    def schedule(self) -> Schedule:
        """Whom it hits."""
        return Schedule(
            list(self.slow), after=_STRUCK_AFTER, asleep=_ASLEEP * self.ttl_seconds
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the schedule did to a pipeline."""

    copies: Copies
    mails: int
    expired: int
    """Locks, or leases, that expired before their holder was done."""
    went_on: int
    """Of these: whose holder wrote its invoice all the same."""
    dropped: int
    """Work that was given up because the lease was lost."""
    refused: int
    """Late writes, tried with the tokens of lost leases, that the fence refused."""
    foreign_keys: int
    """Keys deleted that were another worker's by then."""
    alerts: int
    findings: int | None
    """Of the audit; none: there is nothing that could be asked."""
    seconds: float

    @classmethod
    def of(
        cls, invoiced: Sequence[str], seen: Timeline, *, seconds: float, mails: int
    ) -> Self:
        """Count what can be counted in both, of the accounts of invoices."""
        bars = [bar for row in seen.rows.values() for lane in row.lanes for bar in lane]
        return cls(
            copies=timeline.count(invoiced),
            mails=mails,
            expired=sum(bar.is_expired for bar in bars),
            went_on=sum(bar.is_expired and bar.outcome == "invoiced" for bar in bars),
            dropped=sum(bar.outcome == "dropped" for bar in bars),
            refused=0,
            foreign_keys=0,
            alerts=0,
            findings=None,
            seconds=seconds,
        )


@dataclass(frozen=True, slots=True)
class Replay:
    """Both, side by side."""

    plan: Plan
    lock: Outcome
    pgbill: Outcome
    lock_timeline: Timeline
    pgbill_timeline: Timeline
