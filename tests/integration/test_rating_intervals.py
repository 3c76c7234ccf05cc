"""Periods of any length follow one another, and a price of any length fits in.

A boundary is the anchor plus so many intervals, clamped to the end of the month. A
price with an interval of its own is billed at the boundary where its period begins, or
ends, if it is longer than that of the account; else so many times as it fits.
"""

from datetime import date, timedelta
from typing import Any

import pytest
from psycopg import Connection

from tests import builders
from tests.ledger import Ledger
from tests.shop import amount, books

pytestmark = pytest.mark.one_server

_NEW_YEAR = date(2025, 1, 1)


def open_ledger(conn: Connection[Any], first_on: date, **account: Any) -> Ledger:  # noqa: ANN401
    builders.tax_rate(conn)
    return Ledger(conn, first_period_on=first_on, anchor_on=first_on, **account)


def days(text: str) -> list[date]:
    return [date.fromisoformat(each) for each in text.split()]


def billed(ledger: Ledger) -> dict[str, list[str]]:
    """Return the lines of each closing that had any, by its boundary."""
    return {
        str(boundary): lines
        for boundary in books(ledger.conn, ledger.account).periods
        if (lines := ledger.entries(boundary))
    }


@pytest.mark.parametrize(
    ("interval", "boundaries"),
    [
        # Over the end of a year, and a leap day.
        ("weekly", "2025-12-25 2026-01-01 2026-01-08 2026-01-15"),
        ("weekly", "2024-02-22 2024-02-29 2024-03-07"),
        ("quarterly", "2025-11-30 2026-02-28 2026-05-30 2026-08-30"),
        ("quarterly", "2023-11-30 2024-02-29 2024-05-30"),
        ("half_yearly", "2024-08-31 2025-02-28 2025-08-31 2026-02-28"),
        ("half_yearly", "2023-08-29 2024-02-29 2024-08-29 2025-02-28"),
        ("yearly", "2024-02-29 2025-02-28 2026-02-28"),
        ("yearly", "2023-02-28 2024-02-28 2025-02-28"),
    ],
)
def test_each_period_costs_the_same_and_begins_where_one_ends(
    audited: Connection[Any], interval: str, boundaries: str
) -> None:
    """10.00 in advance and 20.00 in arrears, whatever the number of days."""
    first_on, *later = ends = days(boundaries)
    ledger = open_ledger(audited, first_on, billing_interval=interval)
    fees = ledger.price("10", key="a"), ledger.price("20", key="b", timing="arrears")
    ledger.subscribe(*fees, starts_on=first_on)

    ledger.bill(ends[-1] - timedelta(days=1))

    assert books(audited, ledger.account).periods == ends
    assert [ledger.totals(end)[0] for end in ends] == [
        amount("10.00"),
        *[amount("30.00")] * len(later),
    ]
    assert [ledger.entries(end)[1] for end in later] == [
        f"arrears {start}..{end - timedelta(days=1)}: 1 = 20.00"
        for start, end in zip(ends, later, strict=False)
    ]


def test_a_late_run_moves_no_boundary(audited: Connection[Any]) -> None:
    """One run long after the fact closes what monthly runs would have closed."""
    ledger = open_ledger(audited, date(2025, 8, 31), billing_interval="quarterly")

    ledger.bill(date(2026, 3, 5))
    ledger.bill(date(2026, 9, 17))

    assert books(audited, ledger.account).periods == days(
        "2025-08-31 2025-11-30 2026-02-28 2026-05-31 2026-08-31"
    )


def test_a_year_in_advance_is_billed_by_the_month_in_which_it_begins(
    audited: Connection[Any],
) -> None:
    ledger = open_ledger(audited, _NEW_YEAR)
    fee = ledger.price("120", billing_interval="yearly")
    ledger.subscribe(fee, starts_on=_NEW_YEAR)

    ledger.bill(date(2026, 3, 31))

    assert billed(ledger) == {
        "2025-01-01": ["advance 2025-01-01..2025-12-31: 1 = 120.00"],
        "2026-01-01": ["advance 2026-01-01..2026-12-31: 1 = 120.00"],
    }


