"""What makes up for an agreed minimum, in figures that others have published.

The table is `tests/cases/minimums.toml`. A minimum belongs to a price, or as a price of
its own to a subscription; either way the true-up is a line, with tax of its own.
"""

from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from tests.casebook import UNTAXED, Book, Invoice, days, table
from tests.catalogs import Table

pytestmark = pytest.mark.one_server

_MINIMUMS = table("minimums.toml")
_JANUARY = "2026-01-01/2026-02-01"


def _by_id(section: str) -> Any:  # noqa: ANN401
    cases = _MINIMUMS[section]
    return pytest.mark.parametrize("case", cases, ids=[case["id"] for case in cases])


def _bill(book: Book, case: Table, *keys: str, is_grouped: bool) -> Invoice:
    """Bill the months that the service lies in; the first may be cut short."""
    first_on, end_on = days(case.get("service", _JANUARY))
    book.open(starts_on=first_on, anchor_on=first_on.replace(day=1))
    book.subscribe(*keys)
    for number, quantity in enumerate(case["used"]):
        group = {"group": f"{number}"} if is_grouped else None
        noon = datetime.combine(first_on, time(12), UTC)
        book.use(quantity, at=noon, dimensions=group)
    book.bill(end_on - timedelta(days=1))
    return book.invoice()


def _of_price(conn: Connection[Any], folder: Path, case: Table) -> Invoice:
    book = Book(conn, folder, policy=case.get("policy"))
    is_grouped = len(case["used"]) > 1
    key = book.price(
        "it",
        case["terms"],
        meter=book.meter(),
        tax=case.get("tax_class", UNTAXED),
        **({"group_by": "group"} if is_grouped else {}),
    )
    return _bill(book, case, key, is_grouped=is_grouped)


@_by_id("of_price")
def test_what_is_missing_to_the_minimum_of_a_price_is_a_line(
    warm: Connection[Any], tmp_path: Path, case: Table
) -> None:
    invoice = _of_price(warm, tmp_path, case)

    (true_up,) = invoice.of_kind("minimum")
    assert str(true_up.net_amount) == case["true_up"]
    assert str(invoice.net_amount) == case["net"]
    assert len(invoice.of_kind("usage")) == len(case["used"])


@_by_id("of_price")
def test_the_line_has_its_tax(
    warm: Connection[Any], tmp_path: Path, case: Table
) -> None:
    invoice = _of_price(warm, tmp_path, case)

    (true_up,) = invoice.of_kind("minimum")
    use_tax = sum((line.tax_amount for line in invoice.of_kind("usage")), Decimal(0))
    told = {
        "true_up_tax": true_up.tax_amount,
        "use_tax": use_tax,
        "tax": invoice.tax_amount,
        "total": invoice.gross_amount,
    }
    assert {name: str(it) for name, it in told.items() if name in case} == {
        name: it for name, it in case.items() if name in told
    }


@_by_id("of_subscription")
def test_a_subscription_is_billed_its_minimum(
    warm: Connection[Any], tmp_path: Path, case: Table
) -> None:
    book = Book(warm, tmp_path)
    book.fee("fee", case["fee"])
    book.price("use", {"model": "per_unit", "amount": "1"}, meter=book.meter())
    book.price("least", {"model": "minimum", "amount": case["minimum"]})

    invoice = _bill(book, case, "fee", "use", "least", is_grouped=False)

    (fee,), (true_up,) = invoice.of_kind("arrears"), invoice.of_kind("minimum")
    assert str(fee.net_amount) == case["fee_of_the_days"]
    assert str(true_up.net_amount) == case["true_up"]
    assert str(invoice.net_amount) == case["minimum_of_the_days"]
