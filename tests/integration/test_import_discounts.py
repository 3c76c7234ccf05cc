"""A file of discounts is taken over as a whole, any number of times, or refused."""

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
from tests.inputs import Row, refusals, rows, write_csv
from tests.shop import FIRST_DAY, findings, lease_row, values

pytestmark = pytest.mark.one_server

LAUNCH: Row = {
    "key": "d-1",
    "account": "a-1",
    "description": "Launch offer",
    "percent": "10",
    "amount": "",
    "subscription": "",
    "price": "",
    "rank": "",
    "starts_on": "2026-01-01",
    "ends_on": "",
    "periods": "",
}
FIXED = LAUNCH | {"key": "d-2", "percent": "", "amount": "5.00"}


@pytest.fixture
def account(conn: Connection[Any]) -> Account:
    """Return an account with a subscription, of a seller with several prices."""
    builders.tax_rate(conn)
    seller_id = builders.seller(conn, "northlight")
    fee = builders.price(conn, seller_id, key="fee")
    builders.price(conn, seller_id, key="setup")
    builders.price(conn, seller_id, key="fee-usd", currency="USD")
    builders.price(conn, builders.seller(conn, "other"), key="fee-other")
    builders.account(conn, seller_id, key="a-2")
    account = builders.account(conn, seller_id, key="a-1")
    builders.subscription(conn, account, fee, key="s-1")
    return account


@pytest.fixture(autouse=True)
def _account(account: Account) -> Account:
    return account


def load(conn: Connection[Any], folder: Path, *discounts: Row) -> Report:
    return importing.discounts(conn, write_csv(folder / "d.csv", discounts))


def refused(conn: Connection[Any], folder: Path, *discounts: Row) -> list[str]:
    before = rows(conn, "discount")
    told = refusals(load, conn, folder, *discounts)
    assert rows(conn, "discount") == before
    return [line.removeprefix("d.csv:") for line in told]


def periods(conn: Connection[Any]) -> list[str]:
    return values(conn, "SELECT active_period::text FROM pgbill.discount ORDER BY key")


def test_discounts_are_taken_as_they_stand(
    conn: Connection[Any], tmp_path: Path
) -> None:
    whole = FIXED | {
        "subscription": "s-1",
        "price": "fee",
        "rank": "3",
        "ends_on": "2027-01-01",
        "periods": "6",
    }

    report = load(conn, tmp_path, LAUNCH, whole)

    assert report == Report(read=2, new=2, changed=0, unchanged=0)
    assert conn.execute(
        "SELECT discount.key, percent, amount, subscription.key, price.key, rank,"
        " discount.active_period::text, period_count FROM pgbill.discount"
        " LEFT JOIN pgbill.subscription USING (bucket, account_id, subscription_id)"
        " LEFT JOIN pgbill.price USING (price_id) ORDER BY 1"
    ).fetchall() == [
        ("d-1", 10, None, None, None, 0, "[2026-01-01,)", None),
        ("d-2", None, 5, "s-1", "fee", 3, "[2026-01-01,2027-01-01)", 6),
    ]
    assert findings(conn) == {}


