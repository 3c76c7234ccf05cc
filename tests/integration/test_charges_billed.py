"""What is charged, corrected or paid in advance counts once, whenever it comes."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from pgbill import importing
from pgbill.lease import Scope
from tests import imports
from tests.actors import Actor, bill_all
from tests.builders import Account
from tests.inputs import Row, write_csv
from tests.shop import Shop, findings, run_sql, value

pytestmark = pytest.mark.one_server

ENDS = {month: date(2026, month, 28) for month in range(1, 6)} | {1: date(2026, 1, 31)}
"""Through this day the month is closed, and no later one."""


@pytest.fixture
def account(conn: Connection[Any]) -> Account:
    """Return an account that pays a fee of 10 in advance, and 0.5 for a unit."""
    return Shop.open(conn).account(conn, key="a-1")


def charge(
    conn: Connection[Any], folder: Path, key: str, amount: str, service_on: str
) -> None:
    row: Row = {
        "key": key,
        "account": "a-1",
        "description": f"Charge {key}",
        "unit_amount": amount,
        "tax_class": "standard",
        "service_on": service_on,
    }
    importing.charges(conn, write_csv(folder / "c.csv", [row]))


def billed(conn: Connection[Any]) -> list[tuple[str, str, str]]:
    """Return the charges on invoices: boundary, text and amount."""
    return [
        (str(period_end), text, str(amount))
        for period_end, text, amount in conn.execute(
            "SELECT period_end, description, invoice_line.net_amount"
            " FROM pgbill.invoice_line"
            " INNER JOIN pgbill.invoice USING (bucket, account_id, invoice_id)"
            " WHERE invoice_line.kind = 'charge' ORDER BY 1, 2"
        )
    ]


def test_each_closing_bills_the_charges_of_its_days(
    conn: Connection[Any], account: Account, tmp_path: Path
) -> None:
    for key, service_on in (
        ("first-day", "2026-01-01"),
        ("within", "2026-01-31"),
        ("boundary", "2026-02-01"),
    ):
        charge(conn, tmp_path, key, "5", service_on)

    bill_all(conn, account, through_on=ENDS[3])

    assert billed(conn) == [
        ("2026-01-01", "Charge first-day", "5.00"),
        ("2026-02-01", "Charge within", "5.00"),
        ("2026-03-01", "Charge boundary", "5.00"),
    ]
    assert findings(conn) == {}


def test_a_charge_that_comes_late_is_billed_by_the_next_closing(
    conn: Connection[Any], account: Account, tmp_path: Path
) -> None:
    bill_all(conn, account, through_on=ENDS[2])
    charge(conn, tmp_path, "late", "5", "2026-01-10")
    assert findings(conn) == {}

    bill_all(conn, account, through_on=date(2026, 4, 30))

    assert billed(conn) == [("2026-04-01", "Charge late", "5.00")]
    assert findings(conn) == {}


def test_a_charge_that_comes_between_rating_and_issue_is_not_lost(
    conn: Connection[Any], account: Account, tmp_path: Path
) -> None:
    bill_all(conn, account)
    worker = Actor(conn, scope=Scope(2, ENDS[1]))
    held = worker.claim_one(account)
    run_sql(
        conn,
        "CREATE TEMPORARY TABLE rated ON COMMIT DROP AS SELECT * FROM"
        " pgbill.rate(ARRAY[%s::integer], ARRAY[%s::bigint], %s, 3)",
        *held.account,
        ENDS[1],
    )
    charge(conn, tmp_path, "between", "5", "2026-01-10")
    run_sql(
        conn,
        "SELECT pgbill.issue(ARRAY[rated.bucket], ARRAY[rated.account_id],"
        " ARRAY[%s::bigint], ARRAY[rated.draft], %s, 2, 'live', NULL) FROM rated",
        held.fencing_token,
        worker.worker.worker_id,
    )
    assert billed(conn) == []

    bill_all(conn, account, through_on=ENDS[2])

    assert billed(conn) == [("2026-03-01", "Charge between", "5.00")]
    assert findings(conn) == {}


def test_a_credit_that_is_larger_than_its_invoice_waits_and_is_given_once(
    conn: Connection[Any], account: Account, tmp_path: Path
) -> None:
    charge(conn, tmp_path, "credit", "-25", "2026-01-10")

    outcomes = bill_all(conn, account, through_on=ENDS[2])
    outcomes += bill_all(conn, account, through_on=date(2026, 4, 30))

    assert outcomes == [
        *("invoiced", "carried_forward", "carried_forward", "invoiced", "invoiced")
    ]
    assert billed(conn) == [("2026-04-01", "Charge credit", "-25.00")]
    assert value(conn, "SELECT sum(net_amount) FROM pgbill.invoice") == Decimal(25)
    assert findings(conn) == {}


def test_prepaid_credit_is_used_up_over_invoices(
    conn: Connection[Any], account: Account, tmp_path: Path
) -> None:
    """Each invoice comes to 11.90; the older credit is used first."""
    packs = [
        {
            "key": key,
            "account": "a-1",
            "description": "Pack",
            "amount": amount,
            "available_on": available_on,
        }
        for key, amount, available_on in (
            ("newer", "20", "2026-01-02"),
            ("older", "10", "2026-01-01"),
        )
    ]
    importing.prepaid(conn, write_csv(tmp_path / "p.csv", [dict(it) for it in packs]))

    bill_all(conn, account, through_on=ENDS[3])

    assert conn.execute(
        "SELECT period_end::text, prepaid_credit.key, credit_application.amount"
        " FROM pgbill.credit_application"
        " INNER JOIN pgbill.invoice USING (bucket, account_id, invoice_id)"
        " INNER JOIN pgbill.prepaid_credit"
        " USING (bucket, account_id, prepaid_credit_id) ORDER BY 1, 2 DESC"
    ).fetchall() == [
        ("2026-01-01", "older", Decimal("10.00")),
        ("2026-01-01", "newer", Decimal("1.90")),
        ("2026-02-01", "newer", Decimal("11.90")),
        ("2026-03-01", "newer", Decimal("6.20")),
    ]
    assert findings(conn) == {}


def test_a_correction_of_a_closed_period_is_late_usage(
    conn: Connection[Any], account: Account
) -> None:
    """10 units at 0.50, and 4 of them given back by the next invoice."""
    when = datetime(2026, 1, 15, tzinfo=UTC)
    meter_key = value(conn, "SELECT key FROM pgbill.meter")
    imports.usage(conn, imports.record(account, meter_key, "u-1", when, "10"))
    bill_all(conn, account, through_on=ENDS[1])
    correction = imports.record(account, meter_key, "c-1", when, "-4")

    imports.usage(conn, {**correction, "corrects": "u-1"})
    bill_all(conn, account, through_on=ENDS[2])

    assert conn.execute(
        "SELECT kind, quantity, net_amount, service_period::text"
        " FROM pgbill.invoice_line WHERE meter_id IS NOT NULL ORDER BY invoice_id"
    ).fetchall() == [
        ("usage", Decimal(10), Decimal("5.00"), "[2026-01-01,2026-02-01)"),
        ("late_usage", Decimal(-4), Decimal("-2.00"), "[2026-01-01,2026-02-01)"),
    ]
    assert findings(conn) == {}
