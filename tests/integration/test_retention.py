"""Usage is dropped by the month, and only when all of the month is done with (P6).

What is gone is told, so that the audits still add up, and it cannot come back: it would
be billed a second time.
"""

import contextlib
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from pgbill import importing, retention, roles
from pgbill.errors import TemporaryError, UsageError
from pgbill.lease import Scope
from pgbill.retention import Month
from tests import builders, by_hand, guards, imports
from tests.actors import (
    Actor,
    Threads,
    bill_all,
    connect,
    wait_for,
    wait_until_blocked,
)
from tests.builders import Account
from tests.inputs import refusals, rows, write_csv
from tests.shop import Shop, findings, run_sql, value, values

pytestmark = pytest.mark.one_server

JANUARY, FEBRUARY, MARCH, APRIL = (date(2026, month, 1) for month in range(1, 5))
THROUGH_JANUARY, THROUGH_FEBRUARY = date(2026, 1, 31), date(2026, 2, 28)


def at(month: int, day: int = 15) -> datetime:
    return datetime(2026, month, day, 12, tzinfo=UTC)


def used(
    conn: Connection[Any],
    **columns: Any,  # noqa: ANN401
) -> tuple[Shop, Account]:
    """Return an account with usage in January and February, from two imports each."""
    shop = Shop.open(conn)
    account = shop.account(conn, key="a-1", **columns)
    for month in (1, 1, 2, 2):
        shop.use(conn, account, "1", "2", occurred_at=at(month))
    return shop, account


def months(conn: Connection[Any]) -> list[str]:
    return values(
        conn,
        "SELECT right(inhrelid::regclass::text, 7) FROM pg_catalog.pg_inherits"
        " WHERE inhparent = 'pgbill.usage_record'::regclass ORDER BY 1",
    )


def file(
    conn: Connection[Any], folder: Path, account: Account, *times: datetime
) -> str:
    """Write a file with a record of quantity 1 for each time."""
    meter_key = value(
        conn,
        "SELECT key FROM pgbill.meter WHERE meter_id IN"
        " (SELECT meter_id FROM pgbill.subscription_price)",
    )
    records = [
        imports.record(account, meter_key, f"new-{number}", time, "1")
        for number, time in enumerate(times)
    ]
    return write_csv(folder / "u.csv", [dict(record) for record in records])


def test_a_month_that_is_billed_goes(conn: Connection[Any]) -> None:
    _, account = used(conn)
    bill_all(conn, account, through_on=THROUGH_JANUARY)

    dropped = retention.drop(conn, FEBRUARY)

    assert dropped == [Month(JANUARY, 4, 0, None)]
    assert months(conn) == ["2026_02"]
    assert value(conn, "SELECT count(*) FROM pgbill.usage_record") == 4
    assert [
        (told["month_on"], told["record_count"], told["earliest_at"])
        for told in rows(conn, "usage_retention")
    ] == [("2026-01-01", 2, "2026-01-15T12:00:00+00:00")] * 2
    assert findings(conn) == {}


def test_the_rest_is_billed_as_ever(conn: Connection[Any]) -> None:
    shop, account = used(conn)
    bill_all(conn, account, through_on=THROUGH_JANUARY)
    retention.drop(conn, FEBRUARY)

    bill_all(conn, account, through_on=THROUGH_FEBRUARY)
    shop.use(conn, account, "5", occurred_at=at(2))
    bill_all(conn, account, through_on=date(2026, 3, 31))

    assert values(
        conn,
        "SELECT quantity FROM pgbill.usage_line ORDER BY period_end, kind",
    ) == [6, 6, 5]
    assert findings(conn) == {}
    assert retention.drop(conn, APRIL) == [Month(FEBRUARY, 5, 0, None)]
    assert findings(conn) == {}


