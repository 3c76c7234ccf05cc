"""Prices and quantities change in mid-period: one row ends, and another begins.

What is agreed to for the days to come may be ended and added to; what is closed may
not, as no invoice would ever tell of it.
"""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection
from psycopg.types.json import Jsonb

from pgbill import importing
from pgbill.errors import LeaseHeldError
from pgbill.importing import Report
from tests import builders
from tests.actors import Actor, bill_all
from tests.builders import Account
from tests.inputs import Row, refusals, rows, write_csv
from tests.shop import FEBRUARY, MARCH, findings, lease_row, values

pytestmark = pytest.mark.one_server

SEATS: Row = {
    "subscription": "s-1",
    "account": "a-1",
    "price": "seats",
    "quantity": "2",
    "starts_on": "2026-01-01",
    "ends_on": "",
    "price_starts_on": "",
    "price_ends_on": "",
}
TWO = SEATS | {"price_ends_on": "2026-02-10"}
FIVE = SEATS | {"quantity": "5", "price_starts_on": "2026-02-10"}
USAGE = SEATS | {"price": "unit", "quantity": ""}
"""Of what is billed by use, in the same subscription."""


@pytest.fixture(autouse=True)
def account(conn: Connection[Any]) -> Account:
    """Return an account of a seller with prices of several kinds."""
    builders.tax_rate(conn)
    seller_id = builders.seller(conn, "northlight")
    gb = builders.meter(conn, "gb")
    builders.price(conn, seller_id, key="seats")
    builders.price(conn, seller_id, key="support")
    builders.price(conn, seller_id, key="unit", meter_id=gb)
    builders.price(conn, seller_id, key="unit-2", meter_id=gb)
    for model in ("minimum", "maximum"):
        builders.price(conn, seller_id, key=model, model=model, timing="arrears")
    return builders.account(conn, seller_id, key="a-1")


def load(conn: Connection[Any], folder: Path, *prices: Row) -> Report:
    return importing.subscriptions(conn, write_csv(folder / "s.csv", prices))


def refused(conn: Connection[Any], folder: Path, *prices: Row) -> list[str]:
    before = rows(conn, "subscription"), rows(conn, "subscription_price")
    told = refusals(load, conn, folder, *prices)
    assert (rows(conn, "subscription"), rows(conn, "subscription_price")) == before
    return [line.removeprefix("s.csv:") for line in told]


def segments(conn: Connection[Any]) -> list[str]:
    """Return the segments: price, days, quantity."""
    return values(
        conn,
        "SELECT concat_ws(' ', price.key, active_period, quantity)"
        " FROM pgbill.subscription_price INNER JOIN pgbill.price USING (price_id)"
        " ORDER BY price.key, starts_on",
    )


def test_more_seats_are_an_end_and_another_row(
    conn: Connection[Any], tmp_path: Path
) -> None:
    load(conn, tmp_path, SEATS, USAGE)

    report = load(conn, tmp_path, FIVE, TWO, USAGE)

    assert report == Report(read=3, new=0, changed=1, unchanged=0)
    assert segments(conn) == [
        "seats [2026-01-01,2026-02-10) 2",
        "seats [2026-02-10,) 5",
        "unit [2026-01-01,) 1",
    ]


def test_segments_imported_again_change_nothing(
    conn: Connection[Any], tmp_path: Path, account: Account
) -> None:
    load(conn, tmp_path, TWO, FIVE)
    before = segments(conn)

    report = load(conn, tmp_path, TWO, FIVE, FIVE)

    assert report == Report(read=3, new=0, changed=0, unchanged=1)
    assert segments(conn) == before
    Actor(conn).claim_one(account)
    assert load(conn, tmp_path, FIVE, TWO).unchanged == 1


