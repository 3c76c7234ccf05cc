"""What an account is billed, to the cent, in figures that an accountant can check.

A line is quantity * unit price * days of the part / days of the whole, rounded once,
half away from zero, to the digits of its currency. Tax is computed once for each
category and rate, on the sum of the lines. Everything is exact decimal arithmetic.
"""

import random
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import Connection
from psycopg.types.range import DateRange

from tests import builders
from tests.actors import bill_all
from tests.builders import Account
from tests.ledger import Ledger
from tests.shop import FEBRUARY, FIRST_DAY, MARCH, amount, books, findings, value

_JANUARY_31, _FEBRUARY_28 = date(2026, 1, 31), date(2026, 2, 28)
# Each example is rolled back with the test's transaction, and writes nothing.
_READ_ONLY = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture
def ledger(conn: Connection[Any]) -> Ledger:
    """Return the ledger of an account in Germany, with 19 % tax."""
    builders.tax_rate(conn)
    return Ledger(conn)


def test_an_advance_fee_is_billed_when_its_period_begins(ledger: Ledger) -> None:
    ledger.subscribe(ledger.price("29.90"))

    ledger.bill(_JANUARY_31)

    assert ledger.lines(FIRST_DAY) == [
        "advance 2026-01-01..2026-01-31: 1 * 29.90 = 29.90, S 19"
    ]
    assert ledger.lines(FEBRUARY) == [
        "advance 2026-02-01..2026-02-28: 1 * 29.90 = 29.90, S 19"
    ]
    assert ledger.totals(FIRST_DAY) == (
        amount("29.90"),
        amount("5.68"),
        amount("35.58"),
    )


def test_a_fee_in_arrears_is_billed_when_its_period_ends(ledger: Ledger) -> None:
    ledger.subscribe(ledger.price("29.90", timing="arrears"))

    outcomes = ledger.bill(_JANUARY_31)

    assert outcomes == ["nothing_to_bill", "invoiced"]
    assert ledger.lines(FEBRUARY) == [
        "arrears 2026-01-01..2026-01-31: 1 * 29.90 = 29.90, S 19"
    ]


def test_advance_arrears_and_usage_share_an_invoice(ledger: Ledger) -> None:
    meter_id = builders.meter(ledger.conn)
    ledger.subscribe(
        ledger.price("10", key="a"),
        ledger.price("20", key="b", timing="arrears"),
        ledger.price("0.3", key="c", meter_id=meter_id),
    )
    builders.usage(ledger.conn, ledger.account, meter_id, "5", "2")

    ledger.bill(_JANUARY_31)

    assert ledger.lines(FEBRUARY) == [
        "advance 2026-02-01..2026-02-28: 1 * 10 = 10.00, S 19",
        "arrears 2026-01-01..2026-01-31: 1 * 20 = 20.00, S 19",
        "usage 2026-01-01..2026-01-31: 7 * 0.3 = 2.10, S 19",
    ]


def test_seats_multiply_a_fee(ledger: Ledger) -> None:
    ledger.subscribe((ledger.price("9.99"), "3"))

    ledger.bill()

    assert ledger.lines(FIRST_DAY) == [
        "advance 2026-01-01..2026-01-31: 3 * 9.99 = 29.97, S 19"
    ]


def test_a_part_of_a_month_costs_its_days(ledger: Ledger) -> None:
    """31.00 a month is 1.00 a day in January."""
    fee = ledger.price("31", timing="arrears")
    ledger.subscribe(fee, starts_on=FIRST_DAY, ends_on=date(2026, 1, 11))
    ledger.subscribe(fee, starts_on=date(2026, 1, 16))

    ledger.bill(_JANUARY_31)

    assert ledger.lines(FEBRUARY) == [
        "arrears 2026-01-01..2026-01-10: 1 * 31 = 10.00, S 19",
        "arrears 2026-01-16..2026-01-31: 1 * 31 = 16.00, S 19",
    ]


def test_who_subscribes_within_a_month_pays_the_rest_of_it_afterwards(
    ledger: Ledger,
) -> None:
    """The boundary that bills it in advance was over: the next bills both."""
    ledger.bill()
    ledger.subscribe(ledger.price("31"), starts_on=date(2026, 1, 16))

    ledger.bill(_JANUARY_31)

    assert ledger.lines(FEBRUARY) == [
        "advance 2026-02-01..2026-02-28: 1 * 31 = 31.00, S 19",
        "advance 2026-01-16..2026-01-31: 1 * 31 = 16.00, S 19",
    ]


