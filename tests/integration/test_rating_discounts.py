"""Discounts are taken off in a stated order, each of what the ones before have left.

First those of a price, then those of a subscription, then those of all lines; among
these by rank, then by key. A percentage is rounded once, on the sum of its lines; an
amount is taken off once a billing period, whichever invoice bills it. Never below zero.
"""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from psycopg import Connection

from tests import builders
from tests.ledger import Ledger
from tests.shop import FEBRUARY, FIRST_DAY, MARCH, amount

pytestmark = pytest.mark.one_server

APRIL, _MAY = date(2026, 4, 1), date(2026, 5, 1)
_JANUARY_31, _FEBRUARY_28, _MARCH_31 = (
    date(2026, 1, 31), date(2026, 2, 28), date(2026, 3, 31)
)  # fmt: skip
_JANUARY = "2026-01-01..2026-01-31"


@pytest.fixture
def ledger(audited: Connection[Any]) -> Ledger:
    builders.tax_rate(audited)
    return Ledger(audited)


def discount(ledger: Ledger, key: str, **columns: Any) -> None:  # noqa: ANN401
    builders.discount(ledger.conn, ledger.account, key=key, **columns)


def discounts(ledger: Ledger, period_end: date) -> list[str]:
    """Return what was taken off an invoice's lines, and their amounts."""
    return [line.partition(" = ")[2] for line in ledger.entries(period_end)]


def test_a_percentage_is_taken_off_each_line(ledger: Ledger) -> None:
    """15 % of 19.99 and 5.01 are 3.75 of 25.00: 3.00, and what is left of it."""
    discount(ledger, "spring", percent="15")
    ledger.subscribe(ledger.price("19.99", key="a"), ledger.price("5.01", key="b"))

    ledger.bill()

    assert ledger.entries(FIRST_DAY) == [
        f"advance {_JANUARY}: 1 = 19.99 - 3.00 spring = 16.99",
        f"advance {_JANUARY}: 1 = 5.01 - 0.75 spring = 4.26",
    ]
    # 19 % of 21.25 are 4.0375.
    assert ledger.totals(FIRST_DAY) == (
        amount("21.25"), amount("4.04"), amount("25.29")
    )  # fmt: skip


def test_the_last_of_equal_lines_takes_the_remainder(ledger: Ledger) -> None:
    discount(ledger, "ten", amount="10")
    ledger.subscribe(*(ledger.price("20") for _ in range(3)))

    ledger.bill()

    assert discounts(ledger, FIRST_DAY) == [
        "20.00 - 3.33 ten = 16.67",
        "20.00 - 3.33 ten = 16.67",
        "20.00 - 3.34 ten = 16.66",
    ]


def test_discounts_are_taken_off_from_the_narrow_to_the_wide(ledger: Ledger) -> None:
    """100.00 less 10 % of the price, 20.00 of the subscription, 50 % of all.

    100 - 10 = 90, 90 - 20 = 70, 70 - 35 = 35. Among the two of all, rank decides before
    the key: half of 70 first, and then 1.00.
    """
    fee = ledger.price("100")
    subscription_id = ledger.subscribe(fee)
    discount(ledger, "a", amount="1", rank=1)
    discount(ledger, "b", percent="50")
    discount(ledger, "c", amount="20", subscription_id=subscription_id)
    discount(ledger, "d", percent="10", price_id=fee.price_id, rank=9)

    ledger.bill()

    assert discounts(ledger, FIRST_DAY) == [
        "100.00 - 10.00 d - 20.00 c - 35.00 b - 1.00 a = 34.00"
    ]


def test_a_key_decides_where_ranks_do_not(ledger: Ledger) -> None:
    """10.00 off, then half: 45.00 are left. The other way round it were 40.00."""
    discount(ledger, "b", percent="50")
    discount(ledger, "a", amount="10")
    ledger.subscribe(ledger.price("100"))

    ledger.bill()

    assert discounts(ledger, FIRST_DAY) == ["100.00 - 10.00 a - 45.00 b = 45.00"]