def test_a_year_in_arrears_is_billed_by_the_month_in_which_it_ends(
    audited: Connection[Any],
) -> None:
    ledger = open_ledger(audited, _NEW_YEAR)
    fee = ledger.price("120", billing_interval="yearly", timing="arrears")
    ledger.subscribe(fee, starts_on=_NEW_YEAR)

    ledger.bill(date(2026, 3, 31))

    assert billed(ledger) == {
        "2026-01-01": ["arrears 2025-01-01..2025-12-31: 1 = 120.00"]
    }


@pytest.mark.parametrize(
    ("timing", "starts_on", "known_on", "closing", "net"),
    [
        # From 1 July on 184 of 365 days are left, from 10 July on 175.
        ("advance", "2025-07-01", "2025-06-10", "2025-07-01", "184.00"),
        ("advance", "2025-07-10", "2025-06-10", "2025-07-01", "175.00"),
        # It was not known at the boundary before: the next one bills it.
        ("advance", "2025-07-10", "2025-07-10", "2025-08-01", "175.00"),
        ("arrears", "2025-07-10", "2025-07-10", "2026-01-01", "175.00"),
    ],
)
def test_a_year_that_begins_late_costs_the_days_that_are_left(  # noqa: PLR0917
    audited: Connection[Any],
    timing: str,
    starts_on: str,
    known_on: str,
    closing: str,
    net: str,
) -> None:
    """365.00 a year is 1.00 a day in 2025."""
    ledger = open_ledger(audited, _NEW_YEAR)
    fee = ledger.price("365", billing_interval="yearly", timing=timing)
    ledger.bill(date.fromisoformat(known_on))
    ledger.subscribe(fee, starts_on=date.fromisoformat(starts_on))

    ledger.bill(date(2026, 1, 31))

    following = {"2026-01-01": ["advance 2026-01-01..2026-12-31: 1 = 365.00"]}
    assert billed(ledger) == {
        closing: [f"{timing} {starts_on}..2025-12-31: 1 = {net}"],
        **(following if timing == "advance" else {}),
    }


@pytest.mark.parametrize(
    ("timing", "closing"), [("advance", "2025-07-15"), ("arrears", "2026-01-01")]
)
def test_a_year_is_cut_where_the_account_begins(
    audited: Connection[Any], timing: str, closing: str
) -> None:
    """The account came on 15 July: 17 + 31 + 30 + 31 + 30 + 31 = 170 days."""
    first_on = date(2025, 7, 15)
    builders.tax_rate(audited)
    ledger = Ledger(audited, first_period_on=first_on, anchor_on=_NEW_YEAR)
    fee = ledger.price("365", billing_interval="yearly", timing=timing)
    ledger.subscribe(fee, starts_on=date(2024, 3, 1))

    ledger.bill(date(2025, 12, 31))

    assert billed(ledger)[closing][-1] == (
        f"{timing} 2025-07-15..2025-12-31: 1 = 170.00"
    )
    assert sum(map(len, billed(ledger).values())) == (2 if timing == "advance" else 1)


def test_a_year_with_a_leap_day_is_a_day_longer(audited: Connection[Any]) -> None:
    """366.00 a year is 1.00 a day in 2024: the last two months cost 30 + 31."""
    ledger = open_ledger(audited, date(2024, 1, 1))
    fee = ledger.price("366", billing_interval="yearly")
    ledger.subscribe(fee, starts_on=date(2024, 11, 1))

    ledger.bill(date(2024, 11, 30))

    assert billed(ledger) == {
        "2024-11-01": ["advance 2024-11-01..2024-12-31: 1 = 61.00"]
    }


def test_a_quarter_on_a_monthly_account_begins_at_its_anchor(
    audited: Connection[Any],
) -> None:
    """Quarters from 30 November, clamped: the second has 28 February to 29 May."""
    first_on = date(2025, 11, 30)
    ledger = open_ledger(audited, first_on)
    fee = ledger.price("90", billing_interval="quarterly", timing="arrears")
    ledger.subscribe(fee, starts_on=first_on)

    ledger.bill(date(2026, 6, 29))

    assert billed(ledger) == {
        "2026-02-28": ["arrears 2025-11-30..2026-02-27: 1 = 90.00"],
        "2026-05-30": ["arrears 2026-02-28..2026-05-29: 1 = 90.00"],
    }


