"""Who held what, and when, is laid out as it was; invoices are counted by account."""

from datetime import UTC, datetime, timedelta

from pgbill import timeline
from pgbill.mishap import Strike
from pgbill.timeline import Bar, Copies, Event, Mark, Timeline

BEGIN = datetime(2026, 10, 31, tzinfo=UTC)
TTL = 2.0


def _at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def _event(
    seconds: float, kind: str, claim: str, *, account: str = "A", detail: str = ""
) -> Event:
    """Worker 1 makes the claims "1:a", "1:b", …: its process has the id 1."""
    holder = f"host:{claim.partition(':')[0]}"
    return Event(account, _at(seconds), kind, claim, holder, detail or None)


def _build(*events: Event, strikes: tuple[Strike, ...] = ()) -> Timeline:
    """Lay out what each claim would be with an expiry of two seconds."""
    expiries = {
        each.claim: each.at + timedelta(seconds=TTL)
        for each in events
        if each.kind == "claimed"
    }
    return timeline.build(events, expiries=expiries, strikes=strikes)


def test_copies_are_counted_by_account() -> None:
    counted = timeline.count(["A", "B", "A", "C", "C", "C", "D", "D", "D", "D", "D"])

    assert counted == Copies(11, 4, twice=1, three_times=1, more_often=1, most=5)
    assert counted.repeated == 3


def test_nothing_is_nothing() -> None:
    assert timeline.count([]) == Copies(0, 0, 0, 0, 0, 0)
    assert timeline.build([], expiries={}, strikes=[]).rows == {}


def test_work_within_its_time_is_one_bar_and_one_mark() -> None:
    built = _build(_event(0, "claimed", "1:a"), _event(1.5, "invoiced", "1:a"))

    assert built.rows["A"].lanes == [[Bar(1, 0.0, 1.5, 1.5, "invoiced")]]
    assert built.rows["A"].marks == [Mark("invoiced", 1.5, 1, 1)]
    assert not built.rows["A"].lanes[0][0].is_expired


def test_two_workers_on_one_account_lie_side_by_side() -> None:
    """The second takes over at the expiry, the first goes on: the account is copied."""
    row = _build(
        _event(0, "claimed", "1:a"),
        _event(2, "claimed", "2:a"),
        _event(3, "invoiced", "1:a"),
        _event(3.5, "invoiced", "2:a"),
        _event(4, "claimed", "1:b", account="B"),
        _event(5, "released", "1:b", account="B"),
    ).rows["A"]

    assert row.lanes == [
        [Bar(1, 0.0, 2.0, 3.0, "invoiced")],
        [Bar(2, 2.0, 3.5, 3.5, "invoiced")],
    ]
    assert row.marks == [
        Mark("expired", 2.0, 1),
        Mark("invoiced", 3.0, 1, 1),
        Mark("copy", 3.5, 2, 2),
    ]


def test_a_key_that_another_deletes_protects_no_longer() -> None:
    """The first worker deletes what is the second's key by then."""
    (_, second) = (
        _build(
            _event(0, "claimed", "1:a"),
            _event(2, "claimed", "2:a"),
            _event(3, "invoiced", "1:a"),
            _event(3, "released", "1:a", detail="2:a"),
            _event(3.8, "invoiced", "2:a"),
        )
        .rows["A"]
        .lanes
    )

    assert second == [Bar(2, 2.0, 3.0, 3.8, "invoiced")]
    assert second[0].is_expired


def test_a_sleeper_drops_its_work() -> None:
    strikes = Strike("stopped", _at(0.5), 1), Strike("woken", _at(3), 1)
    row = _build(
        _event(0, "claimed", "1:a"),
        _event(2.1, "expired", "1:a"),
        _event(2.1, "claimed", "2:a"),
        _event(2.5, "invoiced", "2:a"),
        _event(3.2, "abandoned", "1:a"),
        strikes=strikes,
    ).rows["A"]

    assert row.lanes[0] == [Bar(1, 0.0, 2.0, 3.2, "dropped")]
    assert [mark.kind for mark in row.marks] == [
        "stopped",
        "expired",
        "invoiced",
        "woken",
        "dropped",
    ]


def test_what_a_dead_worker_held_is_held_until_it_expires() -> None:
    row = _build(
        _event(0, "claimed", "1:a"),
        _event(2.5, "expired", "1:a"),
        _event(2.5, "claimed", "2:a"),
        _event(3, "invoiced", "2:a"),
        strikes=(Strike("killed", _at(1), 1),),
    ).rows["A"]

    assert row.lanes == [
        [Bar(1, 0.0, 2.0, 1.0, "killed"), Bar(2, 2.5, 3.0, 3.0, "invoiced")]
    ]
    assert [mark.kind for mark in row.marks] == ["killed", "expired", "invoiced"]


def test_a_strike_concerns_what_the_worker_does_at_that_moment() -> None:
    built = _build(
        _event(0, "claimed", "1:a"),
        _event(1, "invoiced", "1:a"),
        _event(1, "claimed", "1:b", account="B"),
        _event(3, "claimed", "2:a", account="C"),
        strikes=(Strike("killed", _at(2), 1),),
    )

    assert [mark.kind for mark in built.rows["A"].marks] == ["invoiced"]
    assert [mark.kind for mark in built.rows["B"].marks] == ["killed", "expired"]
    assert [mark.kind for mark in built.rows["C"].marks] == []