def test_a_discount_is_only_taken_off_what_it_is_for(ledger: Ledger) -> None:
    """One of a price in one subscription; the price in another costs what it costs."""
    fee = ledger.price("100")
    first, _ = ledger.subscribe(fee, key="1"), ledger.subscribe(fee, key="2")
    ledger.subscribe(ledger.price("100"), key="3")
    discount(ledger, "d", percent="10", subscription_id=first, price_id=fee.price_id)
    discount(ledger, "e", percent="5", price_id=fee.price_id)

    ledger.bill()

    assert discounts(ledger, FIRST_DAY) == [
        "100.00 - 10.00 d - 4.50 e = 85.50",
        "100.00 - 5.00 e = 95.00",
        "100.00",
    ]


def test_an_amount_is_taken_off_once_a_billing_period(ledger: Ledger) -> None:
    """30.00 a month. For January 20.00 in advance, and 10.00 of what is in arrears.

    So the invoice of 1 February has two months: what is left of January, and February.
    """
    discount(ledger, "thirty", amount="30")
    meter_id = builders.meter(ledger.conn)
    ledger.subscribe(
        ledger.price("20", key="a"), ledger.price("1", key="b", meter_id=meter_id)
    )
    ledger.use(meter_id, "50")

    ledger.bill(_FEBRUARY_28)

    assert discounts(ledger, FIRST_DAY) == ["20.00 - 20.00 thirty = 0.00"]
    assert discounts(ledger, FEBRUARY) == [
        "20.00 - 20.00 thirty = 0.00",
        "50.00 - 10.00 thirty = 40.00",
    ]
    # Of February 10.00 are left, and nothing that they could be taken off: they lapse.
    assert discounts(ledger, MARCH) == ["20.00 - 20.00 thirty = 0.00"]


def test_what_is_given_back_of_a_discount_counts_for_the_new_price(
    ledger: Ledger,
) -> None:
    """50.00 less 10.00; from 11 April 100.00, so 20 of 30 days are given back.

    26.67 of the 40.00 with them 6.67 of the discount, which the 66.67 of the rest get.
    """
    discount(ledger, "ten", amount="10", ends_on=_MAY)
    old, new = ledger.price("50", key="old"), ledger.price("100", key="new")
    subscription = ledger.subscribe(old, starts_on=APRIL)
    ledger.bill(APRIL)

    ledger.change(subscription, old, date(2026, 4, 11), to=new)
    ledger.bill(date(2026, 4, 30))

    assert discounts(ledger, APRIL) == ["50.00 - 10.00 ten = 40.00"]
    given_back = [line for line in ledger.entries(_MAY) if "2026-04-" in line]
    assert given_back == [
        "advance 2026-04-11..2026-04-30: 1 = 66.67 - 6.67 ten = 60.00",
        "unused_advance 2026-04-11..2026-04-30: -1 = -26.67",
    ]


def test_late_usage_gets_what_is_left_of_its_period(ledger: Ledger) -> None:
    """Of 30.00 for January 20.00 were used: late usage of 50.00 has 10.00 left."""
    discount(ledger, "thirty", amount="30", ends_on=FEBRUARY)
    meter_id = ledger.metered()
    ledger.use(meter_id, "20")
    ledger.bill(_JANUARY_31)

    ledger.use(meter_id, "50", on=date(2026, 1, 20))
    ledger.use(meter_id, "7", on=date(2026, 2, 20))
    ledger.bill(_FEBRUARY_28)

    assert discounts(ledger, FEBRUARY) == ["20.00 - 20.00 thirty = 0.00"]
    assert discounts(ledger, MARCH) == ["7.00", "50.00 - 10.00 thirty = 40.00"]


@pytest.mark.parametrize(
    ("columns", "left"),
    [
        ({}, "90 90 90 90"),
        ({"starts_on": FEBRUARY}, "100 90 90 90"),
        # It counts for service that begins on one of its days.
        ({"starts_on": date(2026, 1, 2)}, "100 90 90 90"),
        ({"ends_on": MARCH}, "90 90 100 100"),
        ({"ends_on": date(2026, 3, 2)}, "90 90 90 100"),
        ({"period_count": 1}, "90 100 100 100"),
        ({"period_count": 3}, "90 90 90 100"),
        # The period of its first day counts as one.
        ({"starts_on": date(2026, 1, 20), "period_count": 2}, "100 90 100 100"),
        ({"starts_on": FEBRUARY, "period_count": 2}, "100 90 90 100"),
        (
            {"starts_on": FEBRUARY, "period_count": 2, "ends_on": MARCH},
            "100 90 100 100",
        ),
    ],
)
def test_a_discount_begins_and_ends(
    ledger: Ledger, columns: dict[str, Any], left: str
) -> None:
    discount(ledger, "d", percent="10", **columns)
    ledger.subscribe(ledger.price("100"))

    ledger.bill(_MARCH_31)

    assert [
        str(int(ledger.totals(end)[0])) for end in (FIRST_DAY, FEBRUARY, MARCH, APRIL)
    ] == left.split()


