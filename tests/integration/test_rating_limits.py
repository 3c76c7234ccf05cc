"""A minimum and a maximum limit what a price, or a subscription, brings in a period.

What is missing is a line of its own, what is beyond is taken off. Both are prorated,
count before discounts, and know what was billed for the period on an earlier invoice.
"""

from datetime import date
from typing import Any

import pytest
from psycopg import Connection

from tests import builders
from tests.builders import Price
from tests.ledger import Ledger
from tests.shop import FEBRUARY, FIRST_DAY, MARCH, amount

pytestmark = pytest.mark.one_server

_JANUARY_31, _FEBRUARY_28 = date(2026, 1, 31), date(2026, 2, 28)
_THE_17TH = date(2026, 1, 17)
"""15 of 31 days are left."""
_JANUARY = "2026-01-01..2026-01-31"


@pytest.fixture
def ledger(audited: Connection[Any]) -> Ledger:
    builders.tax_rate(audited)
    return Ledger(audited)


def january(ledger: Ledger) -> list[str]:
    """Return the lines of January on the invoice of 1 February."""
    return [line for line in ledger.entries(FEBRUARY) if "2026-01-" in line]


def unit(ledger: Ledger, **columns: Any) -> tuple[Price, int]:  # noqa: ANN401
    """Add a meter, and a price of 1.00 for each unit of it."""
    meter_id = builders.meter(ledger.conn)
    return ledger.price("1", key="unit", meter_id=meter_id, **columns), meter_id


def limit(ledger: Ledger, model: str, amount_: str) -> Price:
    """Add a price that limits what its subscription is billed."""
    return ledger.price(amount_, key=model, model=model, timing="arrears")


@pytest.mark.parametrize(
    ("terms", "used", "lines"),
    [
        ({"minimum_amount": 50}, "30", ["usage 30 = 30.00", "minimum 1 = 20.00"]),
        ({"minimum_amount": 50}, "50", ["usage 50 = 50.00"]),
        ({"minimum_amount": 50}, "", ["minimum 1 = 50.00"]),
        ({"maximum_amount": 50}, "50", ["usage 50 = 50.00"]),
        ({"maximum_amount": 50}, "51", ["usage 51 = 51.00 - 1.00 maximum = 50.00"]),
        ({"minimum_amount": 5, "maximum_amount": 5}, "7",
         ["usage 7 = 7.00 - 2.00 maximum = 5.00"]),
        ({"maximum_amount": 0}, "7", ["usage 7 = 7.00 - 7.00 maximum = 0.00"]),
    ],
)  # fmt: skip
def test_a_price_brings_its_minimum_and_no_more_than_its_maximum(
    ledger: Ledger, terms: dict[str, Any], used: str, lines: list[str]
) -> None:
    price, meter_id = unit(ledger, terms=terms)
    ledger.subscribe(price)
    if used:
        ledger.use(meter_id, used)

    ledger.bill(_JANUARY_31)

    assert [line.replace(f"{_JANUARY}: ", "") for line in january(ledger)] == lines


@pytest.mark.parametrize(
    ("terms", "used", "lines"),
    [
        # 62.00 a month are 30.00 for 15 of 31 days.
        ({"minimum_amount": 62}, "10", ["usage 10 = 10.00", "minimum 1 = 20.00"]),
        ({"maximum_amount": 62}, "45", ["usage 45 = 45.00 - 15.00 maximum = 30.00"]),
    ],
)
def test_a_part_of_a_month_has_a_part_of_the_limit(
    ledger: Ledger, terms: dict[str, Any], used: str, lines: list[str]
) -> None:
    price, meter_id = unit(ledger, terms=terms)
    ledger.subscribe(price, starts_on=_THE_17TH)
    ledger.use(meter_id, used, on=date(2026, 1, 20))

    ledger.bill(_JANUARY_31)

    rest = "2026-01-17..2026-01-31: "
    assert [line.replace(rest, "") for line in january(ledger)] == lines


