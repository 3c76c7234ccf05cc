"""What was paid in advance and not used is given back once, as it was billed.

At the tax rate of the fee, after its discounts, on the first invoice that knows; below
zero it waits for the next one, or is a credit note, as the seller's policy says.
"""

from datetime import date
from typing import Any

import pytest
from psycopg import Connection

from tests import builders
from tests.builders import Price
from tests.ledger import Ledger
from tests.shop import amount, run_sql, value, values

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


def yearly(conn: Connection[Any], **policy: object) -> tuple[Ledger, int, Price]:
    """Subscribe an account that pays monthly to 2 seats for 2025, at 1.00 a day."""
    builders.tax_rate(conn)
    first_on = date(2025, 1, 1)
    ledger = Ledger(conn, policy=policy, first_period_on=first_on)
    fee = ledger.price("365", billing_interval="yearly")
    return ledger, ledger.subscribe((fee, "2"), starts_on=first_on), fee


def test_the_tax_that_was_paid_is_given_back(ledger: Ledger) -> None:
    """19 % when it was billed; the class of the price is another one since."""
    builders.tax_rate(ledger.conn, rate="7", tax_class="books")
    subscription_id, fee = seats(ledger, "1")
    ledger.bill(NOVEMBER)

    run_sql(ledger.conn, "UPDATE pgbill.price SET tax_class = 'books'")
    ledger.change(subscription_id, fee, _THE_21ST, quantity="4")
    ledger.bill(_NOVEMBER_30)

    assert ledger.lines(DECEMBER)[1:] == [
        "advance 2025-11-21..2025-11-30: 4 * 30 = 40.00, S 7",
        "unused_advance 2025-11-21..2025-11-30: -1 * 30.00 = -10.00, S 19",
    ]
    assert ledger.taxes(DECEMBER) == ["S 19: -10.00 -> -1.90", "S 7: 160.00 -> 11.20"]


@pytest.mark.parametrize(
    ("proration", "ends_on", "kept"),
    [
        # 31 days: 1 of them, or 1 of 30, or all of 30.
        ("actual", date(2025, 12, 2), "1.00"),
        ("actual_30", date(2025, 12, 2), "1.03"),
        ("actual_30", date(2025, 12, 31), "31.00"),
        ("30_360", date(2025, 12, 31), "29.97"),
    ],
)
def test_what_is_kept_and_what_is_given_back_are_the_fee(
    audited: Connection[Any], proration: str, ends_on: date, kept: str
) -> None:
    """31.00 for December: what was used is billed as a part, the rest is given back."""
    builders.tax_rate(audited)
    ledger = Ledger(audited, policy={"proration": proration}, first_period_on=DECEMBER)
    fee = ledger.price("31")
    subscription_id = ledger.subscribe(fee, starts_on=DECEMBER)
    ledger.bill(DECEMBER)

    ledger.cancel(subscription_id, fee, ends_on)
    ledger.bill(_DECEMBER_31)

    given_back = [amount(line.partition(" = ")[2]) for line in ledger.carried(JANUARY)]
    assert sum(given_back) == amount(kept) - 31


def test_a_fee_with_tax_is_given_back_with_tax(ledger: Ledger) -> None:
    """119.00 with tax, of which 79.33 are given back; 238.00 a month are new."""
    old, new = (ledger.price(each, tax_included=True) for each in ("119", "238"))
    subscription_id = ledger.subscribe(old, starts_on=NOVEMBER)
    ledger.bill(NOVEMBER)

    ledger.change(subscription_id, old, _THE_11TH, to=new)
    ledger.bill(_NOVEMBER_30)

    assert ledger.entries(DECEMBER)[1:] == [
        "advance 2025-11-11..2025-11-30: 1 = 158.67",
        "unused_advance 2025-11-11..2025-11-30: -1 = -79.33",
    ]
    # 317.34 * 19 / 119 = 50.668
    assert ledger.totals(DECEMBER) == (
        amount("266.67"), amount("50.67"), amount("317.34")
    )  # fmt: skip


def test_a_year_that_is_cancelled_in_its_fifth_month_is_a_credit_note(
    audited: Connection[Any],
) -> None:
    """16 + 30 + 31 + 31 + 30 + 31 + 30 + 31 = 230 days are left, for 2 seats."""
    ledger, subscription_id, fee = yearly(audited, negative_total="credit_note")
    ledger.bill(date(2025, 5, 20))

    ledger.cancel(subscription_id, fee, date(2025, 5, 16))
    ledger.bill(date(2025, 7, 31))

    june = date(2025, 6, 1)
    assert ledger.entries(june) == [
        "unused_advance 2025-05-16..2025-12-31: -1 = -460.00"
    ]
    assert ledger.totals(june) == (
        amount("-460.00"), amount("-87.40"), amount("-547.40")
    )  # fmt: skip
    assert values(audited, "SELECT kind FROM pgbill.invoice ORDER BY invoice_id") == [
        "invoice",
        "credit_note",
    ]