def test_who_leaves_within_a_month_pays_until_then(ledger: Ledger) -> None:
    ledger.subscribe(ledger.price("28"), ends_on=date(2026, 2, 8))

    ledger.bill(_FEBRUARY_28)

    assert ledger.lines(FEBRUARY) == [
        "advance 2026-02-01..2026-02-07: 1 * 28 = 7.00, S 19"
    ]
    assert ledger.lines(MARCH) == []


def test_an_account_that_begins_within_a_month_pays_a_part(
    conn: Connection[Any],
) -> None:
    """Its boundaries are the first of each month; it begins on the 22nd."""
    builders.tax_rate(conn)
    first_on = date(2026, 1, 22)
    ledger = Ledger(conn, first_period_on=first_on, anchor_on=FIRST_DAY)
    ledger.subscribe(
        ledger.price("31", key="a"),
        ledger.price("62", key="b", timing="arrears"),
        starts_on=first_on,
    )

    ledger.bill(_JANUARY_31)

    assert books(conn, ledger.account).periods == [first_on, FEBRUARY]
    assert ledger.lines(first_on) == [
        "advance 2026-01-22..2026-01-31: 1 * 31 = 10.00, S 19"
    ]
    assert ledger.lines(FEBRUARY) == [
        "advance 2026-02-01..2026-02-28: 1 * 31 = 31.00, S 19",
        "arrears 2026-01-22..2026-01-31: 1 * 62 = 20.00, S 19",
    ]


def test_nothing_before_the_first_day_is_billed(ledger: Ledger) -> None:
    """The subscription is older than the account is here: it was billed elsewhere."""
    meter_id = builders.meter(ledger.conn)
    ledger.subscribe(
        ledger.price("31", key="a"),
        ledger.price("62", key="b", timing="arrears"),
        ledger.price("1", key="c", meter_id=meter_id),
        starts_on=date(2025, 11, 15),
    )
    december = datetime(2025, 12, 31, 22, 59, 59, tzinfo=UTC)
    builders.usage(ledger.conn, ledger.account, meter_id, "5", occurred_at=december)

    ledger.bill(_JANUARY_31)

    assert ledger.lines(FIRST_DAY) == [
        "advance 2026-01-01..2026-01-31: 1 * 31 = 31.00, S 19"
    ]
    assert ledger.lines(FEBRUARY) == [
        "advance 2026-02-01..2026-02-28: 1 * 31 = 31.00, S 19",
        "arrears 2026-01-01..2026-01-31: 1 * 62 = 62.00, S 19",
    ]


def test_unit_prices_have_any_number_of_decimals(ledger: Ledger) -> None:
    meter_id = builders.meter(ledger.conn)
    ledger.subscribe(ledger.price("0.000123", meter_id=meter_id))
    builders.usage(ledger.conn, ledger.account, meter_id, "1234567")

    ledger.bill(_JANUARY_31)

    assert ledger.lines(FEBRUARY) == [
        "usage 2026-01-01..2026-01-31: 1234567 * 0.000123 = 151.85, S 19"
    ]


def test_usage_is_summed_before_it_is_rounded(ledger: Ledger) -> None:
    meter_id = builders.meter(ledger.conn)
    ledger.subscribe(ledger.price("0.01", meter_id=meter_id))
    builders.usage(ledger.conn, ledger.account, meter_id, *["0.1"] * 9, "0.05")

    ledger.bill(_JANUARY_31)

    assert ledger.lines(FEBRUARY) == [
        "usage 2026-01-01..2026-01-31: 0.95 * 0.01 = 0.01, S 19"
    ]


def test_large_amounts_are_exact(ledger: Ledger) -> None:
    meter_id = builders.meter(ledger.conn)
    ledger.subscribe(ledger.price("1.0000000000015", meter_id=meter_id))
    builders.usage(ledger.conn, ledger.account, meter_id, "1000000000000")

    ledger.bill(_JANUARY_31)

    assert ledger.totals(FEBRUARY) == (
        amount("1,000,000,000,001.50"),
        amount("190,000,000,000.29"),
        amount("1,190,000,000,001.79"),
    )
    assert findings(ledger.conn) == {}


