"""A file of payments is matched as a whole, repeatedly, or refused."""

from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from pgbill.importing import Report
from tests import builders
from tests.inputs import Row, refusals, rows
from tests.payers import bill, on_account, owing, pay, states
from tests.shop import Shop, findings, value, values

pytestmark = pytest.mark.one_server

ONE, TWO = "NL-000001", "NL-000002"


@pytest.fixture(autouse=True)
def shop(conn: Connection[Any]) -> Shop:
    return Shop.open(conn, key="north")


def refused(conn: Connection[Any], folder: Path, *payments: Row) -> list[str]:
    before = rows(conn, "payment") + rows(conn, "unmatched_payment")
    told = refusals(pay, conn, folder, *payments)
    assert rows(conn, "payment") + rows(conn, "unmatched_payment") == before
    return [line.removeprefix("b.csv:") for line in told]


def test_a_payment_counts_once(
    conn: Connection[Any], shop: Shop, tmp_path: Path
) -> None:
    owing(conn, shop)
    payment: Row = {"invoice": ONE, "amount": "5", "payer": "Ada & Sons"}

    assert pay(conn, tmp_path, payment) == Report(1, 1, 0, 0)
    assert pay(conn, tmp_path, payment | {"amount": "5.00"}) == Report(1, 0, 0, 1)
    assert states(conn) == {ONE: ("partly_paid", "6.90")}
    assert findings(conn) == {}


@pytest.mark.parametrize(
    ("amounts", "standing"),
    [
        ([], ("open", "11.90")),
        (["5"], ("partly_paid", "6.90")),
        (["5", "6.90"], ("paid", "0.00")),
        (["11.90", "11.90"], ("overpaid", "-11.90")),
        (["11.90", "11.90", "-11.90"], ("paid", "0.00")),
        (["11.90", "-11.90"], ("open", "11.90")),
        (["5", "-9"], ("open", "15.90")),
    ],
)
def test_an_invoice_has_a_state(
    conn: Connection[Any],
    shop: Shop,
    tmp_path: Path,
    amounts: list[str],
    standing: tuple[str, str],
) -> None:
    owing(conn, shop)
    payments: list[Row] = [{"invoice": ONE, "amount": each} for each in amounts]

    if payments:
        pay(conn, tmp_path, *payments)

    assert states(conn) == {ONE: standing}


@pytest.mark.parametrize(
    "reference",
    [
        ONE,
        "nl-000001",
        f"Invoice {ONE}, thank you",
        f"RE:{ONE}/A-1",
        f"We pay {ONE}.",
        f"{ONE}\u00a0and nothing else",
        f"{ONE} {ONE}",
    ],
)
def test_a_text_that_holds_a_number_is_for_its_invoice(
    conn: Connection[Any], shop: Shop, tmp_path: Path, reference: str
) -> None:
    owing(conn, shop)
    if reference.startswith("RE"):
        reference = reference.replace("/", " ")

    pay(conn, tmp_path, {"reference": reference, "amount": "11.90"})

    assert states(conn) == {ONE: ("paid", "0.00")}


def test_what_is_paid_on_account_fills_what_is_payable_first(
    conn: Connection[Any], shop: Shop, tmp_path: Path
) -> None:
    account = shop.account(conn, key="a-1")
    bill(conn, account, 2)

    pay(conn, tmp_path, {"reference": "a-1", "amount": "15"})
    assert states(conn) == {ONE: ("paid", "0.00"), TWO: ("partly_paid", "8.80")}
    assert on_account(conn) is None

    pay(conn, tmp_path, {"key": "more", "reference": "a-1", "amount": "10"})
    assert states(conn) == {ONE: ("paid", "0.00"), TWO: ("paid", "0.00")}
    assert on_account(conn) == "1.20"

    pay(conn, tmp_path, {"key": "late", "invoice": ONE, "amount": "11.90"})
    assert states(conn) == {ONE: ("paid", "0.00"), TWO: ("paid", "0.00")}
    assert on_account(conn) == "13.10"


def test_what_matches_nothing_is_refused(
    conn: Connection[Any], shop: Shop, tmp_path: Path
) -> None:
    account = shop.account(conn, key="a-1")
    bill(conn, account, 2)

    told = refused(
        conn,
        tmp_path,
        {"invoice": ONE, "amount": "1"},
        {"invoice": "NL-9", "amount": "1"},
        {"reference": "thank you", "amount": "1"},
        {"amount": "1"},
        {"reference": f"{ONE} and {TWO}", "amount": "1"},
    )

    assert told == [
        "3: invoice: there is no invoice NL-9",
        "4: reference: thank you is no account and holds no number of an invoice",
        "5: reference: it names neither an invoice nor a reference",
        "6: reference: it names several invoices: give each a row of its own",
    ]


