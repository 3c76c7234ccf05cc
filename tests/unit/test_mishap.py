"""Who works on the first account sleeps, another one dies, and nobody stays asleep."""

import os
import signal
from datetime import UTC, datetime

import pytest

from pgbill.mishap import Held, Mishaps, Schedule

NOW = datetime(2026, 10, 31, tzinfo=UTC)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return what is sent to processes, which do not get it."""
    signals: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: signals.append((pid, number)))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    return signals


def _held(account: str, pid: int) -> Held:
    return Held(account, pid, f"{account}{pid}", NOW)


def _mishaps(*, after: float = 0, asleep: float = 0) -> Mishaps:
    return Mishaps(Schedule(["A", "B", "C"], after=after, asleep=asleep))


def test_all_happens_in_its_order(sent: list[tuple[int, int]]) -> None:
    with _mishaps() as mishaps:
        mishaps.watch([_held("A", 1), _held("B", 1), _held("C", 2)], NOW)
        mishaps.watch([_held("A", 1)], NOW)

    assert mishaps.is_over
    assert sent == [(1, signal.SIGSTOP), (2, signal.SIGKILL), (1, signal.SIGCONT)]


def test_nobody_is_hit_before_the_time(sent: list[tuple[int, int]]) -> None:
    with _mishaps(after=60) as mishaps:
        mishaps.watch([_held("A", 1), _held("B", 2)], NOW)

    assert sent == []


def test_one_that_sleeps_is_not_killed(sent: list[tuple[int, int]]) -> None:
    with _mishaps(asleep=60) as mishaps:
        mishaps.watch([_held("A", 1), _held("B", 1)], NOW)

    assert [number for _, number in sent] == [signal.SIGSTOP, signal.SIGCONT]


def test_who_sleeps_is_woken_whatever_happens(sent: list[tuple[int, int]]) -> None:
    with pytest.raises(KeyboardInterrupt):
        _be_interrupted()

    assert sent == [(1, signal.SIGSTOP), (1, signal.SIGCONT)]


def _be_interrupted() -> None:
    with _mishaps(asleep=60) as mishaps:
        mishaps.watch([_held("A", 1)], NOW)
        raise KeyboardInterrupt