def test_a_pause_lies_between_two_segments(
    conn: Connection[Any], tmp_path: Path
) -> None:
    load(conn, tmp_path, TWO, FIVE | {"price_starts_on": "2026-04-01"})

    assert segments(conn) == [
        "seats [2026-01-01,2026-02-10) 2",
        "seats [2026-04-01,) 5",
    ]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"price_starts_on": "2025-12-31"},
            "price_starts_on: 2025-12-31 is before starts_on, 2026-01-01",
        ),
        (
            {"price_starts_on": "2026-07-01"},
            "price_starts_on: 2026-07-01 is not before ends_on, 2026-07-01",
        ),
        (
            {"price_ends_on": "2026-07-02"},
            "price_ends_on: 2026-07-02 is after ends_on, 2026-07-01",
        ),
        (
            {"price_ends_on": "2026-01-01"},
            (
                "price_ends_on: 2026-01-01 is not after the first day of the price,"
                " 2026-01-01"
            ),
        ),
        (
            {"price_starts_on": "x"},
            "price_starts_on: 'x' is not a date such as 2026-10-01",
        ),
        (
            {"price": "unit"},
            "quantity: price unit bills a meter, whose usage is the quantity",
        ),
        (
            {"price": "minimum"},
            (
                "quantity: price minimum is the minimum of what the subscription is"
                " billed, and has no quantity"
            ),
        ),
        (
            {"price": "maximum"},
            (
                "quantity: price maximum is the maximum of what the subscription is"
                " billed, and has no quantity"
            ),
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    conn: Connection[Any], tmp_path: Path, changes: Row, told: str
) -> None:
    seats = SEATS | {"ends_on": "2026-07-01"}

    assert refused(conn, tmp_path, seats, seats | {"price": "support"} | changes) == [
        f"3: {told}"
    ]


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (
            FIVE | {"price_starts_on": "2026-02-09"},
            (
                "3: price_starts_on: price seats of subscription s-1 is in line 2"
                " already, and has not ended by 2026-02-09"
            ),
        ),
        (
            TWO | {"quantity": "3"},
            (
                "3: quantity: price seats of subscription s-1 stands in line 2 already,"
                " with another quantity"
            ),
        ),
        (
            TWO | {"price_ends_on": ""},
            (
                "3: price_ends_on: price seats of subscription s-1 stands in line 2"
                " already, with another end"
            ),
        ),
    ],
)
def test_a_price_stands_once_on_a_day(
    conn: Connection[Any], tmp_path: Path, other: Row, told: str
) -> None:
    assert refused(conn, tmp_path, TWO, other) == [told]


def test_a_segment_that_has_not_ended_is_not_forgotten(
    conn: Connection[Any], tmp_path: Path, account: Account
) -> None:
    load(conn, tmp_path, TWO, FIVE)
    bill_all(conn, account, through_on=FEBRUARY)

    assert refused(conn, tmp_path, FIVE) == [
        "2: price: price seats is missing, which subscription s-1 has since 2026-01-01"
    ]
    bill_all(conn, account, through_on=MARCH)
    assert load(conn, tmp_path, FIVE).unchanged == 1
    assert load(conn, tmp_path, FIVE | {"price_ends_on": "2026-05-01"}).changed == 1


def test_another_price_may_join_a_subscription(
    conn: Connection[Any], tmp_path: Path, account: Account
) -> None:
    load(conn, tmp_path, SEATS)
    bill_all(conn, account, through_on=FEBRUARY)
    support = SEATS | {"price": "support"}

    assert refused(conn, tmp_path, SEATS, support) == [
        (
            "3: starts_on: 2026-01-01 is before 2026-02-01, up to which account a-1 is"
            " closed: it would never be billed"
        )
    ]
    assert refused(
        conn, tmp_path, SEATS, support | {"price_starts_on": "2026-01-31"}
    ) == [
        (
            "3: price_starts_on: 2026-01-31 is before 2026-02-01, up to which account"
            " a-1 is closed: it would never be billed"
        )
    ]
    later = support | {"price_starts_on": "2026-02-01"}
    assert load(conn, tmp_path, SEATS, later).changed == 1
    bill_all(conn, account, through_on=MARCH)
    assert findings(conn) == {}