def test_a_month_with_a_record_that_waits_stays_whole(conn: Connection[Any]) -> None:
    shop, account = used(conn)
    bill_all(conn, account, through_on=THROUGH_JANUARY)
    builders.usage(conn, account, shop.meter_id, "9", key="late", occurred_at=at(1))

    kept = retention.drop(conn, MARCH)

    assert [(month.month_on, month.unfinished_count) for month in kept] == [
        (JANUARY, 1),
        (FEBRUARY, 4),
    ]
    assert kept[0].reason == (
        "record late of account a-1 is waiting (late, the next closing takes it)"
    )
    assert months(conn) == ["2026_01", "2026_02"]
    assert rows(conn, "usage_retention") == []


def test_a_month_that_stays_keeps_no_other(conn: Connection[Any]) -> None:
    shop, account = used(conn)
    bill_all(conn, account, through_on=THROUGH_FEBRUARY)
    shop.use(conn, account, "9", occurred_at=at(1))

    retention.drop(conn, MARCH)

    assert months(conn) == ["2026_01"]


def test_rejected_usage_goes_as_well(conn: Connection[Any]) -> None:
    shop = Shop.open(conn)
    account = shop.account(conn)
    other = builders.meter(conn)
    builders.usage(conn, account, other, "1", occurred_at=at(1))
    builders.usage(
        conn, account, other, "1", occurred_at=datetime(2025, 12, 5, tzinfo=UTC)
    )
    bill_all(conn, account, through_on=THROUGH_JANUARY)

    assert len(retention.drop(conn, FEBRUARY)) == 2
    assert months(conn) == []


def test_a_cancelled_invoice_keeps_its_month(conn: Connection[Any]) -> None:
    """It may still be issued again."""
    _, account = used(conn)
    bill_all(conn, account, through_on=THROUGH_JANUARY)
    clerk = Actor(conn, scope=Scope(2, THROUGH_FEBRUARY))
    token = clerk.claim_one(account).fencing_token
    credit_note_id = by_hand.invoice(conn, account, token)
    by_hand.cancellation(conn, account, token, FEBRUARY, credit_note_id)

    (january,) = retention.drop(conn, FEBRUARY)

    assert january.unfinished_count == 4
    assert "its invoice is cancelled and not reissued" in str(january.reason)


def test_a_dry_run_changes_nothing(conn: Connection[Any]) -> None:
    _, account = used(conn)
    bill_all(conn, account, through_on=THROUGH_JANUARY)

    seen = retention.drop(conn, FEBRUARY, is_dry_run=True)

    assert seen == [Month(JANUARY, 4, 0, None)]
    assert months(conn) == ["2026_01", "2026_02"]
    assert rows(conn, "usage_retention") == []


def test_a_month_that_has_not_begun_is_refused(conn: Connection[Any]) -> None:
    with pytest.raises(UsageError, match=r"2199-01 has not begun\."):
        retention.drop(conn, date(2199, 1, 1))


def test_what_is_gone_cannot_come_back(conn: Connection[Any], tmp_path: Path) -> None:
    _, account = used(conn)
    bill_all(conn, account, through_on=THROUGH_JANUARY)
    retention.drop(conn, FEBRUARY)

    told = refusals(importing.usage, conn, file(conn, tmp_path, account, at(1), at(2)))

    assert told == [
        (
            "u.csv:2: occurred_at: usage of 2026-01 was billed and dropped: no more"
            " of it can be taken"
        )
    ]
    assert months(conn) == ["2026_02"]
    assert importing.usage(conn, file(conn, tmp_path, account, at(2))).new == 1


def test_a_month_without_records_may_be_filled_later(
    conn: Connection[Any], tmp_path: Path
) -> None:
    _, account = used(conn)
    bill_all(conn, account, through_on=THROUGH_JANUARY)
    run_sql(conn, "SELECT pgbill.create_usage_partitions(ARRAY[date '2025-11-01'])")

    assert retention.drop(conn, JANUARY) == [Month(date(2025, 11, 1), 0, 0, None)]

    early = datetime(2025, 11, 5, tzinfo=UTC)
    assert importing.usage(conn, file(conn, tmp_path, account, early)).new == 1


