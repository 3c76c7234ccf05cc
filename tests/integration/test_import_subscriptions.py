"""A file of subscriptions is taken over as a whole, any number of times, or refused."""

from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from pgbill import importing
from pgbill.errors import LeaseHeldError
from pgbill.importing import Report
from tests import builders
from tests.actors import Actor, bill_all, expire
from tests.builders import Account
from tests.inputs import Row, refusals, rows, write_csv, write_jsonl
from tests.shop import FEBRUARY, MARCH, findings, lease_row, value, values

pytestmark = pytest.mark.one_server

FEE: Row = {
    "subscription": "s-1",
    "account": "a-1",
    "price": "fee",
    "quantity": "2",
    "starts_on": "2026-01-01",
    "ends_on": "",
    "purchase_order": "PO-1",
}
UNIT = FEE | {"price": "unit", "quantity": ""}


@pytest.fixture
def account(conn: Connection[Any]) -> Account:
    """Return an account of a seller with prices of several kinds."""
    builders.tax_rate(conn)
    seller_id = builders.seller(conn, "northlight")
    gb = builders.meter(conn, "gb")
    builders.price(conn, seller_id, key="fee")
    builders.price(conn, seller_id, key="unit", meter_id=gb)
    builders.price(conn, seller_id, key="unit-2", meter_id=gb)
    builders.price(conn, seller_id, key="fee-usd", currency="USD")
    builders.price(conn, builders.seller(conn, "other"), key="fee-other")
    builders.account(conn, seller_id, key="a-2")
    return builders.account(conn, seller_id, key="a-1")


@pytest.fixture(autouse=True)
def _account(account: Account) -> Account:
    return account


def load(conn: Connection[Any], folder: Path, *prices: Row) -> Report:
    return importing.subscriptions(conn, write_csv(folder / "s.csv", prices))


def refused(conn: Connection[Any], folder: Path, *prices: Row) -> list[str]:
    before = rows(conn, "subscription"), rows(conn, "subscription_price")
    told = refusals(load, conn, folder, *prices)
    assert (rows(conn, "subscription"), rows(conn, "subscription_price")) == before
    return [line.removeprefix("s.csv:") for line in told]


def periods(conn: Connection[Any]) -> set[str]:
    """Return the days of all subscriptions and their prices; they must agree."""
    of_subscriptions = values(
        conn, "SELECT active_period::text FROM pgbill.subscription"
    )
    of_prices = values(
        conn, "SELECT active_period::text FROM pgbill.subscription_price"
    )
    assert set(of_subscriptions) == set(of_prices)
    return set(of_subscriptions)


def test_rows_of_a_key_are_the_prices_of_a_subscription(
    conn: Connection[Any], tmp_path: Path
) -> None:
    report = load(conn, tmp_path, FEE, UNIT, FEE | {"account": "a-2"})

    assert report == Report(read=3, new=2, changed=0, unchanged=0)
    assert len(rows(conn, "subscription_price")) == 3
    assert {
        (row["quantity"], row["currency"], row["meter_id"] is None)
        for row in rows(conn, "subscription_price")
    } == {(2, "EUR", True), (1, "EUR", False)}
    assert periods(conn) == {"[2026-01-01,)"}


def test_a_file_imported_again_changes_nothing(
    conn: Connection[Any], tmp_path: Path, account: Account
) -> None:
    load(conn, tmp_path, FEE, UNIT)
    bill_all(conn, account, through_on=FEBRUARY)
    before = rows(conn, "subscription"), rows(conn, "subscription_price")

    report = load(conn, tmp_path, FEE, UNIT, UNIT)

    assert report == Report(read=3, new=0, changed=0, unchanged=1)
    assert (rows(conn, "subscription"), rows(conn, "subscription_price")) == before


