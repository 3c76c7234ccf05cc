"""P6: each usage record is billed exactly once, or is visibly waiting or rejected.

Kept by the watermark protocol. Imports queue, so that the order of their numbers is
the order of their commits; a closing stores the newest number that its rating has seen,
read in one statement with the usage itself; what an import brings later for the period
is late, and the next closing bills what lies between the two watermarks.
"""

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from psycopg import Connection, sql

from pgbill import roles, usage
from pgbill.lease import Scope
from tests import imports
from tests.actors import (
    Actor,
    Threads,
    bill_all,
    connect,
    is_blocked,
    wait_for,
)
from tests.builders import Account
from tests.shop import Shop, findings, run_sql, value

_JANUARY, _FEBRUARY, _MARCH = date(2026, 1, 31), date(2026, 2, 28), date(2026, 3, 31)
_MID_JANUARY = datetime(2026, 1, 15, 12, tzinfo=UTC)


def can_lose_the_usage_of_a_slow_import(dsn: str) -> bool:
    """An import that began first commits last, after the closing."""
    with (
        Threads() as threads,
        connect(dsn, roles.OWNER) as owner,
        connect(dsn, roles.OWNER) as slow,
        connect(dsn, roles.OWNER) as quick,
    ):
        shop = Shop.open(owner)
        account = shop.account(owner)
        meter_key = _meter_key(owner, shop)
        one = imports.record(account, meter_key, "one", _MID_JANUARY, "1")
        two = imports.record(account, meter_key, "two", _MID_JANUARY, "2")
        with imports.written_usage(slow, one):
            answer = threads.start(imports.usage, quick, two)
            while not (answer.done() or is_blocked(owner, quick)):
                pass
            bill_all(owner, account, through_on=_JANUARY)
        wait_for(answer)
        bill_all(owner, account, through_on=_FEBRUARY)
        return _billed(owner, account) < 3


def can_lose_usage_between_rating_and_issue(conn: Connection[Any]) -> bool:
    """A worker rates, an import commits, the worker issues."""
    shop = Shop.open(conn)
    account = shop.account(conn)
    bill_all(conn, account)
    worker = Actor(conn, scope=Scope(2, _JANUARY))
    held = worker.claim_one(account)
    run_sql(
        conn,
        "CREATE TEMPORARY TABLE rated ON COMMIT DROP AS SELECT * FROM"
        " pgbill.rate(ARRAY[%s::integer], ARRAY[%s::bigint], %s, 3)",
        *held.account,
        _JANUARY,
    )
    shop.use(conn, account, "3")
    run_sql(
        conn,
        "SELECT pgbill.issue(ARRAY[rated.bucket], ARRAY[rated.account_id],"
        " ARRAY[%s::bigint], ARRAY[rated.draft], %s, 2, 'live', NULL) FROM rated",
        held.fencing_token,
        worker.worker.worker_id,
    )
    run_sql(conn, "DROP TABLE rated")
    bill_all(conn, account, through_on=_FEBRUARY)
    return _billed(conn, account) < 3


def can_bill_usage_again(conn: Connection[Any]) -> bool:
    """Late usage comes in for a period that had usage in time."""
    shop = Shop.open(conn)
    account = shop.account(conn)
    shop.use(conn, account, "1")
    bill_all(conn, account, through_on=_JANUARY)
    shop.use(conn, account, "2")
    bill_all(conn, account, through_on=_FEBRUARY)
    return _billed(conn, account) > 3


def _billed(conn: Connection[Any], account: Account) -> Decimal:
    """Return the quantity that the lines of an account bill."""
    quantity: Decimal = value(
        conn,
        "SELECT coalesce(sum(quantity), 0) FROM pgbill.usage_line"
        " WHERE bucket = %s AND account_id = %s",
        account.bucket,
        account.account_id,
    )
    return quantity


def _meter_key(conn: Connection[Any], shop: Shop) -> str:
    key: str = value(
        conn, "SELECT key FROM pgbill.meter WHERE meter_id = %s", shop.meter_id
    )
    return key


def _lines(conn: Connection[Any], account: Account) -> list[tuple[object, ...]]:
    """Return the lines of usage: boundary, kind, service period, quantity, count."""
    return conn.execute(
        "SELECT period_end, invoice_line.kind, lower(service_period),"
        " upper(service_period), quantity, usage_count FROM pgbill.invoice_line"
        " INNER JOIN pgbill.invoice USING (bucket, account_id, invoice_id)"
        " WHERE bucket = %s AND account_id = %s AND usage_count IS NOT NULL"
        " ORDER BY period_end, line_no",
        [account.bucket, account.account_id],
    ).fetchall()


def test_imports_commit_in_the_order_of_their_numbers(dsn: str) -> None:
    assert not can_lose_the_usage_of_a_slow_import(dsn)