def test_usage_without_a_price_bills_nothing(ledger: Ledger) -> None:
    builders.usage(ledger.conn, ledger.account, builders.meter(ledger.conn), "5")

    assert ledger.bill(_JANUARY_31) == ["nothing_to_bill"] * 2


def test_usage_belongs_to_the_subscription_of_its_day(ledger: Ledger) -> None:
    """The price of a meter changes hands within the month."""
    meter_id = builders.meter(ledger.conn)
    half = datetime(2026, 1, 15, 23, tzinfo=UTC)
    ledger.subscribe(ledger.price("1", meter_id=meter_id), ends_on=date(2026, 1, 16))
    ledger.subscribe(ledger.price("2", meter_id=meter_id), starts_on=date(2026, 1, 16))
    before = half - timedelta(seconds=1)
    builders.usage(ledger.conn, ledger.account, meter_id, "10", occurred_at=before)
    builders.usage(ledger.conn, ledger.account, meter_id, "7", occurred_at=half)

    ledger.bill(_JANUARY_31)

    assert ledger.lines(FEBRUARY) == [
        "usage 2026-01-01..2026-01-15: 10 * 1 = 10.00, S 19",
        "usage 2026-01-16..2026-01-31: 7 * 2 = 14.00, S 19",
    ]


def test_tax_is_computed_once_on_the_sum(ledger: Ledger) -> None:
    """Line by line it would be 3 * 6.33 = 18.99."""
    ledger.subscribe(*(ledger.price("33.33") for _ in range(3)))

    ledger.bill()

    assert ledger.taxes(FIRST_DAY) == ["S 19: 99.99 -> 19.00"]
    assert ledger.totals(FIRST_DAY) == (
        amount("99.99"),
        amount("19.00"),
        amount("118.99"),
    )


def test_each_category_and_rate_has_its_own_tax(ledger: Ledger) -> None:
    builders.tax_rate(ledger.conn, tax_class="books", rate="7")
    builders.tax_rate(ledger.conn, tax_class="post", rate="0", category="E")
    ledger.subscribe(
        ledger.price("10"),
        ledger.price("10", tax_class="books"),
        ledger.price("20", tax_class="books"),
        ledger.price("5", tax_class="post"),
    )

    ledger.bill()

    assert ledger.taxes(FIRST_DAY) == [
        "E 0: 5.00 -> 0.00",
        "S 19: 10.00 -> 1.90",
        "S 7: 30.00 -> 2.10",
    ]


def test_a_reverse_charge_says_so(conn: Connection[Any]) -> None:
    text = "Reverse charge: the recipient owes the tax (article 196)."
    builders.tax_rate(
        conn, buyer_country="FR", category="AE", rate="0", legal_text=text
    )
    ledger = Ledger(conn, country="FR", vat_id="FR12345678901")
    ledger.subscribe(ledger.price("100"))

    ledger.bill()

    assert ledger.taxes(FIRST_DAY) == ["AE 0: 100.00 -> 0.00"]
    for table in ("invoice_line", "invoice_tax"):
        assert value(conn, f"SELECT legal_text FROM pgbill.{table}") == text  # noqa: S608


def test_a_reverse_charge_needs_the_vat_id_of_the_buyer(
    conn: Connection[Any],
) -> None:
    """EN 16931, BR-AE-02: without it the invoice would not be valid."""
    builders.tax_rate(conn, buyer_country="FR", category="AE", rate="0")
    ledger = Ledger(conn, country="FR", tax_status="business", vat_id=None)
    ledger.subscribe(ledger.price("100"))

    outcomes = ledger.bill()

    assert outcomes == ["failed"]
    assert value(conn, "SELECT detail FROM pgbill.lease") == (
        "tax category AE needs the VAT id of the buyer"
    )


def test_a_price_is_that_of_the_day_on_which_its_service_begins(
    ledger: Ledger,
) -> None:
    """From 10 February on it costs 40; the month that has begun costs what it did."""
    fee = ledger.price("30")
    builders.version(
        ledger.conn, fee.price_id, amount="40", begins_on=date(2026, 2, 10)
    )
    ledger.subscribe(fee)

    ledger.bill(_FEBRUARY_28)

    assert ledger.lines(FEBRUARY) == [
        "advance 2026-02-01..2026-02-28: 1 * 30 = 30.00, S 19"
    ]
    assert ledger.lines(MARCH) == [
        "advance 2026-03-01..2026-03-31: 1 * 40 = 40.00, S 19"
    ]