def test_json_lines_are_taken_as_csv_is(conn: Connection[Any], tmp_path: Path) -> None:
    load(conn, tmp_path, FEE | {"quantity": "1.5", "ends_on": "2026-03-01"})
    in_json = FEE | {"quantity": 1.5, "ends_on": "2026-03-01"}

    file = write_jsonl(tmp_path / "s.jsonl", [in_json])

    assert importing.subscriptions(conn, file).unchanged == 1


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"subscription": ""}, "subscription: the value is missing"),
        ({"account": "a-9"}, "account: there is no account a-9"),
        ({"price": "x"}, "price: there is no price x"),
        ({"quantity": "x"}, "quantity: 'x' is not a number such as 12.5"),
        ({"quantity": "-1"}, "quantity: '-1' is negative"),
        ({"starts_on": "x"}, "starts_on: 'x' is not a date such as 2026-10-01"),
        ({"ends_on": "2026-01-01"}, "ends_on: 2026-01-01 is not after starts_on"),
        (
            {"price": "fee-usd"},
            "price: price fee-usd is in USD, account a-2 pays in EUR",
        ),
        (
            {"price": "fee-other"},
            ("price: price fee-other is of seller other, account a-2 is of seller"
            " northlight"),
        ),
        (
            {"price": "unit"},
            "quantity: price unit bills a meter, whose usage is the quantity",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(
    conn: Connection[Any], tmp_path: Path, changes: Row, told: str
) -> None:
    (line,) = refused(conn, tmp_path, FEE, FEE | {"account": "a-2"} | changes)

    assert line.startswith(f"3: {told}")


@pytest.mark.parametrize(
    ("column", "other"),
    [
        ("starts_on", "2026-01-02"),
        ("ends_on", "2026-05-01"),
        ("purchase_order", "PO-2"),
        ("contract_number", "V-1"),
        ("cost_centre", "7"),
    ],
)
def test_rows_of_a_subscription_agree(
    conn: Connection[Any], tmp_path: Path, column: str, other: str
) -> None:
    told = refused(conn, tmp_path, FEE, UNIT | {column: other})

    assert told == [
        f"3: {column}: it differs from line 2, which is of subscription s-1 too"
    ]


def test_a_price_stands_once_in_a_subscription(
    conn: Connection[Any], tmp_path: Path
) -> None:
    assert refused(conn, tmp_path, FEE, FEE | {"quantity": "3"}) == [
        (
            "3: quantity: price fee of subscription s-1 stands in line 2 already, with"
            " another quantity"
        )
    ]


@pytest.mark.parametrize(
    ("prices", "told"),
    [
        (
            [FEE | {"purchase_order": ""}, UNIT | {"purchase_order": ""}],
            "purchase_order: subscription s-1 has PO-1 since it was first imported",
        ),
        (
            [FEE | {"starts_on": "2026-02-01"}, UNIT | {"starts_on": "2026-02-01"}],
            "starts_on: subscription s-1 has 2026-01-01 since it was first imported",
        ),
        (
            [FEE | {"quantity": "3"}, UNIT],
            (
                "quantity: subscription s-1 has 2 of price fee since 2026-01-01: end"
                " that, and begin another row"
            ),
        ),
        (
            [FEE],
            "price: price unit is missing, which subscription s-1 has since 2026-01-01",
        ),
    ],
)
def test_what_was_agreed_to_stays(
    conn: Connection[Any],
    tmp_path: Path,
    prices: list[Row],
    told: str,
) -> None:
    load(conn, tmp_path, FEE, UNIT)

    (line,) = refused(conn, tmp_path, *prices)

    assert line.partition(": ")[2] == told


def test_an_end_may_be_set_and_moved(conn: Connection[Any], tmp_path: Path) -> None:
    load(conn, tmp_path, FEE, UNIT)
    for ends_on, period in (
        ("2026-06-01", "[2026-01-01,2026-06-01)"),
        ("2026-03-01", "[2026-01-01,2026-03-01)"),
        ("2026-09-01", "[2026-01-01,2026-09-01)"),
        ("", "[2026-01-01,)"),
    ):
        report = load(
            conn, tmp_path, FEE | {"ends_on": ends_on}, UNIT | {"ends_on": ends_on}
        )

        assert report == Report(read=2, new=0, changed=1, unchanged=0)
        assert periods(conn) == {period}


def test_one_may_end_and_another_begin_for_the_same_meter(
    conn: Connection[Any], tmp_path: Path
) -> None:
    """In one file, in any order: the first is shortened before the second begins."""
    load(conn, tmp_path, UNIT)
    successor = UNIT | {"subscription": "s-2", "starts_on": "2026-03-01"}

    report = load(conn, tmp_path, successor, UNIT | {"ends_on": "2026-03-01"})

    assert report == Report(read=2, new=1, changed=1, unchanged=0)
    back = [
        successor | {"ends_on": "2026-05-01", "starts_on": "2026-03-01"},
        UNIT | {"ends_on": "2026-02-01"},
    ]
    assert load(conn, tmp_path, *back).changed == 2


def test_a_meter_is_billed_once_on_a_day(conn: Connection[Any], tmp_path: Path) -> None:
    other = UNIT | {"subscription": "s-2", "price": "unit-2"}

    assert refused(conn, tmp_path, UNIT, other) == [
        (
            "3: price: price unit-2 bills meter gb on days on which price unit of"
            " subscription s-1 (line 2) bills it"
        )
    ]
    load(conn, tmp_path, UNIT)
    assert refused(conn, tmp_path, other) == [
        (
            "2: price: price unit-2 bills meter gb on days on which price unit of"
            " subscription s-1 (imported before) bills it"
        )
    ]
    assert load(conn, tmp_path, other | {"account": "a-2"}).new == 1


def test_nothing_begins_in_what_is_closed(
    conn: Connection[Any], tmp_path: Path, account: Account
) -> None:
    bill_all(conn, account, through_on=FEBRUARY)

    assert refused(conn, tmp_path, FEE | {"starts_on": "2026-01-31"}) == [
        (
            "2: starts_on: 2026-01-31 is before 2026-02-01, up to which account a-1 is"
            " closed: it would never be billed"
        )
    ]
    assert load(conn, tmp_path, FEE | {"starts_on": "2026-02-01"}).new == 1
    bill_all(conn, account, through_on=MARCH)
    assert value(conn, "SELECT sum(net_amount)::text FROM pgbill.invoice") == "40.00"
    assert findings(conn) == {}


def test_what_began_long_before_the_account_is_billed_from_its_first_day(
    conn: Connection[Any], tmp_path: Path, account: Account
) -> None:
    load(conn, tmp_path, FEE | {"starts_on": "2024-05-17"})

    bill_all(conn, account)

    assert value(conn, "SELECT net_amount::text FROM pgbill.invoice") == "20.00"


def test_nothing_ends_in_what_is_closed(
    conn: Connection[Any], tmp_path: Path, account: Account
) -> None:
    load(conn, tmp_path, FEE)
    bill_all(conn, account, through_on=FEBRUARY)

    assert refused(conn, tmp_path, FEE | {"ends_on": "2026-01-31"}) == [
        "2: ends_on: 2026-01-31 is before 2026-02-01, up to which account a-1 is closed"
    ]
    assert load(conn, tmp_path, FEE | {"ends_on": "2026-02-01"}).changed == 1


def test_what_has_ended_in_what_is_closed_stays_so(
    conn: Connection[Any], tmp_path: Path, account: Account
) -> None:
    load(conn, tmp_path, FEE | {"ends_on": "2026-01-15"})
    bill_all(conn, account, through_on=FEBRUARY)

    assert refused(conn, tmp_path, FEE | {"ends_on": "2026-04-01"}) == [
        (
            "2: ends_on: it ended on 2026-01-15, and account a-1 is closed up to"
            " 2026-02-01: begin another one"
        )
    ]


def test_a_part_that_was_billed_in_advance_is_not_prolonged(
    conn: Connection[Any], tmp_path: Path, account: Account
) -> None:
    """The rest of its period would be billed by nobody."""
    load(conn, tmp_path, FEE | {"ends_on": "2026-02-15"})
    bill_all(conn, account, through_on=FEBRUARY)

    assert refused(conn, tmp_path, FEE | {"ends_on": "2026-04-01"}) == [
        (
            "2: ends_on: price fee is billed until 2026-02-15, in the midst of its"
            " period: begin another row then"
        )
    ]
    successor = FEE | {"subscription": "s-2", "starts_on": "2026-02-15"}
    assert load(conn, tmp_path, successor).new == 1
    bill_all(conn, account, through_on=MARCH)
    lines = values(
        conn,
        "SELECT service_period::text FROM pgbill.invoice_line ORDER BY service_period",
    )
    assert lines == [
        "[2026-01-01,2026-02-01)",
        "[2026-02-01,2026-02-15)",
        "[2026-02-15,2026-03-01)",
        "[2026-03-01,2026-04-01)",
    ]


def test_an_account_that_is_being_invoiced_is_left_alone(
    conn: Connection[Any], tmp_path: Path, account: Account
) -> None:
    actor = Actor(conn)
    held = actor.claim_one(account)
    with pytest.raises(LeaseHeldError) as raised, conn.transaction():
        load(conn, tmp_path, FEE)

    assert raised.value.exit_code == 75
    assert actor.renews(held)
    assert load(conn, tmp_path, FEE | {"account": "a-2"}).new == 1


def test_a_worker_that_sleeps_loses_the_account_to_the_import(
    conn: Connection[Any], tmp_path: Path, account: Account
) -> None:
    """It may hold lines that were rated before."""
    actor = Actor(conn)
    held = actor.claim_one(account)
    expire(conn, account)

    assert load(conn, tmp_path, FEE).new == 1

    assert lease_row(conn, account)["outcome"] == "revoked"
    assert actor.outcomes(held) == []


def test_an_import_that_changes_nothing_disturbs_nobody(
    conn: Connection[Any], tmp_path: Path, account: Account
) -> None:
    load(conn, tmp_path, FEE)
    Actor(conn).claim_one(account)

    assert load(conn, tmp_path, FEE).unchanged == 1


def test_the_end_is_the_first_day_that_is_not_billed(
    conn: Connection[Any], tmp_path: Path, account: Account
) -> None:
    load(conn, tmp_path, FEE | {"ends_on": "2026-02-01"})

    bill_all(conn, account, through_on=MARCH)

    assert values(conn, "SELECT service_period::text FROM pgbill.invoice_line") == [
        "[2026-01-01,2026-02-01)"
    ]
