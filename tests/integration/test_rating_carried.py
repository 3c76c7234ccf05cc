"""A closing may issue no invoice: by policy nothing, too little, or less than nothing.

Lines that wait stand first on the next invoice, as they were rated; their usage waits
with them, their fees and charges are not billed again. What is zero is billed there.
"""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from psycopg import Connection

from tests import builders
from tests.ledger import Ledger, has_charge_waiting
from tests.shop import FEBRUARY, FIRST_DAY, MARCH, amount, books, value, values

pytestmark = pytest.mark.one_server

APRIL, MAY = date(2026, 4, 1), date(2026, 5, 1)
_JANUARY_31, _FEBRUARY_28, _MARCH_31, _APRIL_30 = (
    date(2026, 1, 31), date(2026, 2, 28), date(2026, 3, 31), date(2026, 4, 30)
)  # fmt: skip
_WAITS = "waiting, carried forward to the next invoice"


def open_ledger(
    conn: Connection[Any], *, currency: str = "EUR", **policy: object
) -> Ledger:
    builders.tax_rate(conn)
    return Ledger(conn, policy=policy, currency=currency)


def least(amount_: str, currency: str = "EUR") -> dict[str, Any]:
    """Return the policy that an invoice comes to so much at least."""
    return {"minimum_invoice": {currency: amount_}}


def credit(ledger: Ledger, amount_: str) -> None:
    """Import a charge below zero, of 10 January."""
    builders.charge(ledger.conn, ledger.account, unit_amount=Decimal(amount_))


def test_an_invoice_of_zero_is_issued_unless_it_is_skipped(
    audited: Connection[Any],
) -> None:
    ledger = open_ledger(audited)
    ledger.subscribe(ledger.price("0"))

    assert ledger.bill() == ["invoiced"]
    assert ledger.totals(FIRST_DAY) == (0, 0, 0)


def test_a_zero_that_is_skipped_is_billed_without_an_invoice(
    audited: Connection[Any],
) -> None:
    """Free units of January, then 5 of 15 in February."""
    ledger = open_ledger(audited, zero_invoice="skip")
    meter_id = ledger.metered(terms={"free_quantity": 10})
    ledger.use(meter_id, "7")
    ledger.use(meter_id, "15", on=date(2026, 2, 15))

    assert ledger.bill(_FEBRUARY_28) == ["nothing_to_bill"] * 2 + ["invoiced"]

    assert ledger.carried(FEBRUARY) == ["usage 2026-01-01..2026-01-31: 7 = 0.00"]
    assert ledger.entries(MARCH) == ["usage 2026-02-01..2026-02-28: 15 = 5.00"]
    assert ledger.states() == ["7: billed, at zero, without an invoice", "15: billed"]
    assert value(audited, "SELECT max(number) FROM pgbill.invoice_number") == 1


def test_late_usage_of_a_month_that_was_skipped_is_billed(
    audited: Connection[Any],
) -> None:
    """7 of 10 free units were used, and 5 more came late: 2 are to be paid."""
    ledger = open_ledger(audited, zero_invoice="skip")
    meter_id = ledger.metered(terms={"free_quantity": 10})
    ledger.use(meter_id, "7")
    ledger.bill(_JANUARY_31)

    ledger.use(meter_id, "5", on=date(2026, 1, 20))
    ledger.bill(_FEBRUARY_28)

    assert ledger.entries(MARCH) == ["late_usage 2026-01-01..2026-01-31: 5 = 2.00"]
    assert ledger.states() == ["7: billed, at zero, without an invoice", "5: billed"]


def test_a_fee_of_zero_in_advance_is_not_billed_later(audited: Connection[Any]) -> None:
    """It was free in January, when it was billed; since then it costs 10.00."""
    ledger = open_ledger(audited, zero_invoice="skip")
    fee = ledger.price("0")
    builders.version(audited, fee.price_id, amount="10", begins_on=FEBRUARY)
    ledger.subscribe(fee)

    assert ledger.bill(_JANUARY_31) == ["nothing_to_bill", "invoiced"]

    assert ledger.entries(FEBRUARY) == ["advance 2026-02-01..2026-02-28: 1 = 10.00"]


def test_amounts_that_cancel_out_are_told_on_the_next_invoice(
    audited: Connection[Any],
) -> None:
    ledger = open_ledger(audited, zero_invoice="skip")
    credit(ledger, "-100")
    builders.charge(audited, ledger.account)
    ledger.subscribe(ledger.price("10"), starts_on=MARCH)

    assert ledger.bill(_FEBRUARY_28) == [
        "nothing_to_bill",
        "carried_forward",
        "invoiced",
    ]

    assert ledger.entries(MARCH) == [
        "charge 2026-01-10..2026-01-10: 1 = -100.00",
        "charge 2026-01-10..2026-01-10: 1 = 100.00",
        "advance 2026-03-01..2026-03-31: 1 = 10.00",
    ]