@pytest.mark.parametrize(
    ("terms", "lines"),
    [
        ({"minimum_amount": 100},
         ["usage [eu]: 30 = 30.00", "usage [us]: 50 = 50.00", "minimum: 1 = 20.00"]),
        # 40.00 are beyond it, 3/8 of them in eu.
        ({"maximum_amount": 40},
         ["usage [eu]: 30 = 30.00 - 15.00 maximum = 15.00",
          "usage [us]: 50 = 50.00 - 25.00 maximum = 25.00"]),
    ],
)  # fmt: skip
def test_groups_share_the_limit_of_their_price(
    ledger: Ledger, terms: dict[str, Any], lines: list[str]
) -> None:
    price, meter_id = unit(ledger, terms=terms, group_by="region")
    ledger.subscribe(price)
    for region, used in (("eu", "30"), ("us", "50")):
        ledger.use(meter_id, used, dimensions={"region": region})

    ledger.bill(_JANUARY_31)

    assert [line.replace(f" {_JANUARY}", "") for line in january(ledger)] == lines


def test_an_advance_fee_counts_for_the_minimum_of_its_period(ledger: Ledger) -> None:
    """40.00 for January in advance, 30.00 of usage: 30.00 are missing to 100.00.

    What is billed in advance for February on the same invoice counts for February.
    """
    price, meter_id = unit(ledger)
    ledger.subscribe(
        ledger.price("40", key="fee"), price, limit(ledger, "minimum", "100")
    )
    ledger.use(meter_id, "30")

    ledger.bill(_FEBRUARY_28)

    assert ledger.entries(FIRST_DAY) == [f"advance {_JANUARY}: 1 = 40.00"]
    assert ledger.entries(FEBRUARY) == [
        "advance 2026-02-01..2026-02-28: 1 = 40.00",
        f"usage {_JANUARY}: 30 = 30.00",
        f"minimum {_JANUARY}: 1 = 30.00",
    ]
    assert ledger.entries(MARCH) == [
        "advance 2026-03-01..2026-03-31: 1 = 40.00",
        "minimum 2026-02-01..2026-02-28: 1 = 60.00",
    ]


@pytest.mark.parametrize("used", ["100", "250"])
def test_a_minimum_that_is_reached_has_no_line(ledger: Ledger, used: str) -> None:
    price, meter_id = unit(ledger)
    ledger.subscribe(price, limit(ledger, "minimum", "100"))
    ledger.use(meter_id, used)

    ledger.bill(_JANUARY_31)

    assert january(ledger) == [f"usage {_JANUARY}: {used} = {used}.00"]


def test_what_began_before_a_limit_counts_within_its_period(ledger: Ledger) -> None:
    """From the 17th at least 15/31 of 62.00: 9.00 of a fee, 5.00 of usage, 16.00."""
    price, meter_id = unit(ledger)
    minimum = limit(ledger, "minimum", "62")
    subscription = ledger.subscribe(
        ledger.price("9", key="fee", timing="arrears"), price
    )
    builders.segment(
        ledger.conn, ledger.account, subscription, minimum, starts_on=_THE_17TH
    )
    ledger.use(meter_id, "5", on=date(2026, 1, 3))

    ledger.bill(_JANUARY_31)

    assert january(ledger) == [
        f"arrears {_JANUARY}: 1 = 9.00",
        f"usage {_JANUARY}: 5 = 5.00",
        "minimum 2026-01-17..2026-01-31: 1 = 16.00",
    ]


def test_a_minimum_that_changes_within_the_period_is_one(ledger: Ledger) -> None:
    """16 of 31 days of 31.00, and 15 of 62.00: 16.00 and 30.00; 40.00 were used."""
    price, meter_id = unit(ledger)
    low, high = (
        ledger.price(each, model="minimum", timing="arrears") for each in ("31", "62")
    )
    subscription = ledger.subscribe(price, low)
    ledger.change(subscription, low, _THE_17TH, to=high)
    ledger.use(meter_id, "40")

    ledger.bill(_JANUARY_31)

    assert january(ledger) == [
        f"usage {_JANUARY}: 40 = 40.00",
        "minimum 2026-01-17..2026-01-31: 1 = 6.00",
    ]