def test_a_tax_rate_is_that_of_the_last_day_of_service(conn: Connection[Any]) -> None:
    """It rises on 1 February: January and February are taxed differently."""
    builders.tax_rate(conn, rate="16", ends_on=FEBRUARY)
    builders.tax_rate(conn, rate="19", begins_on=FEBRUARY)
    ledger = Ledger(conn)
    ledger.subscribe(
        ledger.price("100", key="a"), ledger.price("200", key="b", timing="arrears")
    )

    ledger.bill(_JANUARY_31)

    assert ledger.lines(FEBRUARY) == [
        "advance 2026-02-01..2026-02-28: 1 * 100 = 100.00, S 19",
        "arrears 2026-01-01..2026-01-31: 1 * 200 = 200.00, S 16",
    ]
    assert ledger.taxes(FEBRUARY) == ["S 16: 200.00 -> 32.00", "S 19: 100.00 -> 19.00"]


@pytest.mark.parametrize(
    ("currency", "unit_amount", "net", "tax"),
    [
        ("JPY", "1000.5", "1001", "190"),
        ("KWD", "1.2345", "1.235", "0.235"),
        ("EUR", "1.235", "1.24", "0.24"),
        ("EUR", "0.004", "0.00", "0.00"),
    ],
)
def test_amounts_are_rounded_to_the_digits_of_the_currency(
    conn: Connection[Any], currency: str, unit_amount: str, net: str, tax: str
) -> None:
    builders.tax_rate(conn)
    ledger = Ledger(conn, currency=currency)
    ledger.subscribe(ledger.price(unit_amount))

    ledger.bill()

    written = ledger.totals(FIRST_DAY)
    assert [str(each) for each in written[:2]] == [net, tax]
    assert written[2] == amount(net) + amount(tax)


@pytest.mark.parametrize(
    ("anchor_on", "boundaries"),
    [
        (date(2026, 1, 31), "2026-01-31 2026-02-28 2026-03-31 2026-04-30"),
        (date(2024, 1, 30), "2024-01-30 2024-02-29 2024-03-30 2024-04-30"),
        (date(2024, 2, 29), "2024-02-29 2024-03-29 2024-04-29 2024-05-29"),
        (date(2025, 12, 15), "2025-12-15 2026-01-15 2026-02-15 2026-03-15"),
    ],
)
def test_periods_end_on_the_day_of_the_anchor_or_the_last_of_the_month(
    conn: Connection[Any], anchor_on: date, boundaries: str
) -> None:
    """A month with fewer days never shortens the months after it."""
    seller_id = builders.seller(conn)
    account = builders.account(conn, seller_id, first_period_on=anchor_on)
    ends = [date.fromisoformat(each) for each in boundaries.split()]

    for end in ends:
        bill_all(conn, account, through_on=end - timedelta(days=1))

    assert books(conn, account).periods == ends
    assert findings(conn) == {}


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", "Grundgebühr"),
        ("de-AT", "Grundentgelt"),
        ("de-CH", "Grundgebühr"),
        ("en-GB", "Base fee"),
        ("fr", "Base fee"),
    ],
)
def test_a_line_is_worded_in_the_language_of_the_account(
    conn: Connection[Any], language: str, text: str
) -> None:
    builders.tax_rate(conn)
    ledger = Ledger(conn, language=language)
    texts = {"de": "Grundgebühr", "de-AT": "Grundentgelt", "en": "Base fee"}
    ledger.subscribe(ledger.price("10", line_texts=texts))

    ledger.bill()

    assert value(conn, "SELECT description FROM pgbill.invoice_line") == text


def test_references_of_the_subscription_are_on_its_lines(ledger: Ledger) -> None:
    ledger.subscribe(
        ledger.price("10", revenue_account="8400"),
        purchase_order="PO-1",
        contract_number="C-2",
        cost_centre="4711",
    )

    ledger.bill()

    assert ledger.conn.execute(
        "SELECT purchase_order, contract_number, cost_centre, revenue_account"
        " FROM pgbill.invoice_line"
    ).fetchall() == [("PO-1", "C-2", "4711", "8400")]