def test_a_file_imported_again_changes_nothing(
    conn: Connection[Any], tmp_path: Path
) -> None:
    load(conn, tmp_path, LAUNCH, FIXED)

    report = load(conn, tmp_path, LAUNCH | {"percent": "10.0"}, FIXED, FIXED)

    assert report == Report(read=3, new=0, changed=0, unchanged=3)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"account": "a-9"}, "account: there is no account a-9"),
        ({"subscription": "s-9"}, "subscription: account a-1 has no subscription s-9"),
        ({"price": "none"}, "price: there is no price none"),
        (
            {"price": "fee-usd"},
            "price: price fee-usd is not of the seller and currency of account a-1",
        ),
        (
            {"price": "fee-other"},
            "price: price fee-other is not of the seller and currency of account a-1",
        ),
        (
            {"subscription": "s-1", "price": "setup"},
            "price: subscription s-1 has no price setup",
        ),
        ({"percent": ""}, "percent: give either percent or amount"),
        ({"amount": "5"}, "percent: give either percent or amount"),
        ({"percent": "0"}, "percent: 0 is not above 0 and at most 100"),
        ({"percent": "100.01"}, "percent: 100.01 is not above 0 and at most 100"),
        ({"percent": "", "amount": "0"}, "amount: 0 is not above zero"),
        (
            {"percent": "", "amount": "0.001"},
            "amount: 0.001 has more decimals than EUR, which has 2",
        ),
        (
            {"key": "maximum"},
            "key: maximum is what pgbill calls a limit: give the discount another key",
        ),
        ({"rank": "first"}, "rank: 'first' is not a whole number from 0 to 1000"),
        (
            {"ends_on": "2026-01-01"},
            "ends_on: 2026-01-01 is not after starts_on, 2026-01-01",
        ),
        ({"periods": "0"}, "periods: '0' is not a whole number from 1 to 1200"),
        (
            {"key": "d-1", "percent": "20", "price": "fee"},
            "key: d-1 stands in line 2 already, with another percent, price",
        ),
        (
            {"key": "d-1", "ends_on": "2026-02-01"},
            "key: d-1 stands in line 2 already, with another ends_on",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    conn: Connection[Any], tmp_path: Path, changes: Row, told: str
) -> None:
    bad = LAUNCH | {"key": "bad"} | changes

    assert refused(conn, tmp_path, LAUNCH, bad) == [f"3: {told}"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"description": "Offer"}, "description: discount d-1 has Launch offer since"),
        ({"percent": "11"}, "percent: discount d-1 has 10 since"),
        ({"price": "fee"}, "price: discount d-1 has none since"),
        ({"subscription": "s-1"}, "subscription: discount d-1 has none since"),
        ({"rank": "1"}, "rank: discount d-1 has 0 since"),
        ({"starts_on": "2026-02-01"}, "starts_on: discount d-1 has 2026-01-01 since"),
        ({"periods": "3"}, "periods: discount d-1 has none since"),
    ],
)
def test_what_was_granted_stays(
    conn: Connection[Any], tmp_path: Path, changes: Row, told: str
) -> None:
    load(conn, tmp_path, LAUNCH)

    assert refused(conn, tmp_path, LAUNCH | changes) == [
        f"2: {told} it was first imported"
    ]


def test_an_end_moves(conn: Connection[Any], tmp_path: Path) -> None:
    load(conn, tmp_path, LAUNCH)

    report = load(conn, tmp_path, LAUNCH | {"ends_on": "2026-04-01"}, FIXED)

    assert report == Report(read=2, new=1, changed=1, unchanged=0)
    assert periods(conn) == ["[2026-01-01,2026-04-01)", "[2026-01-01,)"]
    assert load(conn, tmp_path, LAUNCH).changed == 1
    assert periods(conn) == ["[2026-01-01,)", "[2026-01-01,)"]


def test_nothing_changes_in_what_is_closed(
    conn: Connection[Any], account: Account, tmp_path: Path
) -> None:
    ended = LAUNCH | {"ends_on": "2026-01-15"}
    load(conn, tmp_path, ended, FIXED)
    bill_all(conn, account, through_on=FIRST_DAY.replace(day=31))

    assert refused(conn, tmp_path, LAUNCH | {"key": "d-3"}) == [
        (
            "2: starts_on: 2026-01-01 is before 2026-02-01, up to which account a-1 is"
            " closed"
        )
    ]
    assert refused(conn, tmp_path, FIXED | {"ends_on": "2026-01-20"}) == [
        "2: ends_on: 2026-01-20 is before 2026-02-01, up to which account a-1 is closed"
    ]
    assert refused(conn, tmp_path, LAUNCH) == [
        (
            "2: ends_on: it ended on 2026-01-15, and account a-1 is closed up to"
            " 2026-02-01: begin another one"
        )
    ]
    assert load(conn, tmp_path, FIXED | {"ends_on": "2026-02-01"}).changed == 1
    assert load(conn, tmp_path, ended).unchanged == 1


def test_an_account_that_is_being_invoiced_keeps_its_discounts(
    conn: Connection[Any], account: Account, tmp_path: Path
) -> None:
    load(conn, tmp_path, FIXED)
    Actor(conn).claim_one(account)

    with pytest.raises(LeaseHeldError):
        load(conn, tmp_path, LAUNCH)

    assert load(conn, tmp_path, FIXED).unchanged == 1
    assert load(conn, tmp_path, LAUNCH | {"account": "a-2"}).new == 1


def test_whoever_sleeps_with_lines_rated_before_loses_the_lease(
    conn: Connection[Any], account: Account, tmp_path: Path
) -> None:
    Actor(conn).claim_one(account)
    expire(conn, account)

    load(conn, tmp_path, LAUNCH)

    assert lease_row(conn, account)["outcome"] == "revoked"
