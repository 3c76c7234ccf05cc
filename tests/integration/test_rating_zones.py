"""A day begins at midnight of the account's zone, whatever its clocks do there.

Where a clock is set forward at midnight, the day begins when it begins; where it is set
back over midnight, the day begins the second time. A zone that changes counts from the
next boundary on, which is kept as an instant. So each record lies in one period.
"""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from pgbill import importing
from tests import builders
from tests.inputs import Row, write_csv
from tests.ledger import Ledger
from tests.shop import MARCH, amount, findings, run_sql, values

_A_SECOND = timedelta(seconds=1)
_JANUARY_31, _FEBRUARY_28 = date(2026, 1, 31), date(2026, 2, 28)


def at(text: str) -> datetime:
    """Read an instant: a day and a time in Greenwich."""
    return datetime.strptime(text, "%Y-%m-%d %H:%M").replace(tzinfo=UTC)


def usage_lines(ledger: Ledger) -> dict[str, str]:
    """Return what each closing has billed of usage: its quantity."""
    rows = ledger.conn.execute(
        "SELECT period_end::text, string_agg(format('%%s %%s', line.kind, quantity),"
        " ', ' ORDER BY line_no) FROM pgbill.invoice_line AS line"
        " INNER JOIN pgbill.invoice USING (bucket, account_id, invoice_id)"
        " WHERE account_id = %s GROUP BY period_end ORDER BY period_end",
        [ledger.account.account_id],
    )
    return dict(rows.fetchall())


@pytest.mark.parametrize(
    ("zone", "interval", "period", "midnights"),
    [
        # Clocks go forward on 29 March, and back on 26 October.
        ("Europe/Berlin", "monthly", "2026-03-01", "02-28 23:00, 03-31 22:00"),
        ("Europe/Berlin", "monthly", "2025-10-01", "09-30 22:00, 10-31 23:00"),
        # On 8 March, and on 2 November.
        ("America/New_York", "monthly", "2026-03-01", "03-01 05:00, 04-01 04:00"),
        ("America/New_York", "monthly", "2025-11-01", "11-01 04:00, 12-01 05:00"),
        # Midnight of the boundary is skipped: the day begins at one o'clock.
        ("America/Santiago", "weekly", "2025-08-31", "08-31 04:00, 09-07 04:00"),
        ("America/Santiago", "weekly", "2025-09-07", "09-07 04:00, 09-14 03:00"),
        ("Asia/Beirut", "weekly", "2026-03-22", "03-21 22:00, 03-28 22:00"),
        ("Asia/Beirut", "weekly", "2026-03-29", "03-28 22:00, 04-04 21:00"),
        # Midnight of the boundary comes twice; the second one counts.
        ("America/Havana", "weekly", "2025-10-26", "10-26 04:00, 11-02 05:00"),
        ("America/Havana", "weekly", "2025-11-02", "11-02 05:00, 11-09 05:00"),
        # No daylight saving, half an hour beside the full hour.
        ("Asia/Kolkata", "monthly", "2026-03-01", "02-28 18:30, 03-31 18:30"),
    ],
)
def test_the_first_and_the_last_second_of_a_period_are_its_own(
    audited: Connection[Any], zone: str, interval: str, period: str, midnights: str
) -> None:
    """1 and 2 lie before and after its begin, 4 and 8 before and after its end."""
    builders.tax_rate(audited)
    begins_on = date.fromisoformat(period)
    begin, end = (at(f"{period[:4]}-{each}") for each in midnights.split(", "))
    step = timedelta(days=7 if interval == "weekly" else 28)
    first_on = _one_earlier(begins_on, interval)
    ledger = Ledger(
        audited, zone=zone, billing_interval=interval, first_period_on=first_on
    )
    meter_id = builders.meter(audited)
    unit = ledger.price("1", meter_id=meter_id)
    ledger.subscribe(unit, starts_on=date(2025, 1, 1))
    for quantity, instant in (
        ("1", begin - _A_SECOND), ("2", begin), ("4", end - _A_SECOND), ("8", end)
    ):  # fmt: skip
        ledger.use(meter_id, quantity, occurred_at=instant)

    ledger.bill(begins_on + 2 * step + timedelta(days=5))

    assert list(usage_lines(ledger).values()) == ["usage 1", "usage 6", "usage 8"]


def _one_earlier(day: date, interval: str) -> date:
    if interval == "weekly":
        return day - timedelta(days=7)
    return (day - timedelta(days=1)).replace(day=1)


