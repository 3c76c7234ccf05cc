"""Tax is rounded where and how the seller's policy says, on top or out of the amount.

By line, once for each category and rate, or once for the invoice, whose tax is then
divided over its rates, the lowest first. What includes tax is divided the same way, so
that an amount with tax is never changed by a cent.
"""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from psycopg import Connection

from pgbill import policy
from tests import builders
from tests.ledger import Ledger
from tests.shop import FEBRUARY, FIRST_DAY, amount, values

pytestmark = pytest.mark.one_server

_JANUARY_31 = date(2026, 1, 31)


def open_ledger(
    conn: Connection[Any], *, currency: str = "EUR", **policy: object
) -> Ledger:
    """Open a ledger in a country with 19 % and, for books, 7 %."""
    builders.tax_rate(conn)
    builders.tax_rate(conn, rate="7", tax_class="books")
    return Ledger(conn, policy=policy, currency=currency)


def by_scope_and_rounding(name: str) -> dict[str, Any]:
    scope, rounding = policy.TAX_PRESETS[name]
    return {"tax_rounding_scope": scope, "tax_rounding": rounding}


def pays(ledger: Ledger, *fees: str, **columns: Any) -> None:  # noqa: ANN401
    """Bill fees for January: an amount, and 7 if that is the tax."""
    prices = [
        ledger.price(
            fee.removesuffix(" 7"),
            key=f"{ledger.account.key}-{number}",
            tax_class="books" if fee.endswith(" 7") else "standard",
            **columns,
        )
        for number, fee in enumerate(fees)
    ]
    ledger.subscribe(*prices)
    assert ledger.bill() == ["invoiced"]


def nets(ledger: Ledger) -> list[Decimal]:
    return values(
        ledger.conn, "SELECT net_amount FROM pgbill.invoice_line ORDER BY line_no"
    )


@pytest.mark.parametrize(
    ("scope", "taxes"),
    [
        # 4.54 at 19 % are 0.8626, twice; 9.08 at 7 % are 0.6356.
        ("line", ["S 19: 9.08 -> 1.72", "S 7: 9.08 -> 0.64"]),
        # 9.08 at 19 % are 1.7252.
        ("rate", ["S 19: 9.08 -> 1.73", "S 7: 9.08 -> 0.64"]),
        # Together 2.3608, so 2.36; 0.64 of it are at 7 %, and the rest at 19 %.
        ("total", ["S 19: 9.08 -> 1.72", "S 7: 9.08 -> 0.64"]),
    ],
)
def test_tax_on_top_is_rounded_where_the_policy_says(
    audited: Connection[Any], scope: str, taxes: list[str]
) -> None:
    ledger = open_ledger(audited, tax_rounding_scope=scope)

    pays(ledger, "4.54", "4.54", "9.08 7")

    assert ledger.taxes(FIRST_DAY) == taxes


@pytest.mark.parametrize(
    ("preset", "one_fifty", "three_lines"),
    [
        # 1.50 at 19 % are 0.285; of the three lines see above.
        ("en16931", "0.29", "2.37"),
        ("au_gst_9_90", "0.29", "2.36"),
        ("nz_gst_19o", "0.28", "2.36"),
        ("uk_vat_17_5", "0.28", "2.36"),
        ("jp_qualified_invoice", "0.28", "2.35"),
        ("by_line", "0.29", "2.36"),
    ],
)
def test_each_preset_rounds_as_its_rule_does(
    audited: Connection[Any], preset: str, one_fifty: str, three_lines: str
) -> None:
    one = open_ledger(audited, **by_scope_and_rounding(preset))
    three = Ledger(audited, policy=by_scope_and_rounding(preset))

    pays(one, "1.50")
    pays(three, "4.54", "4.54", "9.08 7")

    assert one.totals(FIRST_DAY)[1] == amount(one_fifty)
    assert three.totals(FIRST_DAY)[1] == amount(three_lines)


@pytest.mark.parametrize(
    ("rounding", "tax"),
    [
        ("half_up", "0.29 -0.29"),
        ("half_down", "0.28 -0.28"),
        ("half_even", "0.28 -0.28"),
        ("down", "0.28 -0.28"),
        ("floor", "0.28 -0.29"),
    ],
)
def test_half_a_cent_goes_where_the_policy_says(
    audited: Connection[Any], rounding: str, tax: str
) -> None:
    """0.285 on 1.50, and the same on a credit note; floor is not symmetric."""
    ledger = open_ledger(audited, tax_rounding=rounding, negative_total="credit_note")
    credit = Decimal("-1.50")
    pays(ledger, "1.50", billing_interval="yearly")

    builders.charge(audited, ledger.account, unit_amount=credit)
    ledger.bill(_JANUARY_31)

    assert [str(ledger.totals(end)[1]) for end in (FIRST_DAY, FEBRUARY)] == tax.split()


@pytest.mark.parametrize(
    ("scope", "told", "lines"),
    [
        # 30.00 * 19 / 119 = 4.7899; running, 1.5966 and 3.1933 of it.
        ("rate", "S 19: 25.21 -> 4.79", "8.40 8.41 8.40"),
        ("total", "S 19: 25.21 -> 4.79", "8.40 8.41 8.40"),
        # 10.00 * 19 / 119 = 1.5966, three times.
        ("line", "S 19: 25.20 -> 4.80", "8.40 8.40 8.40"),
    ],
)
def test_tax_within_an_amount_is_taken_out_where_the_policy_says(
    audited: Connection[Any], scope: str, told: str, lines: str
) -> None:
    ledger = open_ledger(audited, tax_rounding_scope=scope)

    pays(ledger, "10", "10", "10", tax_included=True)

    assert ledger.taxes(FIRST_DAY) == [told]
    assert [str(net) for net in nets(ledger)] == lines.split()
    assert ledger.totals(FIRST_DAY)[2] == amount("30.00")