def test_months_are_counted_where_usage_was(ledger: Ledger) -> None:
    """One billing period: January is billed in arrears, on 1 February."""
    discount(ledger, "d", percent="10", period_count=1)
    meter_id = ledger.metered()
    for month in (1, 2):
        ledger.use(meter_id, "100", on=date(2026, month, 10))

    ledger.bill(_FEBRUARY_28)

    assert discounts(ledger, FEBRUARY) == ["100.00 - 10.00 d = 90.00"]
    assert discounts(ledger, MARCH) == ["100.00"]


def test_a_hundred_percent_leave_an_invoice_of_nothing(ledger: Ledger) -> None:
    discount(ledger, "free", percent="100")
    discount(ledger, "more", amount="5")
    ledger.subscribe(ledger.price("19.99"))

    assert ledger.bill() == ["invoiced"]

    assert discounts(ledger, FIRST_DAY) == ["19.99 - 19.99 free = 0.00"]
    assert ledger.totals(FIRST_DAY) == (0, 0, 0)


def test_a_credit_gets_no_discount(ledger: Ledger) -> None:
    """It is not less that is given back: -30.00 stay, 10 % are off the 100.00."""
    discount(ledger, "d", percent="10")
    ledger.subscribe(ledger.price("100", timing="arrears"))
    builders.charge(ledger.conn, ledger.account, unit_amount=Decimal(-30))
    builders.charge(ledger.conn, ledger.account, unit_amount=Decimal(50))

    ledger.bill(_JANUARY_31)

    assert discounts(ledger, FEBRUARY) == [
        "100.00 - 10.00 d = 90.00", "-30.00", "50.00 - 5.00 d = 45.00"
    ]  # fmt: skip


def test_a_charge_has_its_own_discount_before_all_others(ledger: Ledger) -> None:
    """2 * 100.00 less 20.00 that the charge says; 10 % of 180.00."""
    discount(ledger, "d", percent="10")
    builders.charge(
        ledger.conn, ledger.account, quantity=Decimal(2), discount_amount=Decimal(20)
    )

    ledger.bill(_JANUARY_31)

    (line,) = ledger.entries(FEBRUARY)
    assert line == "charge 2026-01-10..2026-01-10: 2 = 200.00 - 18.00 d = 162.00"


@pytest.mark.parametrize(
    ("currency", "shares"),
    [("JPY", "3 3 4"), ("KWD", "3.333 3.333 3.334"), ("EUR", "3.33 3.33 3.34")],
)
def test_shares_have_the_digits_of_the_currency(
    audited: Connection[Any], currency: str, shares: str
) -> None:
    builders.tax_rate(audited)
    ledger = Ledger(audited, currency=currency)
    discount(ledger, "d", amount="10")
    ledger.subscribe(*(ledger.price("300") for _ in range(3)))

    ledger.bill()

    taken = [line.split(" - ")[1] for line in discounts(ledger, FIRST_DAY)]
    assert taken == [
        f"{share} d = {amount('300') - amount(share)}" for share in shares.split()
    ]


def test_a_discount_is_off_the_amount_with_tax_where_prices_have_it(
    ledger: Ledger,
) -> None:
    """119.00 less 10 % are 107.10 with 19 %, of which 17.10 are tax."""
    discount(ledger, "d", percent="10")
    ledger.subscribe(ledger.price("119", tax_included=True))

    ledger.bill()

    assert discounts(ledger, FIRST_DAY) == ["119.00 - 11.90 d = 107.10"]
    assert ledger.totals(FIRST_DAY) == (
        amount("90.00"), amount("17.10"), amount("107.10")
    )  # fmt: skip
