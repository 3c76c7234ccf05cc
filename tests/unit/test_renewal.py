"""A worker gives up in time by itself, whatever it can or cannot ask.

Deadlines are local: no database is needed to tell that a lease may not be worked on any
more. What the database answers is tested on a real one, in test_worker.py.
"""

import time
from datetime import date
from typing import Any, NoReturn, cast

import psycopg
import pytest
from psycopg import Connection

from pgbill import clock, lease
from pgbill.lease import Lease
from pgbill.renewal import Renewal, Terms

TERMS = Terms(ttl=60, every=20, margin=5, hard_limit=1800)
HELD = Lease(7, 1, 100, date(2026, 1, 1), is_suspect=False)
OTHER = Lease(9, 2, 101, date(2026, 1, 1), is_suspect=False)


class Hands:
    """The hands of the worker's clock, moved by the test."""

    def __init__(self) -> None:
        """Begin at some moment in the past."""
        self.seconds = 1000.0

    def __call__(self) -> float:
        """Show the time."""
        return self.seconds


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    """Return what moves the clock."""
    hands = Hands()
    monkeypatch.setattr(clock, "seconds", hands)
    return hands


def _unreachable() -> NoReturn:
    raise psycopg.OperationalError("no route to host")


def _renewal(terms: Terms = TERMS) -> Renewal:
    return Renewal(_unreachable, terms, on_loss=lambda: None)


def _details(renewal: Renewal) -> list[str]:
    return [loss.detail for loss in renewal.take_losses()]


def test_a_lease_is_live_until_its_deadline(hands: Hands) -> None:
    """Time to live less the margin, from the moment before the claim."""
    renewal = _renewal()
    renewal.hold([HELD], since=hands.seconds)

    hands.seconds += 54.9
    assert renewal.is_live(HELD)

    hands.seconds += 0.2
    assert not renewal.is_live(HELD)
    assert _details(renewal) == ["no renewal succeeded before its deadline"]


def test_a_loss_is_told_once(hands: Hands) -> None:
    renewal = _renewal()
    renewal.hold([HELD], since=hands.seconds)
    hands.seconds += 60

    assert len(renewal.take_losses()) == 1
    assert renewal.take_losses() == []


def test_what_is_dropped_is_neither_live_nor_lost(hands: Hands) -> None:
    renewal = _renewal()
    renewal.hold([HELD, OTHER], since=hands.seconds)

    renewal.drop([HELD])
    hands.seconds += 60

    assert not renewal.is_live(HELD)
    assert [loss.lease for loss in renewal.take_losses()] == [OTHER]


def test_a_newer_lease_of_the_account_is_another(hands: Hands) -> None:
    renewal = _renewal()
    newer = Lease(7, 1, 200, date(2026, 2, 1), is_suspect=False)
    renewal.hold([HELD], since=hands.seconds)
    renewal.hold([newer], since=hands.seconds)

    renewal.drop([HELD])

    assert not renewal.is_live(HELD)
    assert renewal.is_live(newer)


class Line:
    """What stands for a connection where the answers are the test's own."""

    closed = False

    def close(self) -> None:
        """End it."""
        self.closed = True


class Database:
    """Answers of a database to renewals."""

    def __init__(self) -> None:
        """Hold every lease, and answer."""
        self.lost: set[Lease] = set()
        self.is_away = False
        self.asked: list[list[int]] = []
        self.lines: list[Line] = []

    def connect(self) -> Connection[Any]:
        """Return another connection."""
        self.lines.append(Line())
        return cast("Connection[Any]", self.lines[-1])

    def renew(
        self, _: Connection[Any], leases: list[Lease], *, ttl_seconds: float
    ) -> list[Lease]:
        """Return what is lost, as pgbill.lease.renew does."""
        assert ttl_seconds == TERMS.ttl
        if self.is_away:
            raise psycopg.OperationalError("server closed the connection")
        self.asked.append([each.account_id for each in leases])
        return [each for each in leases if each in self.lost]


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Database:
    """Return a database that renewals ask."""
    database = Database()
    monkeypatch.setattr(lease, "renew", database.renew)
    return database


def _round(renewal: Renewal) -> bool:
    """Do once what the thread does again and again."""
    return renewal._round()  # pyright: ignore[reportPrivateUsage]


def test_each_success_moves_the_deadline(hands: Hands, database: Database) -> None:
    """Counted from before the question: the answer may have taken long."""
    renewal = Renewal(database.connect, TERMS, on_loss=lambda: None)
    renewal.hold([HELD], since=hands.seconds)
    for _ in range(10):
        hands.seconds += 40
        assert _round(renewal)

    hands.seconds += 54.9
    assert renewal.is_live(HELD)
    hands.seconds += 0.2
    assert not renewal.is_live(HELD)