@pytest.mark.one_server
@pytest.mark.parametrize(
    ("month", "price", "day", "net"),
    [
        # 743 hours: the day on which clocks go forward has 23 of them.
        ("2026-03-01", "743", "2026-03-29", "23.00"),
        ("2026-03-01", "743", "2026-03-28", "24.00"),
        # 745 hours: the day on which they go back has 25.
        ("2025-10-01", "745", "2025-10-26", "25.00"),
        ("2025-10-01", "745", "2025-10-27", "24.00"),
    ],
)
def test_a_day_is_as_long_as_its_clocks_say(
    audited: Connection[Any], month: str, price: str, day: str, net: str
) -> None:
    """By the second, a fee of 1.00 an hour."""
    builders.tax_rate(audited)
    first_on, used_on = date.fromisoformat(month), date.fromisoformat(day)
    ledger = Ledger(audited, policy={"proration": "second"}, first_period_on=first_on)
    fee = ledger.price(price, timing="arrears")
    ledger.subscribe(fee, starts_on=used_on, ends_on=used_on + timedelta(days=1))

    ledger.bill(first_on + timedelta(days=31))

    assert ledger.totals(first_on + timedelta(days=31)) == (
        amount(net),
        *ledger.totals(first_on + timedelta(days=31))[1:],
    )


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_a_zone_that_changes_loses_no_record_and_bills_none_twice(
    conn: Connection[Any],
    tmp_path: Path,
    zone: str,
) -> None:
    """The account moves on 10 February: its February ends in Berlin, at 23:00.

    One record an hour, for two days around each boundary: 4 * 48 in all. Berlin's
    January ends at 23:00 on the 31st, with 23 records of that day and all of the day
    before, and so on: whatever the new zone is, all are billed, each once.
    """
    builders.tax_rate(conn)
    ledger = Ledger(conn, key="mover")
    meter_id = ledger.metered()
    boundaries = [
        at("2026-01-31 23:00"),
        at("2026-02-28 23:00"),
        at("2026-03-31 12:00"),
    ]
    for boundary in boundaries:
        for hour in range(-24, 24):
            ledger.use(meter_id, occurred_at=boundary + timedelta(hours=hour))
    ledger.bill(_JANUARY_31)

    importing.accounts(conn, write_csv(tmp_path / "a.csv", [_moved(conn, zone)]))

    assert findings(conn) == {}
    ledger.bill(date(2026, 4, 30))
    billed = usage_lines(ledger)
    assert billed["2026-02-01"] == "usage 24"
    assert billed["2026-03-01"] == "usage 48"
    assert sum(int(each.removeprefix("usage ")) for each in billed.values()) == 144
    assert set(ledger.states()) == {"1: billed"}
    assert findings(conn) == {}


def _moved(conn: Connection[Any], zone: str) -> Row:
    """Return the account, as its import would say it, in another zone."""
    row = conn.execute(
        "SELECT account.key, seller.key, account.legal_name, account.street,"
        " account.city, account.country, account.tax_status"
        " FROM pgbill.account INNER JOIN pgbill.seller USING (seller_id)"
    ).fetchone()
    assert row is not None
    names = ["key", "seller", "legal_name", "street", "city", "country", "tax_status"]
    return {
        **dict(zip(names, row, strict=True)),
        "first_period_on": "2026-01-01",
        "email": "mover@example.com",
        "postal_code": "28195",
        "zone": zone,
    }


def test_late_usage_of_a_period_is_cut_where_it_was(
    audited: Connection[Any],
) -> None:
    """January ended at 23:00, as it did in Berlin; now the account is in Tokyo."""
    builders.tax_rate(audited)
    ledger = Ledger(audited)
    meter_id = ledger.metered()
    ledger.bill(_JANUARY_31)
    run_sql(audited, "UPDATE pgbill.account SET zone = 'Asia/Tokyo'")
    ledger.use(meter_id, "1", occurred_at=at("2026-01-31 22:59"))
    ledger.use(meter_id, "2", occurred_at=at("2026-01-31 23:00"))

    ledger.bill(_FEBRUARY_28)

    assert usage_lines(ledger) == {"2026-03-01": "usage 2, late_usage 1"}
    assert values(
        audited,
        "SELECT period_end_at::text FROM pgbill.billing_period ORDER BY period_end",
    ) == [
        "2025-12-31 23:00:00+00",
        "2026-01-31 23:00:00+00",
        "2026-02-28 23:00:00+00",
    ]
    assert ledger.totals(MARCH)[0] == amount("3.00")