def test_small_amounts_wait_until_they_are_worth_an_invoice(
    audited: Connection[Any],
) -> None:
    """10.00 a month are 11.90 with tax: three months come to 35.70, more than 30.00."""
    ledger = open_ledger(audited, **least("30"))
    meter_id = ledger.metered()
    for month in (1, 2, 3, 4):
        ledger.use(meter_id, "10", on=date(2026, month, 15))

    assert ledger.bill(_FEBRUARY_28)[1:] == ["carried_forward"] * 2
    assert ledger.states()[:3] == [f"10: {_WAITS}"] * 2 + [
        "10: waiting, its period is not closed"
    ]
    assert ledger.bill(_APRIL_30) == ["invoiced", "carried_forward"]

    assert ledger.entries(APRIL) == [
        "usage 2026-01-01..2026-01-31: 10 = 10.00",
        "usage 2026-02-01..2026-02-28: 10 = 10.00",
        "usage 2026-03-01..2026-03-31: 10 = 10.00",
    ]
    assert ledger.totals(APRIL) == (amount("30.00"), amount("5.70"), amount("35.70"))
    assert ledger.states() == ["10: billed"] * 3 + [f"10: {_WAITS}"]
    assert books(audited, ledger.account).invoiced == [APRIL]


@pytest.mark.parametrize(
    ("currency", "minimum", "outcome"),
    [
        ("EUR", least("11.90"), "invoiced"),
        ("EUR", least("11.91"), "carried_forward"),
        ("EUR", least("1000", "USD"), "invoiced"),
        ("JPY", least("13", "JPY"), "carried_forward"),
    ],
)
def test_the_least_is_an_amount_with_tax_in_its_currency(
    audited: Connection[Any], currency: str, minimum: dict[str, Any], outcome: str
) -> None:
    ledger = open_ledger(audited, currency=currency, **minimum)
    ledger.subscribe(ledger.price("10"))

    assert ledger.bill() == [outcome]


def test_a_fee_that_waits_is_not_billed_again(audited: Connection[Any]) -> None:
    """10.00 in advance a month; with tax the third makes it 35.70."""
    ledger = open_ledger(audited, **least("30"))
    ledger.subscribe(ledger.price("10"))

    assert ledger.bill(_MARCH_31) == ["carried_forward"] * 2 + [
        "invoiced", "carried_forward"
    ]  # fmt: skip

    assert ledger.entries(MARCH) == [
        "advance 2026-01-01..2026-01-31: 1 = 10.00",
        "advance 2026-02-01..2026-02-28: 1 = 10.00",
        "advance 2026-03-01..2026-03-31: 1 = 10.00",
    ]
    assert ledger.carried(APRIL) == ["advance 2026-04-01..2026-04-30: 1 = 10.00"]


def test_a_yearly_fee_that_waits_is_not_billed_again(audited: Connection[Any]) -> None:
    ledger = open_ledger(audited, **least("1000"))
    ledger.subscribe(ledger.price("120", billing_interval="yearly"))

    ledger.bill(_FEBRUARY_28)

    year = "advance 2026-01-01..2026-12-31: 1 = 120.00"
    assert ledger.carried(FIRST_DAY) == ledger.carried(MARCH) == [year]


def test_a_total_below_zero_waits_for_what_is_due_next(
    audited: Connection[Any],
) -> None:
    """30.00 a month and a credit of 50.00: -20.00 wait, 10.00 are left of March."""
    ledger = open_ledger(audited)
    credit(ledger, "-50")
    ledger.subscribe(ledger.price("30"))

    assert ledger.bill(_FEBRUARY_28) == ["invoiced", "carried_forward", "invoiced"]

    assert ledger.entries(MARCH) == [
        "advance 2026-02-01..2026-02-28: 1 = 30.00",
        "charge 2026-01-10..2026-01-10: 1 = -50.00",
        "advance 2026-03-01..2026-03-31: 1 = 30.00",
    ]
    assert ledger.totals(MARCH) == (amount("10.00"), amount("1.90"), amount("11.90"))
    assert not has_charge_waiting(ledger)