@pytest.mark.parametrize(
    ("issued_on", "net_days", "end_of_month", "payable_on"),
    [
        (date(2026, 1, 31), 0, False, date(2026, 1, 31)),
        (date(2026, 1, 31), 30, False, date(2026, 3, 2)),
        (date(2026, 1, 31), 30, True, date(2026, 3, 31)),
        (date(2024, 2, 1), 14, True, date(2024, 2, 29)),
    ],
)
def test_terms_say_until_when_it_is_payable(
    conn: Connection[Any],
    issued_on: date,
    net_days: int,
    end_of_month: bool,
    payable_on: date,
) -> None:
    query = "SELECT pgbill.payable_on(%s, %s, %s)"

    assert value(conn, query, issued_on, net_days, end_of_month) == payable_on


def test_a_missing_price_version_fails_the_account(ledger: Ledger) -> None:
    fee = ledger.price("10", key="later", begins_on=FEBRUARY)
    ledger.subscribe(fee)

    assert ledger.bill() == ["failed"]
    assert value(ledger.conn, "SELECT detail FROM pgbill.lease") == (
        "price later has no amount on 2026-01-01"
    )


def _price(
    conn: Connection[Any], cases: list[tuple[Decimal, Decimal, int, int, int]]
) -> list[Decimal]:
    columns = [list(column) for column in zip(*cases, strict=True)]
    rows = conn.execute(
        "SELECT pgbill.price(jsonb_build_object('model', 'flat',"
        " 'quantity', quantity, 'unit_amount', unit_amount,"
        " 'part', part, 'whole', whole, 'digits', digits))"
        " FROM unnest(%s::numeric[], %s::numeric[], %s::integer[], %s::integer[],"
        " %s::integer[]) WITH ORDINALITY"
        " AS given (quantity, unit_amount, part, whole, digits, n) ORDER BY n",
        columns,
    )
    return [price for (price,) in rows]


def _exactly(
    quantity: Decimal, unit_amount: Decimal, part: int, whole: int, digits: int
) -> Decimal:
    """Compute with fractions, and round once, half away from zero."""
    exact = Fraction(quantity) * Fraction(unit_amount) * Fraction(part, whole)
    units = int(exact * 10**digits + Fraction(1, 2))
    return Decimal(units).scaleb(-digits)


_DECIMALS = st.decimals(0, 10**12, places=9) | st.decimals(0, 100, places=2)
_CASES = st.integers(1, 31).flatmap(
    lambda whole: st.tuples(
        _DECIMALS,
        _DECIMALS,
        st.integers(1, whole),
        st.just(whole),
        st.sampled_from([0, 2, 3]),
    )
)


@_READ_ONLY
@given(cases=st.lists(_CASES, min_size=1, max_size=30))
def test_the_price_of_a_line_is_exact(
    conn: Connection[Any], cases: list[tuple[Decimal, Decimal, int, int, int]]
) -> None:
    assert _price(conn, cases) == [_exactly(*case) for case in cases]


@pytest.mark.parametrize(
    ("unit_amount", "days", "digits", "price"),
    [
        ("0.005", "31/31", 2, "0.01"),
        ("2.5", "31/31", 0, "3"),
        ("0.125", "30/30", 2, "0.13"),
        ("0.01", "15/30", 2, "0.01"),
        ("10", "1/3", 2, "3.33"),
        ("20", "1/3", 2, "6.67"),
        # Half a cent is met exactly, or missed by the seventeenth digit.
        ("1000000000000000.01", "15/30", 2, "500000000000000.01"),
        ("1000000000000000.0099999999", "15/30", 2, "500000000000000.00"),
    ],
)
def test_a_half_is_rounded_away_from_zero(
    conn: Connection[Any], unit_amount: str, days: str, digits: int, price: str
) -> None:
    part, whole = map(int, days.split("/"))

    (computed,) = _price(
        conn, [(Decimal(1), Decimal(unit_amount), part, whole, digits)]
    )

    assert str(computed) == price


