"""What a month's use costs by each price model, in figures that others have published.

The table is `tests/cases/prices.toml`: each price is declared in a catalog as it stands
there, used, and billed by a run; the invoice is compared to the cent.
"""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from tests.casebook import Book, table
from tests.catalogs import Table
from tests.shop import FEBRUARY, value

pytestmark = pytest.mark.one_server

_PRICES: list[Table] = table("prices.toml")["price"]
# Late usage is billed a month later.
_FEBRUARY_28 = FEBRUARY.replace(day=28)


def _book(conn: Connection[Any], folder: Path, price: Table) -> Book:
    book = Book(conn, folder, currency=price.get("currency", "EUR"))
    keys = [book.price("it", price["terms"], meter=book.meter())]
    if "fee" in price:
        keys.append(book.fee("fee", price["fee"]))
    book.open()
    book.subscribe(*keys)
    return book


def _use(book: Book, case: Table) -> None:
    records = case.get("records") or [case["used"]]
    if records != ["0"]:
        book.use(*records)


def _cases(*, with_: str | None = None, without: tuple[str, ...] = ()) -> list[Any]:
    return [
        pytest.param(price, case, id=case["id"])
        for price in _PRICES
        for case in price["cases"]
        if with_ is None or with_ in case
        if not any(key in case for key in without)
    ]


@pytest.mark.parametrize(("price", "case"), _cases(without=("earlier", "fails")))
def test_a_months_use_costs_what_the_source_says(
    warm: Connection[Any], tmp_path: Path, price: Table, case: Table
) -> None:
    book = _book(warm, tmp_path, price)
    _use(book, case)

    book.bill()

    invoice = book.invoice()
    assert str(invoice.net_amount) == case["amount"]
    (of_use,) = invoice.of_price("it")
    fee = Decimal(price.get("fee", 0))
    assert of_use.net_amount == Decimal(case["amount"]) - fee
    assert of_use.net_amount == Decimal(case.get("of_use", of_use.net_amount))


@pytest.mark.parametrize(("price", "case"), _cases(with_="packages"))
def test_packages_are_counted_in_full(
    warm: Connection[Any], tmp_path: Path, price: Table, case: Table
) -> None:
    book = _book(warm, tmp_path, price)
    _use(book, case)

    book.bill()

    amount = book.invoice().net_amount
    assert amount / Decimal(price["terms"]["amount"]) == Decimal(case["packages"])


@pytest.mark.parametrize(("price", "case"), _cases(with_="of_percent"))
def test_a_percentage_and_its_fixed_fees_can_be_told_apart(
    warm: Connection[Any], tmp_path: Path, price: Table, case: Table
) -> None:
    book = _book(warm, tmp_path, price)
    _use(book, case)

    book.bill()

    told = book.invoice().lines[0].rating_input
    of_percent = Decimal(told["charged_amount"]) * Decimal(str(told["unit_amount"]))
    of_fixed = told["charged_count"] * Decimal(str(told["fixed_amount"]))
    assert (of_percent, of_fixed) == (
        Decimal(case["of_percent"]),
        Decimal(case["of_fixed"]),
    )


@pytest.mark.parametrize(("price", "case"), _cases(with_="earlier"))
def test_what_comes_later_costs_the_difference(
    warm: Connection[Any], tmp_path: Path, price: Table, case: Table
) -> None:
    """A part of the use was billed at the end of the month, the rest came late."""
    book = _book(warm, tmp_path, price)
    book.use(case["earlier"])
    book.bill()
    book.use(case["used"])

    book.bill(_FEBRUARY_28)

    (of_january, late), discount = book.invoices(), Decimal(case.get("discount", 0))
    (line,) = late.of_kind("late_usage")
    assert str(line.net_amount) == case["amount"]
    assert line.discount_amount == discount
    before_discount = case.get("before_discount", case["amount"])
    assert line.net_amount + discount == Decimal(before_discount)
    if "earlier_amount" in case:
        assert str(of_january.net_amount) == case["earlier_amount"]
    if "month" in case:
        assert str(of_january.net_amount + late.net_amount) == case["month"]


@pytest.mark.parametrize(("price", "case"), _cases(with_="fails"))
def test_more_than_the_last_tier_holds_fails_the_account(
    warm: Connection[Any], tmp_path: Path, price: Table, case: Table
) -> None:
    book = _book(warm, tmp_path, price)
    _use(book, case)

    outcomes = book.bill()

    assert outcomes[-1] == "failed"
    assert value(warm, "SELECT detail FROM pgbill.lease") == (
        f"price it: {case['fails']}"
    )