def test_only_its_own_subscription_counts(ledger: Ledger) -> None:
    ledger.subscribe(ledger.price("500", timing="arrears"), key="other")
    ledger.subscribe(limit(ledger, "minimum", "100"), key="own")

    ledger.bill(_JANUARY_31)

    assert january(ledger) == [
        f"arrears {_JANUARY}: 1 = 500.00",
        f"minimum {_JANUARY}: 1 = 100.00",
    ]


def test_a_subscription_that_begins_late_has_a_part_of_the_minimum(
    ledger: Ledger,
) -> None:
    """62.00 a month are 30.00 for 15 days; the fee of 31.00 a month is 15.00 of it."""
    ledger.subscribe(
        ledger.price("31", timing="arrears"),
        limit(ledger, "minimum", "62"),
        starts_on=_THE_17TH,
    )

    ledger.bill(_JANUARY_31)

    assert january(ledger) == [
        "arrears 2026-01-17..2026-01-31: 1 = 15.00",
        "minimum 2026-01-17..2026-01-31: 1 = 15.00",
    ]


def test_what_is_beyond_the_maximum_of_a_subscription_is_taken_off(
    ledger: Ledger,
) -> None:
    """40.00 in advance and 120.00 in arrears and usage: 60.00 beyond 100.00.

    A third of it off the 40.00, two thirds off the 80.00.
    """
    price, meter_id = unit(ledger)
    ledger.subscribe(
        ledger.price("40", key="a"),
        ledger.price("40", key="b", timing="arrears"),
        price,
        limit(ledger, "maximum", "100"),
    )
    ledger.use(meter_id, "80")

    ledger.bill(_JANUARY_31)

    assert january(ledger) == [
        f"arrears {_JANUARY}: 1 = 40.00 - 20.00 subscription_maximum = 20.00",
        f"usage {_JANUARY}: 80 = 80.00 - 40.00 subscription_maximum = 40.00",
    ]


def test_what_was_billed_in_advance_beyond_the_maximum_stays(ledger: Ledger) -> None:
    """150.00 were billed before usage was known; the usage costs nothing."""
    price, meter_id = unit(ledger)
    ledger.subscribe(ledger.price("150"), price, limit(ledger, "maximum", "100"))
    ledger.use(meter_id, "10")

    ledger.bill(_JANUARY_31)

    assert january(ledger) == [
        f"usage {_JANUARY}: 10 = 10.00 - 10.00 subscription_maximum = 0.00"
    ]


@pytest.mark.parametrize(
    ("used", "lines"),
    [
        # 20.00 are missing to 50.00; 10 % are off both.
        ("30", ["usage 30 = 30.00 - 3.00 d = 27.00",
                "minimum 1 = 20.00 - 2.00 d = 18.00"]),
        # 100.00 are the most; 10 % are off what is left of it.
        ("130", ["usage 130 = 130.00 - 30.00 subscription_maximum - 10.00 d = 90.00"]),
    ],
)  # fmt: skip
def test_limits_come_before_discounts(
    ledger: Ledger, used: str, lines: list[str]
) -> None:
    builders.discount(ledger.conn, ledger.account, key="d", percent="10")
    price, meter_id = unit(ledger)
    ledger.subscribe(
        price, limit(ledger, "minimum", "50"), limit(ledger, "maximum", "100")
    )
    ledger.use(meter_id, used)

    ledger.bill(_JANUARY_31)

    assert [line.replace(f"{_JANUARY}: ", "") for line in january(ledger)] == lines