@pytest.mark.parametrize("known_on", [date(2025, 4, 20), date(2025, 5, 20)])
def test_seats_of_a_year_change_on_one_invoice(
    audited: Connection[Any], known_on: date
) -> None:
    """2 seats until 15 May, then 3: 460.00 are given back and 690.00 charged.

    On the first invoice that knows: of 1 May if it was announced, else of 1 June.
    """
    ledger, subscription_id, fee = yearly(audited)
    ledger.bill(known_on)

    ledger.change(subscription_id, fee, date(2025, 5, 16), quantity="3")
    ledger.bill(date(2025, 8, 31))

    (invoice,) = values(
        audited,
        "SELECT period_end FROM pgbill.invoice WHERE period_end > '2025-01-01'",
    )
    assert invoice == date(2025, known_on.month + 1, 1)
    assert ledger.entries(invoice) == [
        "advance 2025-05-16..2025-12-31: 3 = 690.00",
        "unused_advance 2025-05-16..2025-12-31: -1 = -460.00",
    ]


def test_an_end_that_is_set_back_again_gives_back_what_is_missing(
    audited: Connection[Any],
) -> None:
    """It was to be the 16th, which 1 May gave back, and became the 10th: six days."""
    ledger, subscription_id, fee = yearly(audited, negative_total="credit_note")
    ledger.bill(date(2025, 4, 20))
    ledger.cancel(subscription_id, fee, date(2025, 5, 16))
    ledger.bill(date(2025, 5, 1))

    run_sql(
        audited,
        "UPDATE pgbill.subscription_price SET active_period = daterange(starts_on, %s)",
        date(2025, 5, 10),
    )
    ledger.bill(date(2025, 8, 31))

    assert ledger.entries(date(2025, 5, 1)) == [
        "unused_advance 2025-05-16..2025-12-31: -1 = -460.00"
    ]
    assert ledger.entries(date(2025, 6, 1)) == [
        "unused_advance 2025-05-10..2025-05-15: -1 = -12.00"
    ]


def test_seats_that_change_on_the_first_day_are_billed_anew(ledger: Ledger) -> None:
    """December was billed for 3 seats; it is known since that it began with 5."""
    subscription_id, fee = seats(ledger, "3")
    ledger.bill(DECEMBER)

    ledger.change(subscription_id, fee, DECEMBER, quantity="5")
    ledger.bill(_DECEMBER_31)

    assert ledger.entries(JANUARY) == [
        "advance 2026-01-01..2026-01-31: 5 = 150.00",
        "advance 2025-12-01..2025-12-31: 5 = 150.00",
        "unused_advance 2025-12-01..2025-12-31: -1 = -90.00",
    ]


def test_a_fee_that_waits_for_an_invoice_is_given_back_beside_it(
    audited: Connection[Any],
) -> None:
    """90.00 for November wait, being below 200.00; from the 16th there are 5 seats."""
    builders.tax_rate(audited)
    policy: dict[str, object] = {"minimum_invoice": {"EUR": "200"}}
    ledger = Ledger(audited, policy=policy, first_period_on=NOVEMBER)
    subscription_id, fee = seats(ledger, "3")
    assert ledger.bill(NOVEMBER) == ["carried_forward"]

    ledger.change(subscription_id, fee, _THE_16TH, quantity="5")
    ledger.bill(_DECEMBER_31)

    assert ledger.entries(DECEMBER) == [
        "advance 2025-11-01..2025-11-30: 3 = 90.00",
        "advance 2025-12-01..2025-12-31: 5 = 150.00",
        "advance 2025-11-16..2025-11-30: 5 = 75.00",
        "unused_advance 2025-11-16..2025-11-30: -1 = -45.00",
    ]
    assert ledger.carried(JANUARY) == ["advance 2026-01-01..2026-01-31: 5 = 150.00"]


def test_a_seller_may_keep_what_is_not_used(audited: Connection[Any]) -> None:
    builders.tax_rate(audited)
    ledger = Ledger(
        audited, policy={"unused_advance": "keep"}, first_period_on=NOVEMBER
    )
    subscription_id, fee = seats(ledger, "1")
    ledger.bill(NOVEMBER)

    ledger.cancel(subscription_id, fee, _THE_11TH)

    assert ledger.bill(_NOVEMBER_30) == ["nothing_to_bill"]


def test_a_credit_that_waits_is_not_given_twice(ledger: Ledger) -> None:
    """Below zero it is carried forward, by every closing that bills less than it."""
    subscription_id, fee = seats(ledger, "3")
    ledger.bill(NOVEMBER)
    ledger.cancel(subscription_id, fee, _THE_11TH)
    assert ledger.bill(_DECEMBER_31) == ["carried_forward"] * 2

    ledger.subscribe(ledger.price("100"), starts_on=date(2026, 2, 1))
    ledger.bill(date(2026, 3, 31))

    credit = "unused_advance 2025-11-11..2025-11-30: -1 = -60.00"
    assert ledger.carried(DECEMBER) == ledger.carried(JANUARY) == [credit]
    assert ledger.entries(date(2026, 2, 1)) == [
        credit,
        "advance 2026-02-01..2026-02-28: 1 = 100.00",
    ]
    assert ledger.entries(date(2026, 3, 1)) == [
        "advance 2026-03-01..2026-03-31: 1 = 100.00"
    ]
    assert value(ledger.conn, "SELECT sum(net_amount) FROM pgbill.invoice") == amount(
        "330.00"
    )