def test_what_matches_nothing_can_be_let_in_and_assigned_later(
    conn: Connection[Any], shop: Shop, tmp_path: Path
) -> None:
    stray: Row = {"reference": "for A", "amount": "11.90"}

    first = pay(conn, tmp_path, stray, allow_unmatched=True)
    again = pay(conn, tmp_path, stray, allow_unmatched=True)
    owing(conn, shop)
    assert states(conn) == {ONE: ("open", "11.90")}
    assigned = pay(conn, tmp_path, stray | {"invoice": ONE})

    assert (first.new, first.unmatched, again.unmatched) == (0, 1, 1)
    assert assigned == Report(1, 1, 0, 0)
    assert states(conn) == {ONE: ("paid", "0.00")}
    assert values(conn, "SELECT reason FROM pgbill.unmatched_payment") == [
        "nothing matches"
    ]
    (remark,) = first.remarks
    assert remark.endswith(
        "b.csv:2: reference: for A is no account and holds no number of an invoice"
    )


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"amount": "0"}, "amount: a payment of 0 is none"),
        ({"amount": "1000000000000000.01"}, "amount: 1000000000000000.01 is more than"),
        ({"paid_on": "2099-01-01"}, "paid_on: 2099-01-01 is still to come"),
        ({"amount": "0.001"}, "amount: 0.001 has more decimals than EUR, which has 2"),
        ({"currency": "USD"}, "currency: it is in USD, what it pays is in EUR"),
        ({"currency": "XXQ"}, "currency: there is no currency XXQ"),
        ({"seller": "none"}, "seller: there is no seller none"),
        ({"paid_on": ""}, "paid_on: the value is missing"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    conn: Connection[Any], shop: Shop, tmp_path: Path, changes: Row, told: str
) -> None:
    owing(conn, shop)
    good: Row = {"invoice": ONE, "amount": "1"}

    lines = refused(conn, tmp_path, good, good | changes)

    assert any(line.startswith(f"3: {told}") for line in lines)


@pytest.mark.parametrize(
    ("changes", "other"),
    [
        ({"amount": "2"}, "amount"),
        ({"invoice": TWO}, "invoice"),
        ({"paid_on": "2026-03-01", "payer": "Bo"}, "paid_on, payer"),
    ],
)
def test_a_key_with_other_data_is_refused(
    conn: Connection[Any], shop: Shop, tmp_path: Path, changes: Row, other: str
) -> None:
    bill(conn, shop.account(conn, key="a-1"), 2)
    payment: Row = {"key": "k", "invoice": ONE, "amount": "1"}

    (in_file,) = refused(conn, tmp_path, payment, payment | changes)
    pay(conn, tmp_path, payment)
    (imported,) = refused(conn, tmp_path, payment | changes)

    assert in_file == f"3: key: k stands in line 2 already, with another {other}"
    assert imported == f"2: key: k was imported before with another {other}"


def test_a_number_that_two_sellers_use_needs_the_seller(
    conn: Connection[Any], shop: Shop, tmp_path: Path
) -> None:
    south = Shop.open(conn, key="south")
    owing(conn, shop)
    owing(conn, south, key="a-2")

    told = refused(conn, tmp_path, {"invoice": ONE, "amount": "1"})
    pay(conn, tmp_path, {"invoice": ONE, "seller": "south", "amount": "11.90"})

    assert told == [f"2: invoice: several sellers have an invoice {ONE}"]
    assert values(
        conn,
        "SELECT account_key FROM pgbill.invoice_payment_state WHERE state = 'paid'",
    ) == ["a-2"]


def test_what_prepaid_credit_has_paid_is_not_open(
    conn: Connection[Any], shop: Shop, tmp_path: Path
) -> None:
    account = shop.account(conn, key="a-1")
    builders.prepaid_credit(conn, account, "5")
    bill(conn, account, 1)

    pay(conn, tmp_path, {"invoice": ONE, "amount": "6.90"})

    assert states(conn)[ONE] == ("paid", "0.00")


def test_test_invoices_are_not_paid(conn: Connection[Any], tmp_path: Path) -> None:
    told = refused(conn, tmp_path, {"invoice": f"TEST-{ONE}", "amount": "1"})

    assert told == [f"2: invoice: there is no invoice TEST-{ONE}"]
    assert value(conn, "SELECT count(*) FROM pgbill.invoice_payment_state") == 0