def test_with_a_sequence_instead_usage_would_be_lost(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(dsn, roles.OWNER) as owner:
        owner.execute("CREATE SEQUENCE pgbill.mutant")
    draw = sql.SQL("SELECT nextval('pgbill.mutant') AS import_seq")
    queries = usage._QUERIES  # pyright: ignore[reportPrivateUsage]
    mutant = {**{name: queries[name] for name in queries}, "draw": draw}
    monkeypatch.setattr(usage, "_QUERIES", mutant)

    assert can_lose_the_usage_of_a_slow_import(dsn)


def test_a_closing_stores_the_watermark_of_its_rating(conn: Connection[Any]) -> None:
    assert not can_lose_usage_between_rating_and_issue(conn)


def test_usage_is_not_billed_again(conn: Connection[Any]) -> None:
    assert not can_bill_usage_again(conn)


def test_late_usage_has_a_line_that_names_its_period(conn: Connection[Any]) -> None:
    shop = Shop.open(conn)
    account = shop.account(conn)
    shop.use(conn, account, "1")
    bill_all(conn, account, through_on=_JANUARY)

    shop.use(conn, account, "2", "3")
    shop.use(conn, account, "4", occurred_at=datetime(2026, 2, 10, tzinfo=UTC))
    bill_all(conn, account, through_on=_FEBRUARY)

    january = date(2026, 1, 1), date(2026, 2, 1)
    february = date(2026, 2, 1), date(2026, 3, 1)
    assert _lines(conn, account) == [
        (date(2026, 2, 1), "usage", *january, Decimal(1), 1),
        (date(2026, 3, 1), "usage", *february, Decimal(4), 1),
        (date(2026, 3, 1), "late_usage", *january, Decimal(5), 2),
    ]
    assert findings(conn) == {}


def test_late_usage_of_two_periods_has_two_lines(conn: Connection[Any]) -> None:
    shop = Shop.open(conn)
    account = shop.account(conn)
    bill_all(conn, account, through_on=_FEBRUARY)

    shop.use(conn, account, "2")
    shop.use(conn, account, "3", occurred_at=datetime(2026, 2, 10, tzinfo=UTC))
    bill_all(conn, account, through_on=_MARCH)

    assert [(line[1], line[2], line[4]) for line in _lines(conn, account)] == [
        ("late_usage", date(2026, 1, 1), Decimal(2)),
        ("late_usage", date(2026, 2, 1), Decimal(3)),
    ]


def test_an_instant_belongs_to_one_period(conn: Connection[Any]) -> None:
    """Midnight in Berlin is the first instant of the next."""
    shop = Shop.open(conn)
    account = shop.account(conn)
    midnight = datetime(2026, 1, 31, 23, tzinfo=UTC)
    shop.use(conn, account, "1", occurred_at=midnight - timedelta(microseconds=1))
    shop.use(conn, account, "2", occurred_at=midnight)

    bill_all(conn, account, through_on=_FEBRUARY)

    assert [(line[0], line[4]) for line in _lines(conn, account)] == [
        (date(2026, 2, 1), Decimal(1)),
        (date(2026, 3, 1), Decimal(2)),
    ]


def test_an_import_waits_for_no_run_and_no_run_for_it(dsn: str) -> None:
    """The account is being issued while its usage is imported, and the other way."""
    with (
        connect(dsn, roles.OWNER) as owner,
        connect(dsn, roles.OWNER) as importer,
    ):
        shop = Shop.open(owner)
        account = shop.account(owner)
        meter_key = _meter_key(owner, shop)
        one = imports.record(account, meter_key, "one", _MID_JANUARY, "1")
        two = imports.record(account, meter_key, "two", _MID_JANUARY, "2")
        owner.execute("SELECT pgbill.create_usage_partitions('{2026-01-01}')")

        with owner.transaction():
            bill_all(owner, account, through_on=_JANUARY)
            assert imports.usage(importer, one) == 1
        with imports.written_usage(importer, two):
            bill_all(owner, account, through_on=_FEBRUARY)

        bill_all(owner, account, through_on=_MARCH)
        assert _billed(owner, account) == 3
        assert findings(owner) == {}


@pytest.mark.parametrize("seed", range(3))
def test_whatever_comes_in_between_closings_is_billed_once(
    conn: Connection[Any], seed: int
) -> None:
    dice = random.Random(seed)  # noqa: S311
    shop = Shop.open(conn)
    accounts = [shop.account(conn) for _ in range(2)]
    through = [_JANUARY, _FEBRUARY, _MARCH, date(2026, 4, 30)]
    imported = 0
    while through:
        account = dice.choice(accounts)
        if dice.random() < 0.7:
            day = _MID_JANUARY + timedelta(hours=dice.randrange(-336, 1500))
            shop.use(conn, account, "1", occurred_at=day)
            imported += 1
        elif account is accounts[0]:
            bill_all(conn, accounts[0], through_on=through[0])
        else:
            bill_all(conn, *accounts, through_on=through.pop(0))
    bill_all(conn, *accounts, through_on=date(2026, 5, 31))

    assert sum(_billed(conn, each) for each in accounts) == imported
    assert (
        value(conn, "SELECT count(*) FROM pgbill.usage_state WHERE state = 'billed'")
        == imported
    )
    assert findings(conn) == {}
