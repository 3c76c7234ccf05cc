"""What credit notes come to, in published figures.

The table is `tests/cases/corrections.toml`.
"""

from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from tests.casebook import Book, table
from tests.catalogs import Table
from tests.clerk import Clerk
from tests.shop import FEBRUARY, MARCH, findings, value

pytestmark = pytest.mark.one_server

_CORRECTIONS = table("corrections.toml")
_CENT = Decimal("0.01")


def _by_id(section: str) -> Any:  # noqa: ANN401
    cases = _CORRECTIONS[section]
    return pytest.mark.parametrize("case", cases, ids=[case["id"] for case in cases])


@_by_id("part_of_line")
@pytest.mark.parametrize("preset", ["en16931", "by_line"])
def test_a_part_of_a_line_is_credited_with_its_tax(
    warm: Connection[Any], tmp_path: Path, case: Table, preset: str
) -> None:
    book = Book(warm, tmp_path, policy={"tax_preset": preset})
    book.tax(case["tax"])
    book.open()
    book.charge(case["price"], tax=case["tax"])
    book.bill()
    part, whole = case["days"]
    amount = Decimal(case["price"]) * part / whole
    clerk = Clerk(warm, book.account)

    done = clerk.credit(
        clerk.number(FEBRUARY), (1, str(amount.quantize(_CENT, ROUND_HALF_UP)))
    )

    note = done.credit_note
    assert note is not None
    totals = note.net_amount, note.tax_amount, note.gross_amount
    assert [str(it) for it in totals] == [
        case["net"],
        case["tax_amount"],
        case["total"],
    ]
    assert findings(warm) == {}


@_by_id("line_by_line")
def test_credit_notes_line_by_line_are_exactly_their_invoice(
    warm: Connection[Any], tmp_path: Path, case: Table
) -> None:
    book = Book(warm, tmp_path)
    book.tax(case["tax"])
    book.open()
    for number, amount in enumerate(case["lines"]):
        book.charge(amount, tax=case["tax"], key=f"line {number}")
    book.bill()
    clerk = Clerk(warm, book.account)
    number = clerk.number(FEBRUARY)
    assert str(book.invoice().gross_amount) == case["total"]

    notes = [
        clerk.credit(number, (line_no, None)).credit_note
        for line_no in range(1, len(case["lines"]) + 1)
    ]

    assert [str(note.gross_amount) for note in notes if note] == case["credit_notes"]
    assert clerk.left(number) == (0, 0, 0)
    assert findings(warm) == {}


@_by_id("paid")
def test_what_is_credited_after_it_was_paid_goes_back(
    warm: Connection[Any], tmp_path: Path, case: Table
) -> None:
    book = Book(warm, tmp_path)
    book.open()
    book.charge(case["charge"])
    book.prepay(case["paid"])
    book.bill()
    clerk = Clerk(warm, book.account)

    clerk.credit(clerk.number(FEBRUARY), (1, case["credited"]))

    row = warm.execute(
        "SELECT sum(gross_amount), sum(payable_amount) FROM pgbill.invoice"
        " WHERE account_id = %s",
        [book.account.account_id],
    ).fetchone()
    assert [str(it) for it in row or ()] == [case["charged"], case["balance"]]
    assert _left(book) == Decimal(case["left_to_the_account"])
    assert findings(warm) == {}


@_by_id("next_invoice")
def test_what_was_returned_pays_the_next_invoice(
    warm: Connection[Any], tmp_path: Path, case: Table
) -> None:
    book = Book(warm, tmp_path)
    book.tax(case["tax"])
    book.fee("fee", case["subscriptions"], tax=case["tax"])
    book.price(
        "calls",
        {"model": "per_unit", "amount": "1"},
        meter=book.meter("calls"),
        tax=case["tax"],
    )
    book.open()
    book.charge(case["returned"])
    book.prepay(case["returned"])
    book.bill()
    clerk = Clerk(warm, book.account)
    clerk.credit(clerk.number(FEBRUARY))
    book.prepay(case["prepaid"])
    book.subscribe("fee", "calls", starts_on=FEBRUARY)
    book.use(case["usage"], at=_noon(date(2026, 2, 15)), meter="calls")
    book.discount(case["discount"])

    book.bill(date(2026, 2, 28))

    (invoice,) = [each for each in book.invoices() if each.period_end == MARCH]
    amounts = (
        invoice.net_amount,
        invoice.tax_amount,
        invoice.gross_amount,
        invoice.payable_amount,
    )
    assert [str(it) for it in amounts] == [
        case[name] for name in ("net", "tax_amount", "total", "payable")
    ]


def _left(book: Book) -> Decimal:
    """Return how much prepaid credit the account has left."""
    left: Decimal = value(
        book.conn,
        "SELECT sum(amount) FROM pgbill.prepaid_left(%s, %s, '2026-12-31')",
        book.account.bucket,
        book.account.account_id,
    )
    return left


def _noon(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