@pytest.mark.parametrize(
    ("scope", "taxes"),
    [
        # 9.00 * 19 / 119 = 1.43697, and 12.00 * 7 / 107 = 0.78505.
        ("rate", ["S 19: 7.56 -> 1.44", "S 7: 11.21 -> 0.79"]),
        ("line", ["S 19: 7.56 -> 1.44", "S 7: 11.21 -> 0.79"]),
        # Together 2.22202, so 2.22; 0.79 at 7 %, and the rest at 19 %.
        ("total", ["S 19: 7.57 -> 1.43", "S 7: 11.21 -> 0.79"]),
    ],
)
def test_several_rates_within_amounts_are_taken_out(
    audited: Connection[Any], scope: str, taxes: list[str]
) -> None:
    ledger = open_ledger(audited, tax_rounding_scope=scope)

    pays(ledger, "9", "12 7", tax_included=True)

    assert ledger.taxes(FIRST_DAY) == taxes
    assert ledger.totals(FIRST_DAY)[2] == amount("21.00")
    assert [f": {net} " in tax for net, tax in zip(nets(ledger), taxes, strict=True)]


def test_charges_have_the_class_that_they_say(audited: Connection[Any]) -> None:
    """At the rate of their day: books had 5 % until 15 January, and have 7 % since."""
    builders.tax_rate(audited)
    changed_on = date(2026, 1, 16)
    builders.tax_rate(audited, rate="5", tax_class="books", ends_on=changed_on)
    builders.tax_rate(audited, rate="7", tax_class="books", begins_on=changed_on)
    builders.tax_rate(
        audited, rate="0", tax_class="insurance", category="E", legal_text="Exempt."
    )
    ledger = Ledger(audited)
    for tax_class, day in (
        ("books", 15), ("books", 16), ("standard", 10), ("insurance", 20)
    ):  # fmt: skip
        on = date(2026, 1, day)
        builders.charge(audited, ledger.account, tax_class=tax_class, service_on=on)

    ledger.bill(_JANUARY_31)

    assert ledger.taxes(FEBRUARY) == [
        "E 0: 100.00 -> 0.00",
        "S 19: 100.00 -> 19.00",
        "S 5: 100.00 -> 5.00",
        "S 7: 100.00 -> 7.00",
    ]


_MIXED = "amounts that include tax and amounts that do not would stand on one invoice"


def test_amounts_with_and_without_tax_do_not_share_an_invoice(
    audited: Connection[Any],
) -> None:
    ledger = open_ledger(audited)
    ledger.subscribe(ledger.price("10"), ledger.price("20", tax_included=True))

    assert ledger.bill() == ["failed"]
    assert ledger.problem() == _MIXED


def test_amounts_that_wait_do_not_share_it_either(audited: Connection[Any]) -> None:
    """10.00 with tax wait from January; since February prices are without it."""
    ledger = open_ledger(audited, minimum_invoice={"EUR": "15"})
    ledger.subscribe(ledger.price("10", tax_included=True), ends_on=FEBRUARY)
    ledger.subscribe(ledger.price("10"), starts_on=FEBRUARY)

    assert ledger.bill(_JANUARY_31) == ["carried_forward", "failed"]
    assert ledger.problem() == _MIXED


@pytest.mark.parametrize(
    ("currency", "rounding", "fee", "net", "tax"),
    [
        # 1.000 * 19 / 119 = 0.15966, and 1000 * 19 / 119 = 159.66.
        ("KWD", "half_up", "1", "0.840", "0.160"),
        ("KWD", "down", "1", "0.841", "0.159"),
        ("JPY", "half_up", "1000", "840", "160"),
        ("JPY", "floor", "1000", "841", "159"),
        # To the last digit, whatever comes before it.
        ("EUR", "half_up", "1190000000000.01", "1000000000000.01", "190000000000.00"),
        ("KWD", "half_up", "119000000000.003", "100000000000.003", "19000000000.000"),
    ],
)
def test_tax_within_has_the_digits_of_the_currency(  # noqa: PLR0917
    audited: Connection[Any],
    currency: str,
    rounding: str,
    fee: str,
    net: str,
    tax: str,
) -> None:
    ledger = open_ledger(audited, currency=currency, tax_rounding=rounding)

    pays(ledger, fee, tax_included=True)

    assert [str(each) for each in ledger.totals(FIRST_DAY)[:2]] == [net, tax]


@pytest.mark.parametrize("scope", ["line", "rate", "total"])
@pytest.mark.parametrize(
    ("currency", "fee", "tax"),
    [
        # 19 % of it end in half a unit of the last digit.
        ("EUR", "1000000000000.50", "190000000000.10"),
        ("JPY", "1000000000050", "190000000010"),
        ("KWD", "1000000000000.050", "190000000000.010"),
    ],
)
def test_tax_on_a_million_millions_is_exact(
    audited: Connection[Any], scope: str, currency: str, fee: str, tax: str
) -> None:
    ledger = open_ledger(audited, currency=currency, tax_rounding_scope=scope)

    pays(ledger, fee)

    assert str(ledger.totals(FIRST_DAY)[1]) == tax
