"""A price that changes, or ends, within a period costs what was used of it.

In advance the rest of the old one is given back, at the tax rate at which it was
billed, once; the new one is charged for the rest. In arrears each part costs its days.
"""

from datetime import date
from typing import Any

import pytest
from psycopg import Connection

from tests import builders
from tests.builders import Price
from tests.ledger import Ledger
from tests.shop import amount

pytestmark = pytest.mark.one_server

# November has 30 days.
NOVEMBER, DECEMBER, JANUARY = date(2025, 11, 1), date(2025, 12, 1), date(2026, 1, 1)
_NOVEMBER_30, _DECEMBER_31 = date(2025, 11, 30), date(2025, 12, 31)
_THE_11TH, _THE_16TH, _THE_21ST = (date(2025, 11, day) for day in (11, 16, 21))


@pytest.fixture
def ledger(audited: Connection[Any]) -> Ledger:
    builders.tax_rate(audited)
    return Ledger(audited, first_period_on=NOVEMBER)


def seats(ledger: Ledger, quantity: str, **price: Any) -> tuple[int, Price]:  # noqa: ANN401
    """Subscribe to seats at 30.00 each from November on."""
    fee = ledger.price("30", **price)
    return ledger.subscribe((fee, quantity), starts_on=NOVEMBER), fee


def test_a_price_that_changes_is_credited_and_charged_for_the_rest(
    ledger: Ledger,
) -> None:
    """20 of 30 days are left: 50 * 20 / 30 = 33.33, and 100 * 20 / 30 = 66.67."""
    small, large = ledger.price("50", key="small"), ledger.price("100", key="large")
    subscription_id = ledger.subscribe(small, starts_on=NOVEMBER)
    ledger.bill(NOVEMBER)

    ledger.change(subscription_id, small, _THE_11TH, to=large)
    ledger.bill(_NOVEMBER_30)

    assert ledger.entries(NOVEMBER) == ["advance 2025-11-01..2025-11-30: 1 = 50.00"]
    assert ledger.entries(DECEMBER) == [
        "advance 2025-12-01..2025-12-31: 1 = 100.00",
        "advance 2025-11-11..2025-11-30: 1 = 66.67",
        "unused_advance 2025-11-11..2025-11-30: -1 = -33.33",
    ]
    assert ledger.totals(DECEMBER) == (
        amount("133.34"), amount("25.33"), amount("158.67")
    )  # fmt: skip


def test_a_change_that_is_known_before_is_billed_in_its_parts(ledger: Ledger) -> None:
    """50 * 10 / 30 = 16.67, and 100 * 20 / 30 = 66.67; nothing to give back."""
    small, large = ledger.price("50", key="small"), ledger.price("100", key="large")
    subscription_id = ledger.subscribe(small, starts_on=NOVEMBER)
    ledger.change(subscription_id, small, _THE_11TH, to=large)

    ledger.bill(_NOVEMBER_30)

    assert ledger.entries(NOVEMBER) == [
        "advance 2025-11-11..2025-11-30: 1 = 66.67",
        "advance 2025-11-01..2025-11-10: 1 = 16.67",
    ]
    assert ledger.entries(DECEMBER) == ["advance 2025-12-01..2025-12-31: 1 = 100.00"]


def test_seats_that_are_added_cost_the_rest_of_the_month(ledger: Ledger) -> None:
    """15 of 30 days: 3 * 15.00 = 45.00 given back, 5 * 15.00 = 75.00 charged."""
    subscription_id, fee = seats(ledger, "3")
    ledger.bill(NOVEMBER)

    ledger.change(subscription_id, fee, _THE_16TH, quantity="5")
    ledger.bill(_NOVEMBER_30)

    assert ledger.entries(DECEMBER) == [
        "advance 2025-12-01..2025-12-31: 5 = 150.00",
        "advance 2025-11-16..2025-11-30: 5 = 75.00",
        "unused_advance 2025-11-16..2025-11-30: -1 = -45.00",
    ]


def test_seats_in_arrears_cost_their_days(ledger: Ledger) -> None:
    subscription_id, fee = seats(ledger, "3", timing="arrears")
    ledger.change(subscription_id, fee, _THE_16TH, quantity="5")

    ledger.bill(_NOVEMBER_30)

    assert ledger.entries(DECEMBER) == [
        "arrears 2025-11-01..2025-11-15: 3 = 45.00",
        "arrears 2025-11-16..2025-11-30: 5 = 75.00",
    ]