def test_each_bucket_is_asked_by_itself(hands: Hands, database: Database) -> None:
    renewal = Renewal(database.connect, TERMS, on_loss=lambda: None)
    renewal.hold([OTHER, HELD], since=hands.seconds)

    _round(renewal)

    assert database.asked == [[1], [2]]


def test_what_the_database_says_is_lost_is_lost(
    hands: Hands, database: Database
) -> None:
    renewal = Renewal(database.connect, TERMS, on_loss=lambda: None)
    renewal.hold([HELD, OTHER], since=hands.seconds)
    database.lost = {HELD}

    _round(renewal)

    assert renewal.is_live(OTHER)
    assert not renewal.is_live(HELD)
    assert _details(renewal) == ["another worker has claimed the account"]


def test_the_work_is_interrupted_once_for_a_loss(
    hands: Hands, database: Database
) -> None:
    """The others of its batch begin anew, and must not be cancelled at each round."""
    interruptions: list[float] = []
    renewal = Renewal(
        database.connect, TERMS, on_loss=lambda: interruptions.append(hands.seconds)
    )
    renewal.hold([HELD, OTHER], since=hands.seconds)
    database.lost = {HELD}

    for _ in range(3):
        _round(renewal)

    assert len(interruptions) == 1


def test_whoever_has_noticed_a_loss_is_not_interrupted_for_it(
    hands: Hands, database: Database
) -> None:
    interruptions: list[float] = []
    renewal = Renewal(
        database.connect, TERMS, on_loss=lambda: interruptions.append(hands.seconds)
    )
    renewal.hold([HELD], since=hands.seconds)
    hands.seconds += 60
    assert not renewal.is_live(HELD)

    _round(renewal)

    assert interruptions == []


def test_a_deadline_that_passes_interrupts_the_work(
    hands: Hands, database: Database
) -> None:
    interruptions: list[float] = []
    renewal = Renewal(
        database.connect, TERMS, on_loss=lambda: interruptions.append(hands.seconds)
    )
    renewal.hold([HELD], since=hands.seconds)
    database.is_away = True
    hands.seconds += 56

    _round(renewal)

    assert len(interruptions) == 1


def test_a_failure_is_tried_again_on_another_connection(
    hands: Hands, database: Database
) -> None:
    renewal = Renewal(database.connect, TERMS, on_loss=lambda: None)
    renewal.hold([HELD], since=hands.seconds)
    database.is_away = True
    assert not _round(renewal)
    database.is_away = False

    assert _round(renewal)

    assert [line.closed for line in database.lines] == [True, False]
    assert renewal.is_live(HELD)


def test_without_a_database_the_deadline_decides(hands: Hands) -> None:
    renewal = _renewal()
    renewal.hold([HELD], since=hands.seconds)

    assert not _round(renewal)
    assert renewal.is_live(HELD)

    hands.seconds += 55
    assert not renewal.is_live(HELD)


def test_a_hung_job_does_not_renew_for_ever(hands: Hands, database: Database) -> None:
    """Renewals succeed; the hard limit counts from the claim."""
    renewal = Renewal(database.connect, TERMS, on_loss=lambda: None)
    renewal.hold([HELD], since=hands.seconds)
    for _ in range(60):
        hands.seconds += 30
        _round(renewal)

    (loss,) = renewal.take_losses()

    assert loss.hard_limit
    assert loss.detail == "it took longer than the hard limit of 1800 s"


def test_what_was_dropped_while_the_database_was_asked_is_not_lost(
    hands: Hands, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is about a lease that its worker has just released."""
    renewal = Renewal(database.connect, TERMS, on_loss=lambda: None)
    renewal.hold([HELD], since=hands.seconds)
    database.lost = {HELD}

    def drop_meanwhile(
        conn: Connection[Any], leases: list[Lease], *, ttl_seconds: float
    ) -> list[Lease]:
        renewal.drop(leases)
        return database.renew(conn, leases, ttl_seconds=ttl_seconds)

    monkeypatch.setattr(lease, "renew", drop_meanwhile)

    _round(renewal)

    assert renewal.take_losses() == []


def test_the_thread_renews_beside_work_that_blocks(database: Database) -> None:
    terms = Terms(ttl=60, every=0.02, margin=5, hard_limit=1800)

    with Renewal(database.connect, terms, on_loss=lambda: None) as renewal:
        renewal.hold([HELD], since=clock.seconds())
        deadline = time.monotonic() + 10
        # Work that never lets go of the interpreter for long.
        while len(database.asked) < 3 and time.monotonic() < deadline:
            sum(range(1000))

    assert len(database.asked) >= 3
    assert database.lines[0].closed
