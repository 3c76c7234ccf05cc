"""Lay out who held what, and when, as rows of bars and marks.

A claim is a bar: solid while lock or lease protects it, uncovered from its expiry to
the end of the work, and a mere remainder if its holder is dead. Claims of an account
that overlap take lanes beside each other, so that two workers on one account are seen
as what they are. Nothing here draws or asks; it only computes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from operator import attrgetter

from pgbill.mishap import Strike

# A lock that was taken and given back at once, because the account was done already.
_TOO_SHORT_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to a claim.

    claimed, invoiced, mailed, released, expired or abandoned.
    """

    account: str
    at: datetime
    kind: str
    claim: str
    holder: str
    detail: str | None

    @property
    def pid(self) -> int:
        """The process of its holder."""
        return int(self.holder.rpartition(":")[2])


@dataclass(frozen=True, slots=True)
class Bar:
    """A claim, in seconds since the beginning."""

    worker: int
    """Counted from 1, by the first claim of each."""
    begins: float
    covered: float
    """Until when lock or lease protected it."""
    ends: float
    """When its holder was done with it, or dead."""
    outcome: str
    """invoiced, dropped, killed, or nothing."""

    @property
    def last(self) -> float:
        """When there is nothing left of it."""
        return max(self.covered, self.ends)

    @property
    def is_expired(self) -> bool:
        """Whether its time was over before its holder was done."""
        return self.covered < self.ends or self.outcome == "killed"


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment: invoiced, copy, expired, dropped, stopped, woken or killed."""

    kind: str
    at: float
    worker: int
    number: int = 0
    """Of an invoice: the how many-th of its account."""


@dataclass(frozen=True, slots=True)
class Row:
    """An account."""

    account: str
    lanes: list[list[Bar]]
    marks: list[Mark]


@dataclass(frozen=True, slots=True)
class Timeline:
    """What became of all accounts, each a row."""

    rows: dict[str, Row]
    seconds: float
    holders: list[str]


@dataclass(frozen=True, slots=True)
class Copies:
    """How many accounts were invoiced how often."""

    invoices: int
    accounts: int
    twice: int
    three_times: int
    more_often: int
    most: int

    @property
    def repeated(self) -> int:
        """How many were invoiced more than once."""
        return self.twice + self.three_times + self.more_often


def count(invoiced: Iterable[str]) -> Copies:
    """Count copies; each element is the account of an invoice."""
    by_account = Counter(invoiced)
    times = Counter(by_account.values())
    twice, three_times = 2, 3
    return Copies(
        invoices=by_account.total(),
        accounts=len(by_account),
        twice=times[twice],
        three_times=times[three_times],
        more_often=sum(n for often, n in times.items() if often > three_times),
        most=max(times, default=0),
    )


@dataclass(slots=True)
class _Claim:
    events: list[Event]
    covered_until: datetime | None = None

    @property
    def first(self) -> Event:
        return self.events[0]

    def at(self, *kinds: str) -> datetime | None:
        return next((each.at for each in self.events if each.kind in kinds), None)

    @property
    def done_at(self) -> datetime | None:
        """When its holder was last heard of; the expiry is somebody else's word."""
        told = [each.at for each in self.events[1:] if each.kind != "expired"]
        return max(told, default=None)