def test_a_meter_has_one_price_on_a_day(conn: Connection[Any], tmp_path: Path) -> None:
    """Also within a subscription, in a file and beside what was imported before."""
    successor = USAGE | {"price": "unit-2", "price_starts_on": "2026-03-01"}
    reason = "price: price unit-2 bills meter gb on days on which price unit"

    (line,) = refused(conn, tmp_path, USAGE, successor)
    assert line.startswith(f"3: {reason} of subscription s-1 (line 2)")
    load(conn, tmp_path, USAGE)
    (line,) = refused(conn, tmp_path, successor | {"subscription": "s-2"})
    assert line.startswith(f"2: {reason} of subscription s-1 (imported before)")

    ended = USAGE | {"price_ends_on": "2026-03-01"}
    assert load(conn, tmp_path, successor, ended).changed == 1


def test_an_end_may_be_set_back_into_what_was_billed_in_advance(
    conn: Connection[Any], tmp_path: Path, account: Account
) -> None:
    """And forth again, as long as the next invoice has not given anything back."""
    load(conn, tmp_path, SEATS)
    bill_all(conn, account, through_on=FEBRUARY)

    assert load(conn, tmp_path, TWO).changed == 1
    assert load(conn, tmp_path, SEATS).changed == 1
    assert load(conn, tmp_path, TWO, FIVE).changed == 1
    assert refused(conn, tmp_path, SEATS | {"price_ends_on": "2026-01-31"}, FIVE) == [
        (
            "2: price_ends_on: 2026-01-31 is before 2026-02-01, up to which account"
            " a-1 is closed"
        )
    ]


def test_a_segment_that_has_ended_stays_so(
    conn: Connection[Any], tmp_path: Path, account: Account
) -> None:
    load(conn, tmp_path, TWO)
    bill_all(conn, account, through_on=MARCH)

    assert refused(conn, tmp_path, TWO | {"price_ends_on": "2026-04-01"}) == [
        (
            "2: price_ends_on: it ended on 2026-02-10, and account a-1 is closed up to"
            " 2026-03-01: begin another one"
        )
    ]
    again = FIVE | {"price_starts_on": "2026-03-01"}
    assert load(conn, tmp_path, TWO, again).changed == 1


def test_what_ends_with_its_period_may_go_on(
    conn: Connection[Any], tmp_path: Path, account: Account
) -> None:
    load(conn, tmp_path, SEATS | {"price_ends_on": "2026-03-01"})
    bill_all(conn, account, through_on=FEBRUARY)

    assert load(conn, tmp_path, SEATS).changed == 1
    bill_all(conn, account, through_on=MARCH)
    billed = "SELECT service_period::text FROM pgbill.invoice_line ORDER BY 1"
    assert values(conn, billed) == [
        "[2026-01-01,2026-02-01)",
        "[2026-02-01,2026-03-01)",
        "[2026-03-01,2026-04-01)",
    ]


@pytest.mark.parametrize(
    ("kind", "days"),
    [("advance", "[2026-02-01,2026-02-10)"), ("unused_advance", "[2026-02-10,)")],
)
def test_a_part_that_waits_for_an_invoice_counts_as_billed(
    conn: Connection[Any], tmp_path: Path, account: Account, kind: str, days: str
) -> None:
    load(conn, tmp_path, TWO | {"price_starts_on": "2026-02-01"})
    bill_all(conn, account, through_on=date(2026, 1, 1))
    carry(conn, account, kind=kind, service_period=days)

    assert refused(conn, tmp_path, SEATS | {"price_starts_on": "2026-02-01"}) == [
        (
            "2: price_ends_on: price seats is billed until 2026-02-10, in the midst of"
            " its period: begin another row then"
        )
    ]


def carry(conn: Connection[Any], account: Account, **line: object) -> None:
    """Write a line of the only segment as one that waits since the first closing."""
    (segment,) = rows(conn, "subscription_price")
    (subscription_id,) = values(
        conn, "SELECT subscription_id FROM pgbill.subscription_price"
    )
    about = {"subscription_id": subscription_id, "price_id": segment["price_id"]}
    builders.insert(
        conn,
        "carried_line",
        "line_no",
        bucket=account.bucket,
        account_id=account.account_id,
        period_end=date(2026, 1, 1),
        line_no=1,
        line=Jsonb({**about, **line}),
        fencing_token=lease_row(conn, account)["fencing_token"],
    )


