"""What tax is due, rounded where and how a policy says, in published figures.

The table is `tests/cases/taxes.toml`. Each line is a charge; the policy is set in the
catalog, by the name that it is documented under.
"""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from tests.casebook import Book, Invoice, table
from tests.catalogs import Table

pytestmark = pytest.mark.one_server

_CASES: list[Table] = table("taxes.toml")["invoice"]


def _bill(conn: Connection[Any], folder: Path, case: Table) -> Invoice:
    currency = case.get("currency", "EUR")
    book = Book(conn, folder, currency=currency, policy=case.get("policy"))
    taxes = [book.tax(tax) for _, tax in case["lines"]]
    book.open()
    for (amount, _), tax in zip(case["lines"], taxes, strict=True):
        book.charge(
            amount,
            tax=tax,
            quantity=case.get("quantity", "1"),
            tax_included=case.get("tax_included", False),
        )
    if "discount" in case:
        book.discount(case["discount"])
    book.bill()
    return book.invoice()


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case["id"])
def test_tax_is_what_the_source_says(
    warm: Connection[Any], tmp_path: Path, case: Table
) -> None:
    invoice = _bill(warm, tmp_path, case)

    told: Table = {
        "net": str(invoice.net_amount),
        "tax": str(invoice.tax_amount),
        "total": str(invoice.gross_amount),
        "line_taxes": [str(line.tax_amount) for line in invoice.lines],
    }
    expected = {name: it for name, it in case.items() if name in told}
    assert {name: told[name] for name in expected} == expected
    assert {"net", "tax", "total"} & expected.keys()


@pytest.mark.parametrize(
    "case",
    [case for case in _CASES if case.get("tax_included")],
    ids=lambda case: case["id"],
)
def test_what_includes_tax_is_what_is_paid(
    warm: Connection[Any], tmp_path: Path, case: Table
) -> None:
    invoice = _bill(warm, tmp_path, case)

    assert [line.tax_included_amount for line in invoice.lines] == [
        Decimal(amount) for amount, _ in case["lines"]
    ]
    assert invoice.gross_amount == sum(Decimal(amount) for amount, _ in case["lines"])