def test_two_changes_in_one_period_are_billed_in_three_parts(ledger: Ledger) -> None:
    """3 seats, 5 from the 11th, 4 from the 21st: a third of a month costs 10.00 each.

    Of the 90.00 that were paid 60.00 are given back; 50.00 and 40.00 are charged.
    """
    subscription_id, fee = seats(ledger, "3")
    ledger.bill(NOVEMBER)

    ledger.change(subscription_id, fee, _THE_11TH, quantity="5")
    ledger.change(subscription_id, fee, _THE_21ST, quantity="4")
    ledger.bill(_DECEMBER_31)

    assert ledger.entries(DECEMBER) == [
        "advance 2025-12-01..2025-12-31: 4 = 120.00",
        "advance 2025-11-11..2025-11-20: 5 = 50.00",
        "advance 2025-11-21..2025-11-30: 4 = 40.00",
        "unused_advance 2025-11-11..2025-11-30: -1 = -60.00",
    ]
    assert ledger.entries(JANUARY) == ["advance 2026-01-01..2026-01-31: 4 = 120.00"]


def test_a_part_that_was_billed_in_advance_is_cut_again(ledger: Ledger) -> None:
    """The change on the 11th was known: 30.00 and 5 * 20.00. That on the 21st was not.

    Half of the 100.00 is given back, and 4 * 10.00 are charged.
    """
    subscription_id, fee = seats(ledger, "3")
    ledger.change(subscription_id, fee, _THE_11TH, quantity="5")
    ledger.bill(NOVEMBER)

    ledger.change(subscription_id, fee, _THE_21ST, quantity="4")
    ledger.bill(_NOVEMBER_30)

    assert ledger.entries(NOVEMBER) == [
        "advance 2025-11-01..2025-11-10: 3 = 30.00",
        "advance 2025-11-11..2025-11-30: 5 = 100.00",
    ]
    assert ledger.entries(DECEMBER)[1:] == [
        "advance 2025-11-21..2025-11-30: 4 = 40.00",
        "unused_advance 2025-11-21..2025-11-30: -1 = -50.00",
    ]


@pytest.mark.parametrize(
    ("timing", "closing"), [("advance", NOVEMBER), ("arrears", DECEMBER)]
)
def test_the_last_of_equal_parts_takes_the_remainder(
    ledger: Ledger, timing: str, closing: date
) -> None:
    """A month of 10.00 in three parts of 10 days; the quantity stays what it was."""
    fee = ledger.price("10", timing=timing)
    subscription_id = ledger.subscribe(fee, starts_on=NOVEMBER)
    ledger.change(subscription_id, fee, _THE_11TH)
    ledger.change(subscription_id, fee, _THE_21ST)

    ledger.bill(_NOVEMBER_30)

    assert ledger.entries(closing)[-3:] == [
        f"{timing} 2025-11-01..2025-11-10: 1 = 3.33",
        f"{timing} 2025-11-11..2025-11-20: 1 = 3.34",
        f"{timing} 2025-11-21..2025-11-30: 1 = 3.33",
    ]


def test_seats_in_tiers_are_priced_and_then_prorated(ledger: Ledger) -> None:
    """2 seats cost 10 each, more of them 6: 3 cost 26.00, 5 cost 38.00 a month."""
    fee = ledger.price(model="graduated", tiers=[("2", "10"), (None, "6")])
    subscription_id = ledger.subscribe((fee, "3"), starts_on=NOVEMBER)
    ledger.bill(NOVEMBER)

    ledger.change(subscription_id, fee, _THE_16TH, quantity="5")
    ledger.bill(_NOVEMBER_30)

    assert ledger.entries(NOVEMBER) == ["advance 2025-11-01..2025-11-30: 3 = 26.00"]
    assert ledger.entries(DECEMBER) == [
        "advance 2025-12-01..2025-12-31: 5 = 38.00",
        "advance 2025-11-16..2025-11-30: 5 = 19.00",
        "unused_advance 2025-11-16..2025-11-30: -1 = -13.00",
    ]


