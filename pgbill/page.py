"""Show the replay as one HTML page: the numbers, and a timeline of who held what.

The page needs nothing but itself: no script, no font, no address. Both pipelines share
the time axis and the accounts, so that a row of one can be read against the same row
of the other. Positions are percentages, so it fits a phone, a screen and a sheet of
paper.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import jinja2

from pgbill import comparison, resources
from pgbill.incident import Plan, Replay
from pgbill.timeline import Bar, Mark, Row, Timeline

_ROWS = 14
_TICKS = (0.5, 1, 2, 5, 10, 20, 60)
_TICK_COUNT = 10
# A bar that is narrower has no room for its worker's number.
_ROOM_PERCENT = 2.2
_INSTANT_SECONDS = 0.06


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a bar, in percent of the axis."""

    style: str
    """held, late or dead."""
    worker: int
    left: float
    width: float
    label: str
    title: str


@dataclass(frozen=True, slots=True)
class _Sign:
    """A mark, in percent of the axis."""

    kind: str
    left: float
    label: str
    title: str


@dataclass(frozen=True, slots=True)
class _Lane:
    pieces: list[_Piece]
    signs: list[_Sign]


@dataclass(frozen=True, slots=True)
class _Line:
    account: str
    note: str
    lanes: list[_Lane]


@dataclass(frozen=True, slots=True)
class _Chart:
    name: str
    note: str
    lines: list[_Line]


@dataclass(frozen=True, slots=True)
class _Tick:
    left: float
    label: str


def render(replay: Replay) -> str:
    """Return the page."""
    seconds = max(replay.lock_timeline.seconds, replay.pgbill_timeline.seconds) * 1.01
    accounts = list(islice(dict.fromkeys(_accounts(replay)), _ROWS))
    sides = replay.plan, replay.lock, replay.pgbill
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.from_string(
        resources.path("templates", "incident.html.jinja").read_text(encoding="utf-8")
    )
    return template.render(
        replay=replay,
        rows=comparison.rows(*sides),
        sentences=comparison.sentences(*sides),
        lock_copies=replay.lock.copies.repeated,
        pgbill_copies=replay.pgbill.copies.repeated,
        charts=[
            _Chart(
                "Behind a lock that expires",
                "Two bars above each other are two workers on one account at a time.",
                _lines(replay.lock_timeline, replay.plan, accounts, seconds),
            ),
            _Chart(
                "With pgbill",
                "Leases are renewed while the work goes on; whose is lost drops it.",
                _lines(replay.pgbill_timeline, replay.plan, accounts, seconds),
            ),
        ],
        ticks=_ticks(seconds),
        more=len(replay.plan.due) - len(accounts),
        worker_count=max(
            len(replay.lock_timeline.holders), len(replay.pgbill_timeline.holders)
        ),
    )


def _accounts(replay: Replay) -> Iterator[str]:
    """Name the accounts to show: the slow ones, then others whose lease was lost."""
    yield from replay.plan.slow
    for each in (replay.pgbill_timeline, replay.lock_timeline):
        for account, row in each.rows.items():
            is_disturbed = any(bar.is_expired for lane in row.lanes for bar in lane)
            if is_disturbed and account not in replay.plan.slow:
                yield account


def _lines(
    timeline: Timeline, plan: Plan, accounts: Sequence[str], seconds: float
) -> list[_Line]:
    rows = [timeline.rows.get(account, Row(account, [], [])) for account in accounts]
    return [
        _Line(
            row.account,
            f"{plan.slow[row.account]:.1f} s" if row.account in plan.slow else "",
            [_lane(row, bars, seconds) for bars in row.lanes],
        )
        for row in rows
    ]


def _lane(row: Row, bars: Sequence[Bar], seconds: float) -> _Lane:
    return _Lane(
        [piece for bar in bars for piece in _pieces(bar, seconds)],
        [_sign(mark, seconds) for mark in row.marks if _is_in(mark, bars)],
    )


def _pieces(bar: Bar, seconds: float) -> Iterator[_Piece]:
    """Cut a bar where its lock or lease ends, or its holder."""
    held_until = min(bar.covered, bar.ends)
    worker = f"worker {bar.worker}"
    parts = [("held", bar.begins, held_until, f"{worker} at work")]
    if bar.covered < bar.ends:
        title = f"{worker} goes on after the expiry"
        parts.append(("late", bar.covered, bar.ends, title))
    elif bar.covered > bar.ends:
        parts.append(("dead", bar.ends, bar.covered, f"{worker} is dead"))
    for style, begins, ends, title in parts:
        width = 100 * (ends - begins) / seconds
        yield _Piece(
            style=style,
            worker=bar.worker,
            left=100 * begins / seconds,
            width=width,
            label=str(bar.worker) if style == "held" and width > _ROOM_PERCENT else "",
            title=f"{title}: {begins:.2f} to {ends:.2f} s",
        )


_TITLES = {
    "invoiced": "invoiced by worker {worker}",
    "copy": "invoiced again, by worker {worker}",
    "expired": "expired while worker {worker} was not done",
    "dropped": "worker {worker} drops the work: its lease is lost",
    "stopped": "worker {worker} falls asleep (SIGSTOP)",
    "woken": "worker {worker} wakes up (SIGCONT)",
    "killed": "worker {worker} is killed (SIGKILL)",
}


def _sign(mark: Mark, seconds: float) -> _Sign:
    title = _TITLES[mark.kind].format(worker=mark.worker)
    return _Sign(
        kind=mark.kind,
        left=100 * mark.at / seconds,
        label=str(mark.number) if mark.kind == "copy" else "",
        title=f"{title}: {mark.at:.2f} s",
    )


def _is_in(mark: Mark, bars: Sequence[Bar]) -> bool:
    return any(
        bar.worker == mark.worker
        and bar.begins - _INSTANT_SECONDS <= mark.at <= bar.last + _INSTANT_SECONDS
        for bar in bars
    )


def _ticks(seconds: float) -> list[_Tick]:
    step = next((each for each in _TICKS if seconds / each <= _TICK_COUNT), _TICKS[-1])
    return [
        _Tick(100 * number * step / seconds, f"{number * step:g}")
        for number in range(int(seconds / step) + 1)
    ]
