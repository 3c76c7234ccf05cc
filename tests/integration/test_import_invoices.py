"""Invoices of a system before are taken over as references, repeatedly, or refused."""

from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from pgbill import importing
from pgbill.importing import Report
from tests import builders
from tests.inputs import Row, refusals, rows, write_csv
from tests.payers import on_account, owing, pay, states
from tests.shop import Shop, findings, run_sql, value

pytestmark = pytest.mark.one_server

OLD: Row = {
    "number": "2025/0042",
    "account": "a-1",
    "issued_on": "2025-11-30",
    "payable_on": "2025-12-30",
    "gross_amount": "119",
    "open_amount": "100",
}


@pytest.fixture(autouse=True)
def shop(conn: Connection[Any]) -> Shop:
    shop = Shop.open(conn, key="north")
    owing(conn, shop)
    builders.account(conn, shop.seller_id, key="yen", currency="JPY")
    return shop


def load(conn: Connection[Any], folder: Path, *invoices: Row) -> Report:
    return importing.invoices(conn, write_csv(folder / "i.csv", invoices))


def refused(conn: Connection[Any], folder: Path, *invoices: Row) -> list[str]:
    before = rows(conn, "imported_invoice")
    told = refusals(load, conn, folder, *invoices)
    assert rows(conn, "imported_invoice") == before
    return [line.removeprefix("i.csv:") for line in told]


def test_an_invoice_is_taken_once(conn: Connection[Any], tmp_path: Path) -> None:
    assert load(conn, tmp_path, OLD) == Report(1, 1, 0, 0)
    assert load(conn, tmp_path, OLD | {"gross_amount": "119.00"}) == Report(1, 0, 0, 1)

    assert states(conn)["2025/0042"] == ("open", "100")
    assert findings(conn) == {}


def test_it_is_paid_like_any_other(conn: Connection[Any], tmp_path: Path) -> None:
    load(conn, tmp_path, OLD)

    pay(
        conn,
        tmp_path,
        {"reference": "for 2025/0042 of last year", "amount": "60"},
        {"invoice": "2025/0042", "amount": "30"},
        {"reference": "a-1", "amount": "15"},
    )

    assert states(conn) == {
        "2025/0042": ("paid", "0"),
        "NL-000001": ("partly_paid", "6.90"),
    }
    assert on_account(conn) is None
    assert findings(conn) == {}


def test_a_credit_note_is_below_zero(conn: Connection[Any], tmp_path: Path) -> None:
    credit = OLD | {"gross_amount": "-20", "open_amount": "-20"}
    load(conn, tmp_path, credit)
    before = states(conn)["2025/0042"]

    pay(conn, tmp_path, {"invoice": "2025/0042", "amount": "-20"})

    assert before == ("open", "-20")
    assert states(conn)["2025/0042"] == ("paid", "0")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"account": "a-9"}, "account: there is no account a-9"),
        ({"currency": "XXQ"}, "currency: there is no currency XXQ"),
        (
            {"open_amount": "120"},
            "open_amount: 120 is not between 0 and the gross amount 119",
        ),
        (
            {"open_amount": "-1"},
            "open_amount: -1 is not between 0 and the gross amount 119",
        ),
        (
            {"account": "yen", "open_amount": "1.5"},
            "open_amount: 1.5 has more decimals than JPY, which has 0",
        ),
        (
            {"number": "NL-000001"},
            "number: NL-000001 is a number of the series NL-, which begins with 1:",
        ),
        (
            {"issued_on": "2099-01-01", "payable_on": "2099-01-01"},
            "issued_on: 2099-01-01 is still to come",
        ),
        (
            {"payable_on": "2025-11-29"},
            "payable_on: 2025-11-29 is before the day of issue, 2025-11-30",
        ),
        ({"issued_on": "30.11.2025"}, "issued_on: '30.11.2025' is not a date such as"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    conn: Connection[Any], tmp_path: Path, changes: Row, told: str
) -> None:
    (line,) = refused(conn, tmp_path, OLD, OLD | {"number": "other"} | changes)

    assert line.startswith(f"3: {told}")


@pytest.mark.parametrize(
    ("changes", "other"),
    [
        ({"open_amount": "99"}, "open_amount"),
        ({"account": "yen", "currency": "EUR"}, "account"),
        ({"issued_on": "2025-11-29", "payable_on": "2025-12-29"}, "issued_on, payable"),
    ],
)
def test_a_number_with_other_data_is_refused(
    conn: Connection[Any], tmp_path: Path, changes: Row, other: str
) -> None:
    (in_file,) = refused(conn, tmp_path, OLD, OLD | changes)
    load(conn, tmp_path, OLD)
    (imported,) = refused(conn, tmp_path, OLD | changes)

    told = "3: number: 2025/0042 stands in line 2 already, with another"
    assert in_file.startswith(f"{told} {other}")
    told = "2: number: 2025/0042 was imported before with another"
    assert imported.startswith(f"{told} {other}")


def test_numbers_before_the_first_of_a_series_are_taken(
    conn: Connection[Any], tmp_path: Path, shop: Shop
) -> None:
    """As one that is written otherwise: it can be told from those of the series."""
    run_sql(
        conn,
        "UPDATE pgbill.number_series SET first_number = 5001, last_number = 5000"
        " WHERE seller_id = %s AND kind = 'credit_note' AND mode = 'live'",
        shop.seller_id,
    )

    load(
        conn,
        tmp_path,
        OLD | {"number": "NLC-005000"},
        OLD | {"number": "NL-1"},
        OLD | {"number": "NL-000002b"},
    )
    (told,) = refused(conn, tmp_path, OLD | {"number": "NLC-005001"})

    assert told.endswith(
        "the series NLC-, which begins with 5001: set its first_number"
    )
    assert value(conn, "SELECT count(*) FROM pgbill.imported_invoice") == 3