def test_three_months_fit_into_a_quarter(audited: Connection[Any]) -> None:
    """10.00 a month is 30.00 a quarter; half of February and March make 15.00."""
    ledger = open_ledger(audited, _NEW_YEAR, billing_interval="quarterly")
    fee = ledger.price("10", billing_interval="monthly", timing="arrears")
    ledger.subscribe(fee, starts_on=date(2025, 2, 15))

    ledger.bill(date(2025, 6, 30))

    assert billed(ledger) == {
        "2025-04-01": ["arrears 2025-02-15..2025-03-31: 1 = 15.00"],
        "2025-07-01": ["arrears 2025-04-01..2025-06-30: 1 = 30.00"],
    }


def test_seats_of_a_monthly_price_are_billed_by_the_half_year(
    audited: Connection[Any],
) -> None:
    """3 seats * 10.00 * 6 months."""
    ledger = open_ledger(audited, _NEW_YEAR, billing_interval="half_yearly")
    ledger.subscribe(
        (ledger.price("10", billing_interval="monthly"), "3"), starts_on=_NEW_YEAR
    )

    ledger.bill(_NEW_YEAR)

    assert billed(ledger) == {
        "2025-01-01": ["advance 2025-01-01..2025-06-30: 3 = 180.00"]
    }


@pytest.mark.parametrize(
    ("timing", "first", "second"),
    [("advance", "2026-01-05", "2026-02-02"), ("arrears", "2026-02-09", "2026-03-09")],
)
def test_a_month_on_a_weekly_account_is_billed_by_the_week_it_begins_or_ends_in(
    audited: Connection[Any], timing: str, first: str, second: str
) -> None:
    """Months run from the 5th, as the anchor does; 5 February is a Thursday."""
    first_on = date(2026, 1, 5)
    ledger = open_ledger(audited, first_on, billing_interval="weekly")
    fee = ledger.price("31", billing_interval="monthly", timing=timing)
    ledger.subscribe(fee, starts_on=first_on, ends_on=date(2026, 3, 5))

    ledger.bill(date(2026, 3, 8))

    assert billed(ledger) == {
        first: [f"{timing} 2026-01-05..2026-02-04: 1 = 31.00"],
        second: [f"{timing} 2026-02-05..2026-03-04: 1 = 31.00"],
    }


def test_weeks_on_a_monthly_account_are_counted_in_parts(
    audited: Connection[Any],
) -> None:
    """31 days are four weeks and 3 days of 7; 28 days are the rest and three weeks.

    7.00 a week is 1.00 a day: 31.00 and 28.00.
    """
    first_on = date(2026, 1, 5)
    ledger = open_ledger(audited, first_on)
    fee = ledger.price("7", billing_interval="weekly")
    ledger.subscribe(fee, starts_on=first_on)

    ledger.bill(date(2026, 2, 5))

    assert billed(ledger) == {
        "2026-01-05": ["advance 2026-01-05..2026-02-04: 1 = 31.00"],
        "2026-02-05": ["advance 2026-02-05..2026-03-04: 1 = 28.00"],
    }


@pytest.mark.parametrize(
    ("proration", "price", "active", "net"),
    [
        # 14 of 31 days; 14 of 30; 17 of 30, as the 31st counts as the 30th.
        ("actual", "31", "2026-01-18 2026-02-01", "14.00"),
        ("actual_30", "30", "2026-01-18 2026-02-01", "14.00"),
        ("30_360", "30", "2026-01-18 2026-02-01", "13.00"),
        # A part of February: 14 of 28 days, of 30 days, and of a month of 30 days.
        ("actual", "28", "2026-02-15 2026-03-01", "14.00"),
        ("actual_30", "30", "2026-02-15 2026-03-01", "14.00"),
        ("30_360", "30", "2026-02-15 2026-03-01", "16.00"),
    ],
)
def test_a_part_is_measured_as_the_policy_says(
    audited: Connection[Any], proration: str, price: str, active: str, net: str
) -> None:
    """A whole month costs the same by all of them; only parts differ."""
    starts_on, ends_on = days(active)
    builders.tax_rate(audited)
    ledger = Ledger(audited, policy={"proration": proration})
    fee = ledger.price(price, timing="arrears")
    ledger.subscribe(fee, starts_on=starts_on, ends_on=ends_on)

    ledger.bill(ends_on - timedelta(days=1))

    assert ledger.totals(ends_on)[0] == amount(net)