@_READ_ONLY
@given(
    anchor_on=st.dates(date(2000, 1, 1), date(2040, 12, 31)),
    interval=st.sampled_from(
        ["weekly", "monthly", "quarterly", "half_yearly", "yearly"]
    ),
    days=st.lists(st.integers(-800, 15_000), min_size=1, max_size=30),
)
def test_each_day_lies_in_one_period(
    conn: Connection[Any], anchor_on: date, interval: str, days: list[int]
) -> None:
    """Boundaries only grow, and the one that is named is the first after the day."""
    rows = conn.execute(
        "SELECT day, pgbill.boundary(%(anchor)s, %(interval)s, number - 1),"
        " pgbill.boundary(%(anchor)s, %(interval)s, number),"
        " pgbill.boundary(%(anchor)s, %(interval)s, number + 1)"
        " FROM (SELECT day,"
        " pgbill.boundary_number(%(anchor)s, %(interval)s, day) AS number"
        " FROM (SELECT %(anchor)s::date + unnest(%(days)s::integer[]) AS day) AS days)"
        " AS numbered",
        {"anchor": anchor_on, "interval": interval, "days": days},
    ).fetchall()

    for day, begin, end, following in rows:
        assert begin <= day < end < following


@pytest.mark.parametrize("seed", range(2))
def test_lines_add_up_to_their_invoice(conn: Connection[Any], seed: int) -> None:
    """Of accounts drawn at random, computed again in Python."""
    dice = random.Random(seed)  # noqa: S311
    builders.tax_rate(conn, rate="19")
    builders.tax_rate(conn, rate="7", tax_class="books")
    seller_id = builders.seller(conn)
    meter_id = builders.meter(conn)
    prices = [
        builders.price(
            conn,
            seller_id,
            amount=str(Decimal(dice.randrange(1, 10**6)).scaleb(-4)),
            tax_class=dice.choice(["standard", "books"]),
            timing=dice.choice(["advance", "arrears"]),
        )
        for _ in range(6)
    ]
    per_unit = builders.price(conn, seller_id, amount="0.0377", meter_id=meter_id)
    accounts: list[Account] = []
    for _ in range(12):
        account = builders.account(conn, seller_id)
        accounts.append(account)
        starts_on = FIRST_DAY + timedelta(days=dice.randrange(40))
        chosen = dice.sample(prices, dice.randrange(1, 5))
        builders.subscription(conn, account, *chosen, starts_on=starts_on)
        builders.subscription(conn, account, per_unit)
        builders.usage(conn, account, meter_id, str(dice.randrange(10**5)), "0.37")

    bill_all(conn, *accounts, through_on=_FEBRUARY_28)

    assert findings(conn) == {}
    rows = conn.execute(
        "SELECT net_amount, tax_amount, gross_amount, ARRAY("
        " SELECT ARRAY[line.net_amount, line.tax_rate] FROM pgbill.invoice_line AS line"
        " WHERE line.account_id = invoice.account_id"
        " AND line.invoice_id = invoice.invoice_id) FROM pgbill.invoice"
    ).fetchall()
    assert len(rows) > 24
    for net, tax, gross, lines in rows:
        assert sum(each for each, _ in lines) == net
        assert sum(_tax(lines, rate) for rate in {rate for _, rate in lines}) == tax
        assert net + tax == gross


def _tax(lines: list[list[Decimal]], rate: Decimal) -> Decimal:
    taxable = sum((net for net, own in lines if own == rate), Decimal(0))
    return (taxable * rate / 100).quantize(Decimal("0.01"), ROUND_HALF_UP)


def test_preview_and_run_share_the_rating(ledger: Ledger) -> None:
    """It writes nothing: asked twice, it says the same, and so does the invoice."""
    ledger.subscribe(ledger.price("12.34"))
    query = (
        "SELECT (rated.draft).lines[1].net_amount, (rated.draft).period_end"
        " FROM pgbill.rate(ARRAY[%s], ARRAY[%s::bigint], %s, 3) AS rated"
    )
    asked = ledger.account.bucket, ledger.account.account_id, FIRST_DAY
    preview = ledger.conn.execute(query, asked).fetchall()
    assert preview == ledger.conn.execute(query, asked).fetchall()

    ledger.bill()

    assert preview == [(ledger.totals(FIRST_DAY)[0], FIRST_DAY)]
    assert DateRange(FIRST_DAY, FEBRUARY) == value(
        ledger.conn, "SELECT service_period FROM pgbill.invoice_line"
    )
