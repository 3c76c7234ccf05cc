"""A breaker opens when a third of the recent calls fail, and closes by a probe."""

from collections.abc import Callable

import pytest

from pgbill.breaker import AT_LEAST, DENIALS, RECENT, Breaker, Pass

REST = 10.0


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        """Return what it shows."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker(rest_seconds=REST, clock=clock)


def admitted(breaker: Breaker) -> Pass:
    found = breaker.admit()
    assert found is not None
    return found


def call(breaker: Breaker, *, fails: bool) -> None:
    given = admitted(breaker)
    breaker.failed(given, "503") if fails else breaker.succeeded(given)


def open_up(breaker: Breaker) -> None:
    for _ in range(AT_LEAST):
        call(breaker, fails=True)
    assert breaker.is_open


def test_a_few_failures_say_nothing_of_a_service(breaker: Breaker) -> None:
    for _ in range(AT_LEAST - 1):
        call(breaker, fails=True)

    assert not breaker.is_open


def test_a_few_denials_are_enough_if_nothing_else_has_come(breaker: Breaker) -> None:
    for _ in range(DENIALS):
        assert not breaker.is_open
        breaker.denied(admitted(breaker), "401")

    assert breaker.is_open
    assert breaker.reason == "401"


@pytest.mark.parametrize("fails", [False, True])
def test_a_few_denials_are_not_enough_for_one_that_lets_us_in(
    breaker: Breaker, fails: bool
) -> None:
    """It was only this account's address, perhaps."""
    call(breaker, fails=fails)

    for _ in range(AT_LEAST - 2):
        breaker.denied(admitted(breaker), "404")

    assert not breaker.is_open


@pytest.mark.parametrize(("fails", "opens"), [(9, False), (10, True)])
def test_it_opens_when_a_third_of_the_recent_calls_fail(
    breaker: Breaker, fails: int, opens: bool
) -> None:
    for number in range(RECENT):
        call(breaker, fails=number >= RECENT - fails)

    assert breaker.is_open == opens


def test_what_is_long_past_is_forgotten(breaker: Breaker) -> None:
    for _ in range(AT_LEAST - 1):
        call(breaker, fails=True)
    for _ in range(RECENT):
        call(breaker, fails=False)

    for _ in range(AT_LEAST - 1):
        call(breaker, fails=True)

    assert not breaker.is_open


def test_while_it_is_open_nobody_is_let_through(breaker: Breaker, clock: Clock) -> None:
    open_up(breaker)

    clock.now += REST - 0.1

    assert breaker.admit() is None
    assert breaker.wait_seconds == pytest.approx(0.1)
    assert breaker.reason == "503"


def test_after_a_rest_one_probe_is_let_through(breaker: Breaker, clock: Clock) -> None:
    open_up(breaker)
    clock.now += REST

    assert admitted(breaker).is_probe
    assert breaker.admit() is None


def test_a_probe_that_is_answered_closes_it(breaker: Breaker, clock: Clock) -> None:
    open_up(breaker)
    clock.now += REST

    call(breaker, fails=False)

    assert not breaker.is_open
    assert breaker.trouble_seconds == 0
    assert not admitted(breaker).is_probe


def test_a_probe_that_fails_makes_it_rest_longer(
    breaker: Breaker, clock: Clock
) -> None:
    open_up(breaker)
    clock.now += REST

    call(breaker, fails=True)

    clock.now += 2 * REST - 0.1
    assert breaker.admit() is None
    clock.now += 0.1
    assert admitted(breaker).is_probe
    assert breaker.trouble_seconds == 3 * REST


def test_a_probe_that_is_dropped_makes_room_for_another(
    breaker: Breaker, clock: Clock
) -> None:
    """Its account's lease was lost, say."""
    open_up(breaker)
    clock.now += REST

    breaker.withdrawn(admitted(breaker))

    assert admitted(breaker).is_probe


@pytest.mark.parametrize("tell", ["succeeded", "failed"])
def test_calls_from_before_it_opened_are_no_news(
    breaker: Breaker, clock: Clock, tell: str
) -> None:
    """A slow answer to an old question neither closes it nor keeps it open."""
    old = admitted(breaker)
    open_up(breaker)
    clock.now += REST
    probe = admitted(breaker)

    told: Callable[..., None] = getattr(breaker, tell)
    told(old, *(["late"] if tell == "failed" else []))

    assert breaker.is_open
    breaker.succeeded(probe)
    assert not breaker.is_open


def test_a_limit_is_kept_by_all_and_is_no_failure(
    breaker: Breaker, clock: Clock
) -> None:
    for _ in range(2 * AT_LEAST):
        breaker.limited(Pass(0, is_probe=False), 5, "429")

    assert not breaker.is_open
    assert breaker.admit() is None
    clock.now += 5
    assert breaker.admit() is not None


def test_being_limited_for_ever_is_trouble_too(breaker: Breaker, clock: Clock) -> None:
    for _ in range(4):
        breaker.limited(admitted(breaker), 5, "429")
        clock.now += 5

    assert breaker.trouble_seconds == 20
    call(breaker, fails=False)
    assert breaker.trouble_seconds == 0
