"""Each instant of an account lies in one billing period, whatever its zone does.

Accounts of every interval are billed through some periods, and move to other zones in
between: where clocks change at midnight, where half an hour is changed, where a day is
left out. A record is billed once, also if it is of the very second of a boundary.
"""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import Connection

from tests import builders
from tests.drawn import example, law
from tests.ledger import Ledger
from tests.shop import FIRST_DAY, findings, value, values

pytestmark = pytest.mark.one_server

_INTERVALS = ("weekly", "monthly", "quarterly", "half_yearly", "yearly")
_ZONES = st.sampled_from(
    [
        *("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"),
        *("America/Havana", "America/Sao_Paulo", "Pacific/Apia", "Asia/Kathmandu"),
        *("Asia/Tehran", "Pacific/Kiritimati", "Pacific/Pago_Pago"),
    ]
)
_BEGIN_AT = datetime(2025, 12, 30, tzinfo=UTC)
_SECONDS = st.integers(0, 95 * 86_400)


def _move(ledger: Ledger, zone: str) -> None:
    """Let the account be in another zone, which counts from its next boundary on."""
    ledger.conn.execute(
        "UPDATE pgbill.account SET zone = %s WHERE account_id = %s",
        [zone, ledger.account.account_id],
    )


def _boundary(ledger: Ledger, number: int) -> date:
    """Return the day of a boundary, counted from the first after the first day."""
    found: date = value(
        ledger.conn,
        "SELECT pgbill.boundary(anchor_on, billing_interval, %s"
        " + pgbill.boundary_number(anchor_on, billing_interval, first_period_on))"
        " FROM pgbill.account WHERE account_id = %s",
        number,
        ledger.account.account_id,
    )
    return found


@law(15)
@given(
    first_on=st.dates(date(2011, 1, 1), date(2018, 12, 31)),
    anchor_before=st.integers(0, 800),
    interval=st.sampled_from(_INTERVALS),
    zones=st.lists(_ZONES, min_size=2, max_size=5),
)
def test_a_chain_of_periods_covers_each_day_and_instant_once(
    warm: Connection[Any],
    first_on: date,
    anchor_before: int,
    interval: str,
    zones: list[str],
) -> None:
    with example(warm) as conn:
        builders.tax_rate(conn, begins_on=date(2000, 1, 1))
        ledger = Ledger(
            conn,
            first_period_on=first_on,
            anchor_on=first_on - timedelta(days=anchor_before),
            billing_interval=interval,
            zone=zones[0],
        )
        long_ago = date(2000, 1, 1)
        for timing in ("advance", "arrears"):
            price = ledger.price(timing=timing, begins_on=long_ago)
            ledger.subscribe(price, starts_on=first_on)
        for number, zone in enumerate(zones):
            _move(ledger, zone)
            ledger.bill(_boundary(ledger, number) - timedelta(days=1))

        _check_closings(ledger, first_on, len(zones))
        for kind in ("advance", "arrears"):
            _check_service(ledger, kind, first_on)


def _check_closings(ledger: Ledger, first_on: date, count: int) -> None:
    closings = ledger.conn.execute(
        "SELECT period_start, period_end, period_end_at FROM pgbill.billing_period"
        " WHERE account_id = %s ORDER BY period_end",
        [ledger.account.account_id],
    ).fetchall()
    assert closings[0][:2] == (first_on, first_on)
    assert len(closings) == count + 1
    for (_, end_on, end_at), (next_on, next_end_on, next_end_at) in pairwise(closings):
        assert next_on == end_on < next_end_on
        assert end_at < next_end_at


def _check_service(ledger: Ledger, kind: str, first_on: date) -> None:
    periods = values(
        ledger.conn,
        "SELECT service_period FROM pgbill.invoice_line"
        " WHERE account_id = %s AND kind = %s ORDER BY lower(service_period)",
        ledger.account.account_id,
        kind,
    )
    assert periods[0].lower == first_on
    for period, following in pairwise(periods):
        assert period.upper == following.lower


@law(12)
@given(
    interval=st.sampled_from(["weekly", "monthly"]),
    zones=st.lists(_ZONES, min_size=2, max_size=3),
    seconds=st.lists(_SECONDS, max_size=6),
    at_midnights=st.lists(
        st.tuples(st.integers(0, 89), _ZONES, st.integers(-1, 1)), max_size=6
    ),
)
def test_each_record_is_billed_in_one_period(
    warm: Connection[Any],
    interval: str,
    zones: list[str],
    seconds: list[int],
    at_midnights: list[tuple[int, str, int]],
) -> None:
    with example(warm) as conn:
        builders.tax_rate(conn)
        ledger = Ledger(conn, billing_interval=interval, zone=zones[0])
        meter_id = ledger.metered("1")
        times = [_BEGIN_AT + timedelta(seconds=each) for each in seconds]
        times += [
            _midnight(conn, day, zone) + timedelta(seconds=shift)
            for day, zone, shift in at_midnights
        ]
        for at in times:
            ledger.use(meter_id, "1", occurred_at=at)
        for month, zone in enumerate(zones, start=1):
            _move(ledger, zone)
            ledger.bill(date(2026, month, 27))

        first_at, last_at = conn.execute(
            "SELECT min(period_end_at), max(period_end_at) FROM pgbill.billing_period"
        ).fetchall()[0]
        within = sum(first_at <= at < last_at for at in times)
        billed = "SELECT coalesce(sum(quantity), 0) FROM pgbill.invoice_line"
        assert value(conn, billed) == within
        assert findings(conn) == {}


def _midnight(conn: Connection[Any], day: int, zone: str) -> datetime:
    found: datetime = value(
        conn,
        "SELECT pgbill.local_midnight(%s, %s)",
        FIRST_DAY + timedelta(days=day),
        zone,
    )
    return found