def test_who_leaves_gets_the_rest_back_once(ledger: Ledger) -> None:
    """100.00 a month stay; of 30.00 two thirds are given back."""
    leaves = ledger.price("30")
    ledger.subscribe(ledger.price("100"), starts_on=NOVEMBER)
    subscription_id = ledger.subscribe(leaves, starts_on=NOVEMBER)
    ledger.bill(NOVEMBER)

    ledger.cancel(subscription_id, leaves, _THE_11TH)
    ledger.bill(_DECEMBER_31)

    assert ledger.entries(DECEMBER) == [
        "advance 2025-12-01..2025-12-31: 1 = 100.00",
        "unused_advance 2025-11-11..2025-11-30: -1 = -20.00",
    ]
    assert ledger.entries(JANUARY) == ["advance 2026-01-01..2026-01-31: 1 = 100.00"]


def test_who_leaves_on_the_first_day_gets_all_of_it_back(ledger: Ledger) -> None:
    """It was known on 5 December that the price had ended on the 1st."""
    subscription_id, fee = seats(ledger, "1")
    other = ledger.price("45")
    ledger.bill(DECEMBER)

    ledger.change(subscription_id, fee, DECEMBER, to=other)
    ledger.bill(_DECEMBER_31)

    assert ledger.entries(JANUARY) == [
        "advance 2026-01-01..2026-01-31: 1 = 45.00",
        "advance 2025-12-01..2025-12-31: 1 = 45.00",
        "unused_advance 2025-12-01..2025-12-31: -1 = -30.00",
    ]


def test_who_leaves_with_the_month_gets_nothing_back(ledger: Ledger) -> None:
    subscription_id, fee = seats(ledger, "1")
    ledger.bill(NOVEMBER)

    ledger.cancel(subscription_id, fee, DECEMBER)

    assert ledger.bill(_NOVEMBER_30) == ["nothing_to_bill"]


def test_what_is_given_back_was_discounted(ledger: Ledger) -> None:
    """27.00 were billed, 9.00 are given back; 45.00 less 4.50 are charged."""
    builders.discount(ledger.conn, ledger.account, percent="10", key="d",
                      starts_on=NOVEMBER)  # fmt: skip
    subscription_id, fee = seats(ledger, "1")
    ledger.bill(NOVEMBER)

    ledger.change(subscription_id, fee, _THE_21ST, quantity="3")
    ledger.bill(_NOVEMBER_30)

    assert ledger.entries(DECEMBER) == [
        "advance 2025-12-01..2025-12-31: 3 = 90.00 - 9.00 d = 81.00",
        "advance 2025-11-21..2025-11-30: 3 = 30.00 - 3.00 d = 27.00",
        "unused_advance 2025-11-21..2025-11-30: -1 = -9.00",
    ]


def test_a_pause_costs_nothing(ledger: Ledger) -> None:
    """20 days of 30.00 are given back, and the 10 after the pause are charged."""
    subscription_id, fee = seats(ledger, "1")
    ledger.bill(NOVEMBER)

    ledger.cancel(subscription_id, fee, _THE_11TH)
    builders.segment(
        ledger.conn, ledger.account, subscription_id, fee, starts_on=_THE_21ST
    )
    ledger.bill(_NOVEMBER_30)

    assert ledger.entries(DECEMBER) == [
        "advance 2025-12-01..2025-12-31: 1 = 30.00",
        "advance 2025-11-21..2025-11-30: 1 = 10.00",
        "unused_advance 2025-11-11..2025-11-30: -1 = -20.00",
    ]


def test_parts_of_a_year_in_arrears_are_billed_where_they_end(
    audited: Connection[Any],
) -> None:
    """1.00 a day: 135 days for 2 seats, and 230 for 3."""
    builders.tax_rate(audited)
    first_on = date(2025, 1, 1)
    ledger = Ledger(audited, first_period_on=first_on)
    fee = ledger.price("365", billing_interval="yearly", timing="arrears")
    subscription_id = ledger.subscribe((fee, "2"), starts_on=first_on)
    ledger.change(subscription_id, fee, date(2025, 5, 16), quantity="3")

    ledger.bill(_DECEMBER_31)

    assert ledger.entries(date(2025, 6, 1)) == [
        "arrears 2025-01-01..2025-05-15: 2 = 270.00"
    ]
    assert ledger.entries(JANUARY) == ["arrears 2025-05-16..2025-12-31: 3 = 690.00"]