def test_a_discount_on_an_earlier_invoice_does_not_lower_what_was_reached(
    ledger: Ledger,
) -> None:
    """40.00 less half in advance count as 40.00: of 100.00 are 60.00 missing."""
    builders.discount(
        ledger.conn, ledger.account, key="d", percent="50", ends_on=date(2026, 1, 2)
    )
    ledger.subscribe(ledger.price("40"), limit(ledger, "minimum", "100"))

    ledger.bill(_JANUARY_31)

    assert ledger.entries(FIRST_DAY) == [
        f"advance {_JANUARY}: 1 = 40.00 - 20.00 d = 20.00"
    ]
    assert january(ledger) == [f"minimum {_JANUARY}: 1 = 60.00 - 30.00 d = 30.00"]


def test_a_minimum_includes_tax_where_its_price_does(ledger: Ledger) -> None:
    """100.00 with 19 % tax: 30.00 of usage, 70.00 more; 15.97 of it are tax."""
    price, meter_id = unit(ledger, terms={"minimum_amount": 100}, tax_included=True)
    ledger.subscribe(price)
    ledger.use(meter_id, "30")

    ledger.bill(_JANUARY_31)

    assert [line.split(": ")[1] for line in january(ledger)] == [
        "30 = 30.00", "1 = 70.00"
    ]  # fmt: skip
    assert ledger.totals(FEBRUARY) == (
        amount("84.03"), amount("15.97"), amount("100.00")
    )  # fmt: skip


def test_late_usage_counts_within_the_minimum_of_a_subscription(ledger: Ledger) -> None:
    """30.00, and 70.00 that are missing: of 90.00 that come late 20.00 are billed."""
    price, meter_id = unit(ledger)
    ledger.subscribe(price, limit(ledger, "minimum", "100"))
    ledger.use(meter_id, "30")
    ledger.bill(_JANUARY_31)

    ledger.use(meter_id, "90")
    ledger.bill(_FEBRUARY_28)

    assert january(ledger) == [
        f"usage {_JANUARY}: 30 = 30.00",
        f"minimum {_JANUARY}: 1 = 70.00",
    ]
    assert ledger.entries(MARCH) == [
        f"late_usage {_JANUARY}: 90 = 90.00 - 70.00 subscription_minimum = 20.00",
        "minimum 2026-02-01..2026-02-28: 1 = 100.00",
    ]


def test_late_usage_counts_within_the_maximum_of_a_subscription(ledger: Ledger) -> None:
    """80.00 of at most 100.00: of 50.00 that come late 30.00 are taken off."""
    price, meter_id = unit(ledger)
    ledger.subscribe(price, limit(ledger, "maximum", "100"))
    ledger.use(meter_id, "80")
    ledger.bill(_JANUARY_31)

    ledger.use(meter_id, "50")
    ledger.bill(_FEBRUARY_28)
    ledger.use(meter_id, "7")
    ledger.bill(date(2026, 3, 31))

    assert ledger.entries(MARCH) == [
        f"late_usage {_JANUARY}: 50 = 50.00 - 30.00 subscription_maximum = 20.00"
    ]
    assert ledger.entries(date(2026, 4, 1)) == [
        f"late_usage {_JANUARY}: 7 = 7.00 - 7.00 subscription_maximum = 0.00"
    ]


def test_late_usage_of_a_period_that_was_cut_has_a_part_of_the_limit(
    audited: Connection[Any],
) -> None:
    """15 of 31 days of 62.00 are 30.00: 10.00 were billed, so 20.00 were missing."""
    builders.tax_rate(audited)
    ledger = Ledger(audited, first_period_on=_THE_17TH, anchor_on=FIRST_DAY)
    meter_id = builders.meter(ledger.conn)
    price = ledger.price("1", meter_id=meter_id, terms={"minimum_amount": 62})
    ledger.subscribe(price, starts_on=_THE_17TH)
    ledger.use(meter_id, "10", on=date(2026, 1, 20))
    ledger.bill(_JANUARY_31)

    ledger.use(meter_id, "25", on=date(2026, 1, 21))
    ledger.bill(_FEBRUARY_28)

    late = [line for line in ledger.entries(MARCH) if line.startswith("late")]
    assert late == [
        "late_usage 2026-01-17..2026-01-31: 25 = 25.00 - 20.00 minimum = 5.00"
    ]