def lines(conn: Connection[Any]) -> list[str]:
    """Return the lines of the newest invoice: kind, days, quantity, amount."""
    return values(
        conn,
        "SELECT concat_ws(' ', kind, service_period, quantity, net_amount)"
        " FROM pgbill.invoice_line WHERE invoice_id = ("
        " SELECT max(invoice_id) FROM pgbill.invoice) ORDER BY line_no",
    )


def test_seats_that_change_in_what_was_billed_are_given_back_and_charged(
    conn: Connection[Any], tmp_path: Path, account: Account
) -> None:
    """February was billed for 2 seats at 10; from 10 February, 19 days, it has 5."""
    load(conn, tmp_path, SEATS)
    bill_all(conn, account, through_on=FEBRUARY)
    load(conn, tmp_path, TWO, FIVE)

    bill_all(conn, account, through_on=MARCH)

    assert lines(conn) == [
        "advance [2026-03-01,2026-04-01) 5 50.00",
        "advance [2026-02-10,2026-03-01) 5 33.93",
        "unused_advance [2026-02-10,2026-03-01) -1 -13.57",
    ]
    assert findings(conn) == {}


def yearly(conn: Connection[Any], account: Account, timing: str) -> Row:
    """Return a row of a fee of 365 for each year of an account that pays monthly."""
    builders.price(
        conn,
        account.seller_id,
        key="yearly",
        amount="365",
        timing=timing,
        billing_interval="yearly",
    )
    return SEATS | {"price": "yearly", "quantity": ""}


def test_a_yearly_fee_ends_and_goes_on_in_mid_year(
    conn: Connection[Any], tmp_path: Path, account: Account
) -> None:
    """What is given back is carried forward, and so a new one costs nothing."""
    fee = yearly(conn, account, "advance")
    load(conn, tmp_path, fee)
    bill_all(conn, account)
    load(conn, tmp_path, fee | {"price_ends_on": "2026-02-01"})
    assert bill_all(conn, account, through_on=FEBRUARY) == ["carried_forward"]

    assert refused(conn, tmp_path, fee) == [
        (
            "2: price_ends_on: price yearly is billed until 2026-02-01, in the midst of"
            " its period: begin another row then"
        )
    ]
    ended = fee | {"price_ends_on": "2026-02-01"}
    again = fee | {"price_starts_on": "2026-02-01"}
    assert load(conn, tmp_path, ended, again).changed == 1
    bill_all(conn, account, through_on=MARCH)
    assert sorted(lines(conn)) == [
        "advance [2026-02-01,2027-01-01) 1 334.00",
        "unused_advance [2026-02-01,2027-01-01) -1 -334.00",
    ]
    assert findings(conn) == {}


def test_a_yearly_fee_in_arrears_ends_where_a_closing_still_bills_it(
    conn: Connection[Any], tmp_path: Path, account: Account
) -> None:
    fee = yearly(conn, account, "arrears")
    load(conn, tmp_path, fee)
    bill_all(conn, account, through_on=FEBRUARY)

    assert refused(conn, tmp_path, fee | {"price_ends_on": "2026-02-01"}) == [
        (
            "2: price_ends_on: price yearly is not billed up to 2026-02-01, and account"
            " a-1 is closed: end it on a later day"
        )
    ]
    ended = fee | {"price_ends_on": "2026-03-01"}
    assert load(conn, tmp_path, ended).changed == 1
    bill_all(conn, account, through_on=MARCH)
    assert lines(conn) == ["arrears [2026-01-01,2026-03-01) 1 59.00"]
    assert refused(conn, tmp_path, fee) == [
        (
            "2: price_ends_on: price yearly is billed until 2026-03-01, in the midst of"
            " its period: begin another row then"
        )
    ]


def test_an_account_that_is_being_invoiced_is_left_alone(
    conn: Connection[Any], tmp_path: Path, account: Account
) -> None:
    load(conn, tmp_path, SEATS)
    Actor(conn).claim_one(account)

    with pytest.raises(LeaseHeldError) as raised, conn.transaction():
        load(conn, tmp_path, TWO, FIVE)

    assert raised.value.exit_code == 75
