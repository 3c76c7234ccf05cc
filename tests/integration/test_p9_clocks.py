"""P9: clocks decide only progress, never safety.

Kept by a fence that compares tokens, and by reading one clock alone, the database's,
for all that is due or expires. A worker has a clock of its own only to give up in time
by itself; whatever it shows, nothing is invoiced twice and nothing is billed too early.
"""

import itertools
import re
import time
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

import pgbill
from pgbill import clock, roles
from tests import builders
from tests.actors import Actor, Threads, bill_all, connect, wait_for
from tests.shifts import job, run_shift
from tests.shop import FEBRUARY, FIRST_DAY, Shop, books, findings, numbers, value

_FAR_AWAY = date(2099, 12, 31)


@pytest.mark.parametrize("step_seconds", [0, 0.01, 3600, -3600])
def test_whatever_a_workers_clock_shows_nothing_is_billed_twice(
    dsn: str, monkeypatch: pytest.MonkeyPatch, step_seconds: float
) -> None:
    """It stands still, creeps, leaps or runs backwards, at each look; another is well.

    A worker that believes its leases over drops them, and its successor finishes.
    """
    ticks = itertools.count()
    real = clock.seconds
    with connect(dsn, roles.OWNER) as owner:
        shop = Shop.open(owner)
        accounts = [shop.account(owner) for _ in range(6)]

        with Threads() as threads:
            monkeypatch.setattr(
                clock, "seconds", lambda: real() + step_seconds * next(ticks)
            )
            strange = threads.start(run_shift, job(dsn, ttl=0.2, max_attempts=1000))
            time.sleep(0.1)
            monkeypatch.setattr(clock, "seconds", real)
            wait_for(strange)
        run_shift(job(dsn, ttl=0.2, max_attempts=1000))

        assert [books(owner, each).invoiced for each in accounts] == [[FIRST_DAY]] * 6
        assert numbers(owner, shop.seller_id) == [1, 2, 3, 4, 5, 6]
        assert findings(owner) == {}


def test_no_module_that_bills_asks_the_machine_what_time_it_is() -> None:
    asks = re.compile(r"\b(now|today|utcnow)\(|\btime\.time\(")
    package = Path(pgbill.__file__).parent
    modules = "lease renewal worker crew billing issuing clock usage importing relay"

    asking = [
        module
        for module in modules.split()
        if asks.search((package / f"{module}.py").read_text(encoding="utf-8"))
    ]

    assert asking == []


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="Linux has it")
def test_the_clock_runs_while_the_machine_sleeps() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)

    read = clock.seconds()

    assert before <= read <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_a_period_that_is_not_over_is_never_billed(conn: Connection[Any]) -> None:
    """Whatever is asked for: --through may lie in the future."""
    shop = Shop.open(conn)
    today = value(conn, "SELECT (clock_timestamp() AT TIME ZONE 'Europe/Berlin')::date")
    tomorrow = shop.account(conn, first_period_on=today + timedelta(days=1))
    begun = shop.account(conn, first_period_on=today)

    outcomes = bill_all(conn, tomorrow, begun, through_on=_FAR_AWAY)

    assert outcomes == ["invoiced"]
    assert books(conn, begun).periods == [today]
    assert books(conn, tomorrow).periods == []


def test_a_day_begins_at_midnight_in_the_accounts_zone(conn: Connection[Any]) -> None:
    """Between these two lie 26 hours: when it has begun here, it has not there."""
    shop = Shop.open(conn)
    day = value(
        conn, "SELECT (clock_timestamp() AT TIME ZONE 'Pacific/Kiritimati')::date"
    )
    east = shop.account(conn, first_period_on=day, zone="Pacific/Kiritimati")
    west = shop.account(conn, first_period_on=day, zone="Etc/GMT+12")

    bill_all(conn, east, west, through_on=None)

    assert books(conn, east).periods == [day]
    assert books(conn, west).periods == []


def test_without_a_date_all_is_billed_that_is_over(conn: Connection[Any]) -> None:
    """By yesterday in each account's zone: the boundary of today counts."""
    shop = Shop.open(conn)
    today = value(conn, "SELECT (clock_timestamp() AT TIME ZONE 'Europe/Berlin')::date")
    account = shop.account(conn, first_period_on=today)

    assert bill_all(conn, account, through_on=None) == ["invoiced"]
    assert bill_all(conn, account, through_on=None) == []


def test_settings_of_the_connection_do_not_matter(conn: Connection[Any]) -> None:
    account = Shop.open(conn).account(conn, zone="America/New_York")
    conn.execute("SET TimeZone = 'Pacific/Kiritimati'")
    conn.execute("SET DateStyle = 'German, DMY'")

    bill_all(conn, account, through_on=date(2026, 1, 31))

    assert books(conn, account).periods == [FIRST_DAY, FEBRUARY]
    assert findings(conn) == {}


def test_a_lease_is_judged_by_the_time_of_the_statement(conn: Connection[Any]) -> None:
    """Not by that of the transaction, which may have begun long before."""
    account = Shop.open(conn).account(conn)
    assert Actor(conn, "first").claim_one(account, ttl_seconds=0.05)
    assert Actor(conn, "second").claim(account) == []

    time.sleep(0.06)

    assert Actor(conn, "third").claim(account)


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", date(2026, 3, 29), 23),
        ("Europe/Berlin", date(2026, 10, 25), 25),
        ("America/New_York", date(2026, 3, 8), 23),
        ("Australia/Lord_Howe", date(2026, 4, 5), 24.5),
        # Midnight itself does not exist on that day.
        ("Africa/Cairo", date(2026, 4, 24), 23),
        ("Asia/Kolkata", date(2026, 3, 29), 24),
    ],
)
def test_a_day_is_as_long_as_it_is_there(
    conn: Connection[Any], zone: str, day: date, hours: float
) -> None:
    long = value(
        conn,
        "SELECT pgbill.local_midnight(%s, %s) - pgbill.local_midnight(%s, %s)",
        day + timedelta(days=1),
        zone,
        day,
        zone,
    )

    assert long == timedelta(hours=hours)


def test_the_lease_is_due_when_the_day_begins_there(conn: Connection[Any]) -> None:
    seller_id = builders.seller(conn)
    account = builders.account(conn, seller_id, zone="America/New_York")

    due_at = value(
        conn,
        "SELECT due_at AT TIME ZONE 'UTC' FROM pgbill.lease WHERE account_id = %s",
        account.account_id,
    )

    assert due_at.isoformat() == "2026-01-01T05:00:00"