def test_a_period_that_lost_usage_takes_no_more(
    conn: Connection[Any], tmp_path: Path
) -> None:
    """Tiers price all of a period together, which cannot be measured again."""
    _, account = used(conn, anchor_on=date(2025, 12, 20))
    bill_all(conn, account, through_on=date(2026, 2, 19))
    assert retention.drop(conn, FEBRUARY)[-1].unfinished_count == 0

    told = refusals(
        importing.usage, conn, file(conn, tmp_path, account, at(2, 3), at(2, 25))
    )

    assert told == [
        (
            "u.csv:2: occurred_at: it belongs to a period with usage of 2026-01, which"
            " was billed and dropped"
        )
    ]
    assert findings(conn) == {}


def test_an_import_that_was_checked_before_looks_again(
    dsn: str, tmp_path: Path
) -> None:
    with (
        contextlib.closing(connect(dsn, roles.OWNER)) as owner,
        contextlib.closing(connect(dsn, roles.OWNER)) as importer,
        contextlib.closing(connect(dsn, roles.OWNER)) as observer,
        Threads() as threads,
    ):
        _, account = used(owner)
        bill_all(owner, account, through_on=THROUGH_JANUARY)
        path = file(owner, tmp_path, account, at(1))
        with owner.transaction():
            run_sql(owner, "SELECT FROM pgbill.usage_import_state FOR UPDATE")
            waiting = threads.start(refusals, importing.usage, importer, path)
            wait_until_blocked(observer, importer)
            retention.drop(owner, FEBRUARY)

        (told,) = wait_for(waiting)
        assert "usage of 2026-01 was billed and dropped" in told
        assert findings(owner) == {}


def test_whoever_reads_usage_is_waited_for_and_then_left_alone(dsn: str) -> None:
    with (
        contextlib.closing(connect(dsn, roles.OWNER)) as owner,
        contextlib.closing(connect(dsn, roles.READER)) as reader,
    ):
        _, account = used(owner)
        bill_all(owner, account, through_on=THROUGH_JANUARY)
        with reader.transaction():
            value(reader, "SELECT count(*) FROM pgbill.usage_record")

            with pytest.raises(TemporaryError, match="2026-01 was not dropped"):
                retention.drop(owner, FEBRUARY, patience_seconds=0)

        assert retention.drop(owner, FEBRUARY) == [Month(JANUARY, 4, 0, None)]
        assert retention.drop(owner, FEBRUARY) == []


def test_dropping_locks_neither_accounts_nor_meters(dsn: str) -> None:
    """A run that is at work elsewhere goes on."""
    with (
        contextlib.closing(connect(dsn, roles.OWNER)) as owner,
        contextlib.closing(connect(dsn, roles.OWNER)) as busy,
    ):
        _, account = used(owner)
        bill_all(owner, account, through_on=THROUGH_JANUARY)
        with busy.transaction():
            value(busy, "SELECT account_id FROM pgbill.account FOR KEY SHARE")
            value(busy, "SELECT count(*) FROM pgbill.meter")

            assert retention.drop(owner, FEBRUARY, patience_seconds=0)

        assert months(owner) == ["2026_02"]


def test_what_was_told_never_changes(conn: Connection[Any]) -> None:
    _, account = used(conn)
    bill_all(conn, account, through_on=THROUGH_JANUARY)
    retention.drop(conn, FEBRUARY)

    with pytest.raises(Exception, match="usage_retention is insert-only"):
        run_sql(conn, "DELETE FROM pgbill.usage_retention")


def test_usage_that_is_lost_without_a_word_shows(conn: Connection[Any]) -> None:
    """As if the month had been dropped by hand."""
    _, account = used(conn)
    bill_all(conn, account, through_on=THROUGH_JANUARY)
    guards.without_trigger("_20_freeze", "usage_retention")(conn)

    run_sql(conn, "DROP TABLE pgbill.usage_record_2026_01")

    assert {"p6_import_differs_from_records", "p6_line_differs_from_usage"} <= set(
        findings(conn)
    )
