"""A file of charges is taken over as a whole, any number of times, or refused."""

import contextlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection
from typer.testing import CliRunner

from pgbill import importing, roles
from pgbill.cli import app
from pgbill.importing import Report
from tests import builders
from tests.actors import Actor, Threads, connect, wait_for, wait_until_blocked
from tests.inputs import Row, refusals, rows, write_csv, write_jsonl
from tests.shop import Shop, findings, run_sql, value

pytestmark = pytest.mark.one_server

SETUP: Row = {
    "key": "c-1",
    "account": "a-1",
    "description": "Setup",
    "unit_amount": "250",
    "tax_class": "standard",
    "service_on": "2026-01-10",
}
ALL: Row = {
    **SETUP,
    "unit_amount": "-0.00125",
    "quantity": "1200",
    "per_quantity": "100",
    "unit_code": "HUR",
    "discount_amount": "-1.5",
    "tax_included": "true",
    "purchase_order": "PO-1",
    "contract_number": "CN-1",
    "cost_centre": "CC-1",
    "revenue_account": "8400",
}


@pytest.fixture(autouse=True)
def _shop(conn: Connection[Any]) -> None:
    open_shop(conn)


def open_shop(conn: Connection[Any]) -> None:
    seller_id = builders.seller(conn)
    builders.account(conn, seller_id, key="a-1")
    builders.account(conn, seller_id, key="a-2", currency="JPY")


def load(conn: Connection[Any], folder: Path, *charges: Row) -> Report:
    return importing.charges(conn, write_csv(folder / "c.csv", charges))


def refused(conn: Connection[Any], folder: Path, *charges: Row) -> list[str]:
    before = rows(conn, "charge")
    told = refusals(load, conn, folder, *charges)
    assert rows(conn, "charge") == before
    return [line.removeprefix("c.csv:") for line in told]


def stored(conn: Connection[Any]) -> dict[str, Any]:
    """Return the only charge, without what the database has added."""
    (row,) = rows(conn, "charge")
    added = {"bucket", "charge_id", "imported_at"}
    return {name: value for name, value in row.items() if name not in added}


def test_what_is_left_out_has_a_default(conn: Connection[Any], tmp_path: Path) -> None:
    report = load(conn, tmp_path, SETUP)

    assert report == Report(read=1, new=1, changed=0, unchanged=0)
    assert stored(conn) == {
        "key": "c-1",
        "description": "Setup",
        "quantity": 1,
        "unit_code": "C62",
        "unit_amount": 250,
        "per_quantity": 1,
        "discount_amount": 0,
        "tax_included": False,
        "tax_class": "standard",
        "service_on": "2026-01-10",
        "purchase_order": None,
        "contract_number": None,
        "cost_centre": None,
        "revenue_account": None,
    }
    assert findings(conn) == {}


def test_all_of_a_charge_is_kept(conn: Connection[Any], tmp_path: Path) -> None:
    importing.charges(conn, write_jsonl(tmp_path / "c.jsonl", [ALL]))

    kept = stored(conn)
    assert value(conn, "SELECT unit_amount FROM pgbill.charge") == Decimal("-0.00125")
    assert {name: str(kept[name]) for name in ALL if name in kept} == {
        **{name: str(each) for name, each in ALL.items() if name != "account"},
        "tax_included": "True",
        "unit_amount": str(kept["unit_amount"]),
    }


def test_a_file_imported_again_changes_nothing(
    conn: Connection[Any], tmp_path: Path
) -> None:
    load(conn, tmp_path, ALL, SETUP | {"account": "a-2"})
    before = rows(conn, "charge")

    report = load(conn, tmp_path, ALL, ALL | {"quantity": "1200.0"}, ALL)

    assert report == Report(read=3, new=0, changed=0, unchanged=3)
    assert rows(conn, "charge") == before