@dataclass(slots=True)
class _Layout:
    """What is known while the rows are made."""

    begins_at: datetime
    seconds: float
    strikes: Sequence[Strike]
    holders: list[str] = field(default_factory=list[str])

    def since(self, at: datetime) -> float:
        return (at - self.begins_at).total_seconds()

    def row(self, account: str, claims: Sequence[_Claim]) -> Row:
        bars: list[tuple[_Claim, Bar]] = []
        for each in claims:
            bar = self._bar(each)
            if bar.outcome or bar.last - bar.begins >= _TOO_SHORT_SECONDS:
                bars.append((each, bar))
        marks = [mark for claim, bar in bars for mark in self._marks(claim, bar)]
        marks += self._invoices(bars)
        return Row(
            account, _lanes([bar for _, bar in bars]), sorted(marks, key=_by_time)
        )

    def _bar(self, claim: _Claim) -> Bar:
        first = claim.first
        killed_at = self._struck(first, "killed", claim.done_at)
        ends_at = claim.done_at or killed_at
        ends = self.seconds if ends_at is None else self.since(ends_at)
        covered = ends
        if claim.covered_until is not None:
            covered = self.since(claim.covered_until)
        outcome = ""
        if claim.at("invoiced"):
            outcome = "invoiced"
        elif claim.at("abandoned"):
            outcome = "dropped"
        elif killed_at:
            outcome = "killed"
        return Bar(
            worker=self.holders.index(first.holder) + 1,
            begins=self.since(first.at),
            covered=covered if outcome == "killed" else min(covered, ends),
            ends=ends,
            outcome=outcome,
        )

    def _struck(
        self, first: Event, kind: str, before: datetime | None
    ) -> datetime | None:
        """When the holder was struck while it worked on the claim."""
        return next(
            (
                each.at
                for each in self.strikes
                if each.kind == kind
                and each.pid == first.pid
                and each.at >= first.at
                and (before is None or each.at <= before)
            ),
            None,
        )

    def _marks(self, claim: _Claim, bar: Bar) -> list[Mark]:
        marks: list[Mark] = []
        for kind in ("stopped", "woken", "killed"):
            at = self._struck(claim.first, kind, claim.done_at)
            if at is not None:
                marks.append(Mark(kind, self.since(at), bar.worker))
        if bar.is_expired:
            marks.append(Mark("expired", bar.covered, bar.worker))
        if bar.outcome == "dropped":
            marks.append(Mark("dropped", bar.ends, bar.worker))
        return marks

    def _invoices(self, bars: Sequence[tuple[_Claim, Bar]]) -> list[Mark]:
        """Mark each invoice; those after the first are copies."""
        issued = [
            (at, bar.worker)
            for claim, bar in bars
            if (at := claim.at("invoiced")) is not None
        ]
        return [
            Mark("copy" if number > 1 else "invoiced", self.since(at), worker, number)
            for number, (at, worker) in enumerate(sorted(issued), start=1)
        ]


def build(
    events: Sequence[Event],
    *,
    expiries: Mapping[str, datetime],
    strikes: Sequence[Strike],
) -> Timeline:
    """Lay events out.

    Args:
        events: In the order of time.
        expiries: When each claim expired, or would have, as far as it is known.
        strikes: What was done to worker processes.
    """
    if not events:
        return Timeline({}, 0, [])
    begins_at = events[0].at
    ends_at = max([events[-1].at, *(each.at for each in strikes)])
    layout = _Layout(begins_at, (ends_at - begins_at).total_seconds(), strikes)
    claims = _claims(events, expiries)
    layout.holders += dict.fromkeys(each.first.holder for each in claims)
    by_account = sorted(claims, key=lambda each: each.first.account)
    rows = {
        account: layout.row(account, list(group))
        for account, group in groupby(by_account, key=lambda each: each.first.account)
    }
    return Timeline(rows, layout.seconds, layout.holders)


def _claims(events: Iterable[Event], expiries: Mapping[str, datetime]) -> list[_Claim]:
    claims: dict[str, _Claim] = {}
    for event in events:
        known = claims.get(event.claim)
        if known is not None:
            known.events.append(event)
        elif event.kind == "claimed":
            claims[event.claim] = _Claim([event], expiries.get(event.claim))
        # A key that was deleted by somebody else protects nothing any more.
        victim = claims.get(event.detail or "")
        if victim is not None and event.detail != event.claim:
            known_until = victim.covered_until or event.at
            victim.covered_until = min(known_until, event.at)
    return list(claims.values())


def _lanes(bars: Iterable[Bar]) -> list[list[Bar]]:
    """Share bars out so that none overlaps another of its lane."""
    lanes: list[list[Bar]] = []
    for bar in sorted(bars, key=attrgetter("begins")):
        for lane in lanes:
            if lane[-1].last <= bar.begins:
                lane.append(bar)
                break
        else:
            lanes.append([bar])
    return lanes


def _by_time(mark: Mark) -> float:
    return mark.at
