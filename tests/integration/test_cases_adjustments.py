"""What is taken off, paid in advance and rounded, in published figures.

The table is `tests/cases/adjustments.toml`.
"""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from tests.casebook import Book, table
from tests.catalogs import Table
from tests.shop import FEBRUARY

pytestmark = pytest.mark.one_server

_ADJUSTMENTS = table("adjustments.toml")
_FEBRUARY_28 = date(2026, 2, 28)


def _by_id(section: str) -> Any:  # noqa: ANN401
    cases = _ADJUSTMENTS[section]
    return pytest.mark.parametrize("case", cases, ids=[case["id"] for case in cases])


@_by_id("discount")
def test_discounts_are_taken_of_what_is_left(
    warm: Connection[Any], tmp_path: Path, case: Table
) -> None:
    book = Book(warm, tmp_path)
    next_month: Table = case.get("next_month", {})
    lines = [(FEBRUARY.replace(month=1, day=10), line) for line in case["lines"]]
    lines += [(FEBRUARY, line) for line in next_month.get("lines", [])]
    for _, (_, tax) in lines:
        book.tax(tax)
    book.open()
    for service_on, (amount, tax) in lines:
        book.charge(amount, tax=tax, service_on=service_on)
    for said in case["discounts"]:
        book.discount(
            said, ends_on=FEBRUARY if next_month.get("discounts_end") else None
        )

    book.bill(_FEBRUARY_28)

    invoice, *later = book.invoices()
    assert (str(invoice.net_amount), str(invoice.tax_amount)) == (
        case["net"],
        case["tax"],
    )
    assert [str(each.net_amount) for each in later] == [
        next_month[name] for name in ("net",) if name in next_month
    ]


@_by_id("subscription")
def test_a_discount_is_spread_before_tax(
    warm: Connection[Any], tmp_path: Path, case: Table
) -> None:
    book = Book(warm, tmp_path, policy=case["policy"])
    amount, tax = case["fee"]
    book.fee("fee", amount, tax=tax)
    for used in case["used"]:
        terms = {"model": "per_unit", "amount": "1"}
        terms |= {name: it for name, it in used.items() if name == "minimum"}
        book.price(
            used["price"], terms, meter=book.meter(used["price"]), tax=used["tax"]
        )
    book.open()
    book.subscribe("fee", *(used["price"] for used in case["used"]))
    for used in case["used"]:
        book.use(used["amount"], meter=used["price"])
    book.discount(case["discount"])

    book.bill()

    invoice = book.invoice()
    by_name = {
        f"{line.price}{'_true_up' if line.kind == 'minimum' else ''}": line
        for line in invoice.lines
    }
    assert {name: str(it.discount_amount) for name, it in by_name.items()} == (
        case["shares"]
    )
    assert {name: str(it.tax_amount) for name, it in by_name.items()} == (
        case["line_taxes"]
    )
    totals = invoice.net_amount, invoice.tax_amount, invoice.gross_amount
    assert [str(it) for it in totals] == [case["net"], case["tax"], case["total"]]


@_by_id("consolidated")
def test_prices_by_the_month_and_by_the_year_share_an_invoice(
    warm: Connection[Any], tmp_path: Path, case: Table
) -> None:
    book = Book(warm, tmp_path)
    keys = [
        book.fee(
            f"{interval} {amount}", amount, timing="advance", billing_interval=interval
        )
        for interval in ("monthly", "yearly")
        for amount in case[interval]
    ]
    book.open()
    for key in keys:
        book.subscribe(key)

    book.bill()

    assert [str(invoice.net_amount) for invoice in book.invoices()] == case["months"]


@_by_id("prepaid")
def test_prepaid_credit_reduces_what_is_payable(
    warm: Connection[Any], tmp_path: Path, case: Table
) -> None:
    book = Book(warm, tmp_path)
    book.open()
    book.charge(case["charge"])
    book.prepay(case["prepaid"])

    book.bill()

    assert str(book.invoice().payable_amount) == case["payable"]


@_by_id("currency")
def test_an_amount_has_the_digits_of_its_currency(
    warm: Connection[Any], tmp_path: Path, case: Table
) -> None:
    book = Book(warm, tmp_path, currency=case["currency"])
    book.open()
    book.charge(case["amount"])

    book.bill()

    assert str(book.invoice().gross_amount) == case["rounded"]