@pytest.mark.parametrize(
    ("changes", "other"),
    [
        ({"description": "Set-up"}, "description"),
        ({"unit_amount": "251"}, "unit_amount"),
        ({"service_on": "2026-01-11", "tax_class": "food"}, "service_on, tax_class"),
        ({"purchase_order": "PO-2"}, "purchase_order"),
    ],
)
def test_a_key_with_other_data_is_refused(
    conn: Connection[Any], tmp_path: Path, changes: Row, other: str
) -> None:
    assert refused(conn, tmp_path, SETUP, SETUP | changes) == [
        f"3: key: c-1 stands in line 2 already, with another {other}"
    ]
    load(conn, tmp_path, SETUP)
    assert refused(conn, tmp_path, SETUP | changes) == [
        f"2: key: c-1 was imported before with another {other}"
    ]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"account": "a-9"}, "account: there is no account a-9"),
        ({"unit_amount": ""}, "unit_amount: the value is missing"),
        ({"unit_amount": "ten"}, "unit_amount: 'ten' is not a number such as 12.5"),
        ({"quantity": "0"}, "quantity: 0 is not above zero"),
        ({"quantity": "-1"}, "quantity: '-1' is negative"),
        ({"per_quantity": "0.0"}, "per_quantity: 0.0 is not above zero"),
        (
            {"unit_code": "piece"},
            "unit_code: 'piece' is not a UN/ECE unit code such as C62",
        ),
        (
            {"discount_amount": "0.005"},
            "discount_amount: 0.005 has more decimals than EUR, which has 2",
        ),
        (
            {"discount_amount": "0.5", "account": "a-2"},
            "discount_amount: 0.5 has more decimals than JPY, which has 0",
        ),
        ({"tax_class": ""}, "tax_class: the value is missing"),
        ({"tax_included": "yes"}, "tax_included: 'yes' is neither true nor false"),
        (
            {"service_on": "10.01.2026"},
            "service_on: '10.01.2026' is not a date such as 2026-10-01",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    conn: Connection[Any], tmp_path: Path, changes: Row, told: str
) -> None:
    bad = SETUP | {"key": "bad"} | changes

    assert refused(conn, tmp_path, SETUP, bad) == [f"3: {told}"]


def test_an_account_that_is_being_invoiced_may_be_charged(
    conn: Connection[Any], tmp_path: Path
) -> None:
    shop = Shop.open(conn)
    account = shop.account(conn)
    Actor(conn).claim_one(account)

    assert load(conn, tmp_path, SETUP | {"account": account.key}).new == 1


def test_a_charge_never_changes(conn: Connection[Any], tmp_path: Path) -> None:
    load(conn, tmp_path, SETUP)

    with pytest.raises(Exception, match="charge is insert-only: UPDATE is refused"):
        run_sql(conn, "UPDATE pgbill.charge SET unit_amount = 1")


def test_imports_queue(dsn: str, tmp_path: Path) -> None:
    one = write_csv(tmp_path / "one.csv", [SETUP])
    two = write_csv(tmp_path / "two.csv", [SETUP, SETUP | {"key": "c-2"}])
    with (
        contextlib.closing(connect(dsn, roles.OWNER)) as first,
        contextlib.closing(connect(dsn, roles.OWNER)) as second,
        contextlib.closing(connect(dsn, roles.OWNER)) as observer,
        Threads() as threads,
    ):
        open_shop(observer)
        with first.transaction():
            assert importing.charges(first, one).new == 1
            waiting = threads.start(importing.charges, second, two)
            wait_until_blocked(observer, second)

        report = wait_for(waiting)
        assert (report.new, report.unchanged) == (1, 1)


_UNKNOWN = (
    "c.csv:3: tax_class: no tax rate and no price knows stanard (2 charges); it cannot"
    " be billed until a rate does"
)


def test_a_tax_class_that_nothing_knows_is_told(
    conn: Connection[Any], tmp_path: Path
) -> None:
    """The charge is taken: a rate may still come. One of a price is no slip."""
    builders.tax_rate(conn)
    builders.price(conn, builders.seller(conn), tax_class="reduced")
    typed = {"tax_class": "stanard"}

    report = load(
        conn,
        tmp_path,
        SETUP,
        {**SETUP, **typed, "key": "c-2"},
        {**SETUP, **typed, "key": "c-3"},
        {**SETUP, "tax_class": "reduced", "key": "c-4"},
    )

    assert report.new == 4
    assert [Path(each).name for each in report.remarks] == [_UNKNOWN]


def test_without_tax_rates_no_class_is_unknown(
    conn: Connection[Any], tmp_path: Path
) -> None:
    assert load(conn, tmp_path, SETUP).remarks == ()


@pytest.mark.parametrize(
    ("settings", "told"), [({}, True), ({"PGBILL_TAX_URL": "http://tax.test"}, False)]
)
def test_a_tax_service_may_know_more_classes(
    dsn: str, tmp_path: Path, settings: dict[str, str], told: bool
) -> None:
    with contextlib.closing(connect(dsn, roles.OWNER)) as conn:
        open_shop(conn)
        builders.tax_rate(conn)
    file = write_csv(tmp_path / "c.csv", [{**SETUP, "tax_class": "stanard"}])

    done = CliRunner().invoke(
        app, ["import", "charges", file], env={"PGBILL_DSN": dsn, **settings}
    )

    assert done.exit_code == 0
    assert ("knows stanard (1 charge)" in done.stderr) == told
