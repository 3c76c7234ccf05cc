"""What is open at the end of a day: documents, old ones, and money on account."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from pgbill import importing, receivables
from pgbill.errors import UsageError
from tests.actors import bill_all
from tests.builders import Account
from tests.inputs import Row, write_csv
from tests.integration.test_closed_month import dated
from tests.payers import credit, pay
from tests.shop import Shop, findings

pytestmark = pytest.mark.one_server

OCTOBER = date(2026, 10, 15)


@pytest.fixture(autouse=True)
def account(conn: Connection[Any]) -> Account:
    """Return an account that owes 11.90 since 15 October."""
    account = Shop.open(conn, key="north").account(conn, key="a-1")
    bill_all(conn, account, policy=dated(OCTOBER))
    return account


def listed(conn: Connection[Any], as_of: date, **options: Any) -> list[str]:  # noqa: ANN401
    """Return an item as a line: number, days overdue, open."""
    return [
        f"{each.number} {each.overdue_days} {each.open_amount} {each.state}"
        for each in receivables.find(conn, as_of=as_of, **options)
    ]


def test_an_item_has_its_age(conn: Connection[Any]) -> None:
    (item,) = receivables.find(conn, as_of=date(2026, 11, 24))

    assert (item.number, item.account, item.seller) == ("NL-000001", "a-1", "north")
    assert (item.issued_on, item.payable_on) == (OCTOBER, date(2026, 11, 14))
    assert (item.age_days, item.overdue_days) == (40, 10)


def test_only_what_was_issued_by_then_is_listed(conn: Connection[Any]) -> None:
    assert listed(conn, date(2026, 10, 14)) == []
    assert listed(conn, OCTOBER) == ["NL-000001 0 11.90 open"]


def test_a_payment_counts_from_its_day_on(
    conn: Connection[Any], tmp_path: Path
) -> None:
    pay(
        conn, tmp_path, {"invoice": "NL-000001", "amount": "2", "paid_on": "2026-11-01"}
    )
    pay(
        conn,
        tmp_path,
        {"key": "b", "reference": "a-1", "amount": "20", "paid_on": "2026-11-20"},
    )

    assert listed(conn, date(2026, 10, 31)) == ["NL-000001 0 11.90 open"]
    assert listed(conn, date(2026, 11, 1)) == ["NL-000001 0 9.90 partly_paid"]
    assert listed(conn, date(2026, 11, 20)) == ["None 0 -10.10 overpaid"]


def test_a_credit_note_counts_with_its_invoice(
    conn: Connection[Any], tmp_path: Path
) -> None:
    credit(conn, "NL-000001", "2.38")

    assert listed(conn, OCTOBER) == ["NL-000001 0 11.90 open"]
    assert open_now(conn) == ["NL-000001 9.52 open"]
    pay(conn, tmp_path, {"invoice": "NL-000001", "amount": "11.90"})
    assert open_now(conn) == ["NL-000001 -2.38 overpaid"]
    pay(conn, tmp_path, {"key": "back", "invoice": "NLC-000001", "amount": "-2.38"})
    assert open_now(conn) == []
    assert findings(conn) == {}


def open_now(conn: Connection[Any]) -> list[str]:
    """Return what is open after all that has happened."""
    return [
        f"{each.number} {each.open_amount} {each.state}"
        for each in receivables.find(conn, as_of=date(2199, 1, 1))
    ]


def test_old_invoices_are_listed_too(conn: Connection[Any], tmp_path: Path) -> None:
    old: Row = {
        "number": "OLD-1",
        "account": "a-1",
        "issued_on": "2026-09-01",
        "payable_on": "2026-09-15",
        "gross_amount": "50",
        "open_amount": "30",
    }
    importing.invoices(conn, write_csv(tmp_path / "i.csv", [old]))

    assert listed(conn, OCTOBER) == ["OLD-1 30 30 open", "NL-000001 0 11.90 open"]
    assert findings(conn) == {}


def test_a_seller_is_named(conn: Connection[Any]) -> None:
    south = Shop.open(conn, key="south")
    bill_all(conn, south.account(conn), policy=dated(OCTOBER))

    assert len(listed(conn, OCTOBER)) == 2
    assert len(listed(conn, OCTOBER, seller="south")) == 1
    with pytest.raises(UsageError, match="there is no seller west"):
        listed(conn, OCTOBER, seller="west")
