"""Lines, taxes and totals of 87 invoices of the European standard, each as one run.

They come from public conformance suites of EN 16931, and stand in three tables in
`tests/cases`: `en16931_invoices.csv` (totals, each with its source),
`en16931_lines.csv` (what is charged; allowances and charges of the whole document are
entries of their own) and `en16931_taxes.csv`. `kind` is the UNTDID 1001 code.

In pgbill every entry is a charge. What a credit note (381) credits is below zero in the
books, so its figures are negated. The standard's amount of rounding is a charge outside
the scope of tax: it changes what is payable and no tax, and is the one entry by which
`net` and `gross` differ from the document's.
"""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from tests.casebook import Book, Invoice, sheet

pytestmark = pytest.mark.one_server

Row = dict[str, str]

_INVOICES = sheet("en16931_invoices.csv")
_LINES = sheet("en16931_lines.csv")
_TAXES = sheet("en16931_taxes.csv")
_CREDIT_NOTE = "381"
_ROUNDING = "O 0"


def _of(rows: list[Row], document: Row) -> list[Row]:
    return [row for row in rows if row["invoice"] == document["invoice"]]


def _charges(document: Row, sign: int) -> Iterator[dict[str, Any]]:
    """Go through what is charged; a quantity below zero is an amount below zero."""
    for row in _of(_LINES, document):
        if row["entry"] == "line":
            quantity, price = Decimal(row["quantity"]), Decimal(row["price"])
            yield {
                "tax": row["tax"],
                "quantity": abs(quantity),
                "unit_amount": sign * price.copy_sign(price * quantity),
                "per_quantity": Decimal(row["per"]),
                "discount_amount": sign * Decimal(row["less"]),
            }
        else:
            way = -sign if row["entry"] == "allowance" else sign
            yield {"tax": row["tax"], "unit_amount": way * Decimal(row["amount"])}
    if Decimal(document["rounding"]):
        yield {"tax": _ROUNDING, "unit_amount": sign * Decimal(document["rounding"])}


def _bill(
    conn: Connection[Any], folder: Path, document: Row, *, sign: int = 1
) -> Invoice:
    policy = {"tax_preset": "en16931", "negative_total": "credit_note"}
    book = Book(conn, folder, currency=document["currency"], policy=policy)
    charges = list(_charges(document, sign))
    for charge in charges:
        book.tax(charge["tax"])
    book.open()
    for number, charge in enumerate(charges):
        book.charge(key=f"{number:03}", **charge)
    if Decimal(document["prepaid"]):
        book.prepay(document["prepaid"])
    book.bill()
    return book.invoice()


def _sign(document: Row) -> int:
    return -1 if document["kind"] == _CREDIT_NOTE else 1


def _amount(row: Row, column: str, sign: int) -> Decimal:
    return sign * Decimal(row[column])


@pytest.mark.parametrize("document", _INVOICES, ids=lambda it: it["invoice"])
def test_an_invoice_comes_to_what_its_document_says(
    warm: Connection[Any], tmp_path: Path, document: Row
) -> None:
    sign = _sign(document)

    invoice = _bill(warm, tmp_path, document, sign=sign)

    _check_lines(invoice, document, sign)
    _check_taxes(invoice, document, sign)
    _check_totals(invoice, document, sign)


def _check_lines(invoice: Invoice, document: Row, sign: int) -> None:
    rows = _of(_LINES, document)
    ways = [-sign if row["entry"] == "allowance" else sign for row in rows]
    assert [line.net_amount for line in invoice.lines][: len(rows)] == [
        _amount(row, "amount", way) for row, way in zip(rows, ways, strict=True)
    ]
    for entry in ("line", "allowance", "charge"):
        total = sum(Decimal(row["amount"]) for row in rows if row["entry"] == entry)
        assert total == Decimal(document[f"{entry}s"])


def _check_taxes(invoice: Invoice, document: Row, sign: int) -> None:
    taxes = dict(invoice.taxes)
    if Decimal(document["rounding"]):
        assert taxes.pop(_ROUNDING) == (_amount(document, "rounding", sign), 0)
    assert taxes == {
        row["tax"]: (_amount(row, "taxable", sign), _amount(row, "amount", sign))
        for row in _of(_TAXES, document)
    }


def _check_totals(invoice: Invoice, document: Row, sign: int) -> None:
    rounding = _amount(document, "rounding", sign)
    assert invoice.net_amount == _amount(document, "net", sign) + rounding
    assert invoice.tax_amount == _amount(document, "tax", sign)
    assert invoice.gross_amount == _amount(document, "gross", sign) + rounding
    # Prepaid credit pays invoices; what a credit note gives back of it is told below.
    if invoice.kind == "invoice" or not Decimal(document["prepaid"]):
        assert invoice.prepaid_amount == _amount(document, "prepaid", sign)
        assert invoice.payable_amount == _amount(document, "payable", sign)


def test_what_is_below_zero_is_a_credit_note(
    warm: Connection[Any], tmp_path: Path
) -> None:
    """By the policy of that name; else it would wait for the next invoice."""
    credit_note = next(it for it in _INVOICES if it["kind"] == _CREDIT_NOTE)

    invoice = _bill(warm, tmp_path, credit_note, sign=-1)

    assert invoice.kind == "credit_note"


@pytest.mark.parametrize(
    "document",
    [it for it in _INVOICES if _sign(it) < 0 and Decimal(it["prepaid"])],
    ids=lambda it: it["invoice"],
)
def test_what_a_credit_note_gives_back_was_prepaid_on_an_invoice(
    warm: Connection[Any], tmp_path: Path, document: Row
) -> None:
    """Of the same lines, above zero: what is payable is what the note says."""
    invoice = _bill(warm, tmp_path, document)

    assert invoice.prepaid_amount == Decimal(document["prepaid"])
    assert invoice.payable_amount == Decimal(document["payable"])
