"""How an account's periods are cut is said by its import; only its zone may change.

A change of zone moves no boundary that is due: what the running period bills ends at
the instant that was told before. Only an account that was never closed begins anew.
"""

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
from tests.inputs import Row, rows, write_csv
from tests.shop import (
    FEBRUARY,
    FIRST_DAY,
    MARCH,
    Shop,
    findings,
    lease_row,
    run_sql,
    values,
)

pytestmark = pytest.mark.one_server

ACCOUNT: Row = {
    "key": "a-1",
    "seller": "northlight",
    "legal_name": "Alder & Sons GmbH",
    "street": "Hauptstr. 5",
    "city": "Köln",
    "country": "DE",
    "tax_status": "business",
    "first_period_on": "2026-01-01",
    "email": "a@example.com",
}
TO_NEW_YORK = ACCOUNT | {"zone": "America/New_York"}


@pytest.fixture(autouse=True)
def shop(conn: Connection[Any]) -> Shop:
    return Shop.open(conn, key="northlight")


@pytest.fixture
def account(conn: Connection[Any], shop: Shop) -> Account:
    """Return an account in Berlin, that pays from 1 January on."""
    return shop.account(conn, key="a-1")


def load(conn: Connection[Any], folder: Path, *accounts: Row) -> Report:
    return importing.accounts(conn, write_csv(folder / "accounts.csv", accounts))


@pytest.mark.parametrize(
    ("interval", "first_period_on", "anchor_on"),
    [
        ("weekly", "2026-01-01", "2025-12-29"),
        ("weekly", "2026-01-05", "2026-01-05"),
        ("weekly", "2026-01-11", "2026-01-05"),
        ("monthly", "2026-02-28", "2026-02-01"),
        ("quarterly", "2026-06-30", "2026-04-01"),
        ("quarterly", "2026-07-01", "2026-07-01"),
        ("half_yearly", "2026-06-30", "2026-01-01"),
        ("half_yearly", "2026-07-01", "2026-07-01"),
        ("half_yearly", "2026-12-31", "2026-07-01"),
        ("yearly", "2024-02-29", "2024-01-01"),
        ("", "2026-05-17", "2026-05-01"),
    ],
)
def test_the_calendar_has_an_anchor_for_each_interval(
    conn: Connection[Any],
    tmp_path: Path,
    interval: str,
    first_period_on: str,
    anchor_on: str,
) -> None:
    given = ACCOUNT | {
        "billing_interval": interval,
        "first_period_on": first_period_on,
        "anchor_on": "calendar",
    }

    load(conn, tmp_path, given)

    (account,) = rows(conn, "account")
    assert account["billing_interval"] == (interval or "monthly")
    assert account["anchor_on"] == anchor_on
    assert load(conn, tmp_path, given).unchanged == 1


def test_what_is_left_out_later_stays(conn: Connection[Any], tmp_path: Path) -> None:
    given = ACCOUNT | {"billing_interval": "yearly", "anchor_on": "calendar"}
    load(conn, tmp_path, given | {"zone": "Asia/Tokyo"})

    assert load(conn, tmp_path, ACCOUNT).unchanged == 1


def test_a_zone_that_changes_leaves_the_boundary_that_is_due(
    conn: Connection[Any], tmp_path: Path, account: Account
) -> None:
    """The account moves on 10 January: January ends in Berlin, February in New York."""
    bill_all(conn, account)

    report = load(conn, tmp_path, TO_NEW_YORK)

    assert report == Report(read=1, new=0, changed=1, unchanged=0)
    assert lease_row(conn, account)["due_at"] == "2026-01-31T23:00:00+00:00"
    bill_all(conn, account, through_on=FEBRUARY)
    assert lease_row(conn, account)["due_at"] == "2026-03-01T05:00:00+00:00"
    bill_all(conn, account, through_on=MARCH)
    ends = "SELECT period_end_at::text FROM pgbill.billing_period ORDER BY period_end"
    assert values(conn, ends) == [
        "2025-12-31 23:00:00+00",
        "2026-01-31 23:00:00+00",
        "2026-03-01 05:00:00+00",
    ]


def test_no_audit_minds_a_zone_that_changes(
    conn: Connection[Any], tmp_path: Path, account: Account
) -> None:
    bill_all(conn, account)
    for zone, through_on in (
        ("Pacific/Kiritimati", FIRST_DAY),
        ("America/New_York", FIRST_DAY),
        ("Asia/Kathmandu", FEBRUARY),
        ("Europe/Berlin", MARCH),
    ):
        load(conn, tmp_path, ACCOUNT | {"zone": zone})

        assert findings(conn) == {}
        bill_all(conn, account, through_on=through_on)
        assert findings(conn) == {}


def test_an_audit_minds_a_boundary_that_is_no_midnight_of_the_account(
    conn: Connection[Any], tmp_path: Path, account: Account
) -> None:
    bill_all(conn, account)
    load(conn, tmp_path, TO_NEW_YORK)

    run_sql(conn, "UPDATE pgbill.lease SET due_at = due_at + interval '1 hour'")

    assert findings(conn) == {"lease_due_on_wrong": 1}


def test_the_zone_of_a_closing_without_invoice_is_not_known(
    conn: Connection[Any], tmp_path: Path
) -> None:
    """So any midnight on earth is believed, and no other time."""
    load(conn, tmp_path, ACCOUNT | {"zone": "Pacific/Kiritimati"})
    bill_all(conn, builders.find(conn, "a-1"))
    load(conn, tmp_path, TO_NEW_YORK)

    assert findings(conn) == {}
    run_sql(conn, "UPDATE pgbill.lease SET due_at = due_at + interval '1 minute'")
    assert findings(conn) == {"lease_due_on_wrong": 1}


def test_the_first_day_begins_in_the_zone_as_long_as_nothing_is_closed(
    conn: Connection[Any], tmp_path: Path, account: Account
) -> None:
    load(conn, tmp_path, TO_NEW_YORK)

    assert lease_row(conn, account)["due_at"] == "2026-01-01T05:00:00+00:00"
    assert findings(conn) == {}


def test_a_zone_does_not_change_while_the_account_is_being_invoiced(
    conn: Connection[Any], tmp_path: Path, account: Account
) -> None:
    actor = Actor(conn)
    held = actor.claim_one(account)

    with pytest.raises(LeaseHeldError) as raised, conn.transaction():
        load(conn, tmp_path, TO_NEW_YORK)

    assert raised.value.exit_code == 75
    expire(conn, account)
    assert load(conn, tmp_path, TO_NEW_YORK).changed == 1
    assert lease_row(conn, account)["outcome"] == "revoked"
    assert actor.outcomes(held) == []