def test_a_total_below_zero_is_a_credit_note_by_policy(
    audited: Connection[Any],
) -> None:
    ledger = open_ledger(audited, negative_total="credit_note", **least("30"))
    credit(ledger, "-50")
    builders.prepaid_credit(audited, ledger.account, "100")

    assert ledger.bill(_JANUARY_31) == ["nothing_to_bill", "invoiced"]

    assert ledger.totals(FEBRUARY) == (
        amount("-50.00"), amount("-9.50"), amount("-59.50")
    )  # fmt: skip
    assert ledger.prepaid() == ["-59.50: nothing"]
    assert values(
        audited,
        "SELECT concat_ws(' ', kind, number_text) FROM pgbill.invoice"
        " INNER JOIN pgbill.invoice_number USING (bucket, account_id, invoice_id)",
    ) == ["credit_note NLC-000001"]


def test_lines_that_wait_keep_their_discounts(audited: Connection[Any]) -> None:
    """2.00 a month off 10.00: each month once, wherever it is billed."""
    ledger = open_ledger(audited, **least("15"))
    builders.discount(audited, ledger.account, key="d", amount="2")
    ledger.subscribe(ledger.price("10"))

    ledger.bill(_JANUARY_31)

    assert ledger.entries(FEBRUARY) == [
        "advance 2026-01-01..2026-01-31: 1 = 10.00 - 2.00 d = 8.00",
        "advance 2026-02-01..2026-02-28: 1 = 10.00 - 2.00 d = 8.00",
    ]


def test_what_a_discount_has_left_counts_lines_that_wait(
    audited: Connection[Any],
) -> None:
    """15.00 for January: 10.00 were taken off a fee that waits, 5.00 are left."""
    ledger = open_ledger(audited, zero_invoice="skip", **least("1000"))
    builders.discount(audited, ledger.account, key="d", amount="15", ends_on=FEBRUARY)
    meter_id = builders.meter(audited)
    unit = ledger.price("1", key="b", meter_id=meter_id)
    ledger.subscribe(ledger.price("10", key="a"), unit, ends_on=FEBRUARY)
    ledger.use(meter_id, "20")

    assert ledger.bill(_JANUARY_31) == ["nothing_to_bill", "carried_forward"]

    assert ledger.carried(FEBRUARY) == [
        "usage 2026-01-01..2026-01-31: 20 = 20.00 - 5.00 d = 15.00"
    ]


def test_lines_that_wait_count_for_a_minimum(audited: Connection[Any]) -> None:
    """Of 100.00 for January 40.00 were in advance, and wait; 60.00 are missing."""
    ledger = open_ledger(audited, **least("60"))
    minimum = ledger.price("100", key="least", model="minimum", timing="arrears")
    ledger.subscribe(ledger.price("40", key="fee"), minimum, ends_on=FEBRUARY)

    assert ledger.bill(_JANUARY_31) == ["carried_forward", "invoiced"]

    assert ledger.entries(FEBRUARY) == [
        "advance 2026-01-01..2026-01-31: 1 = 40.00",
        "minimum 2026-01-01..2026-01-31: 1 = 60.00",
    ]


def test_late_usage_of_a_period_that_waits_is_compared_with_it(
    audited: Connection[Any],
) -> None:
    """80 at 1.00 wait; 120 in all cost 110.00, so 30.00 are added."""
    ledger = open_ledger(audited, **least("100"))
    meter_id = ledger.metered(model="graduated", tiers=[("100", "1"), (None, "0.5")])
    ledger.use(meter_id, "80")
    assert ledger.bill(_JANUARY_31)[1:] == ["carried_forward"]

    ledger.use(meter_id, "40", on=date(2026, 1, 20))
    ledger.bill(_FEBRUARY_28)

    assert ledger.entries(MARCH) == [
        "usage 2026-01-01..2026-01-31: 80 = 80.00",
        "late_usage 2026-01-01..2026-01-31: 40 = 30.00",
    ]
    assert ledger.states() == ["80: billed", "40: billed"]


def test_lines_that_wait_keep_the_tax_rate_of_their_days(
    audited: Connection[Any],
) -> None:
    """16 % until the end of January, 19 % since."""
    builders.tax_rate(audited, rate="16", ends_on=FEBRUARY)
    builders.tax_rate(audited, rate="19", begins_on=FEBRUARY)
    ledger = Ledger(audited, policy=least("20"))
    ledger.subscribe(ledger.price("10"))

    ledger.bill(_JANUARY_31)

    assert ledger.taxes(FEBRUARY) == ["S 16: 10.00 -> 1.60", "S 19: 10.00 -> 1.90"]


def test_prepaid_credit_pays_when_there_is_an_invoice(audited: Connection[Any]) -> None:
    """11.90 wait, 23.80 are paid by it."""
    ledger = open_ledger(audited, **least("20"))
    builders.prepaid_credit(audited, ledger.account, "100", key="pack")
    ledger.subscribe(ledger.price("10"))

    ledger.bill(_JANUARY_31)

    assert ledger.prepaid() == ["23.80: 23.80 pack"]
