"""A dry run issues nothing, and its amounts are exactly those that the run then issues.

With several periods due, minimums, prepaid credit, negative totals, reviews, accounts
that fail and a tax service: whatever the run does, the dry run has done and undone.
"""

import contextlib
import csv
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection
from typer.testing import CliRunner, Result

from pgbill import db, roles
from pgbill.cli import app
from pgbill.taxserver import TaxServer
from tests import builders
from tests.actors import Actor
from tests.builders import Account
from tests.shop import Shop, findings, lease_row, run_sql, value, values

pytestmark = pytest.mark.one_server

OF_JANUARY = "2025-12-31"
OF_FEBRUARY = "2026-01-31"
OF_MARCH = "2026-02-28"

# What a dry run must leave as it is: all but what sequences have drawn.
_TABLES = (
    "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = 'pgbill'"
    " ORDER BY tablename"
)


@pytest.fixture
def owner(dsn: str) -> Iterator[Connection[Any]]:
    """Return a connection as the owner of the schema; each statement commits."""
    with contextlib.closing(
        db.connect(dsn, role=roles.OWNER, application="test")
    ) as conn:
        yield conn


@pytest.fixture
def shop(owner: Connection[Any]) -> Shop:
    return Shop.open(owner)


def call(dsn: str, *arguments: str, **settings: str) -> Result:
    named = {f"PGBILL_{name.upper()}": it for name, it in settings.items()}
    environment = {"PGBILL_DSN": dsn, "PGBILL_WORKERS": "1", **named}
    return CliRunner().invoke(app, arguments, env=environment)


def rehearse(dsn: str, through: str, *more: str, **settings: str) -> dict[str, Any]:
    result = call(
        dsn, "run", "--through", through, "--dry-run", "--json", *more, **settings
    )
    assert result.exit_code in {0, 1}, result.output
    told: dict[str, Any] = json.loads(result.stdout)
    return told


def run(dsn: str, through: str, **settings: str) -> dict[str, Any]:
    result = call(dsn, "run", "--through", through, "--json", **settings)
    assert result.exit_code in {0, 1}, result.output
    told: dict[str, Any] = json.loads(result.stdout)
    return told


def content(conn: Connection[Any]) -> dict[str, object]:
    """Return what stands in each table, as a sum."""
    return {
        table: value(
            conn,
            "SELECT array[count(*), sum(hashtextextended(it::text, 0))]"  # noqa: S608
            f" FROM pgbill.{table} AS it",
        )
        for table in values(conn, _TABLES)
    }


def planned(file: Path) -> list[tuple[str, ...]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return sorted(
            tuple(
                each[name] for name in ("account", "period_end", "net", "tax", "gross")
            )
            for each in csv.DictReader(lines)
            if each["outcome"] == "invoiced"
        )


def issued(conn: Connection[Any], run_id: int) -> list[tuple[str, ...]]:
    found = conn.execute(
        "SELECT key, period_end::text, net_amount::text, tax_amount::text,"
        " gross_amount::text FROM pgbill.invoice INNER JOIN pgbill.account"
        " USING (bucket, account_id) WHERE run_id = %s",
        [run_id],
    ).fetchall()
    return sorted(tuple(each) for each in found)


def company(conn: Connection[Any], shop: Shop) -> dict[str, Account]:
    """Add accounts of every kind: their next runs differ in what becomes of them."""
    plain, credited = shop.account(conn, key="PLAIN"), shop.account(conn, key="PREPAID")
    shop.use(conn, plain, "3", "0.5", occurred_at=datetime(2026, 1, 10, tzinfo=UTC))
    shop.use(conn, plain, "7", occurred_at=datetime(2026, 2, 10, tzinfo=UTC))
    builders.insert(
        conn,
        "prepaid_credit",
        "prepaid_credit_id",
        bucket=credited.bucket,
        account_id=credited.account_id,
        key="pack",
        description="Credit pack",
        amount=Decimal(15),
        available_on=date(2026, 1, 1),
    )
    later = builders.account(
        conn, shop.seller_id, key="LATER", first_period_on=date(2026, 1, 20)
    )
    builders.subscription(conn, later, (shop.fee, "3"), starts_on=date(2026, 1, 25))
    negative = shop.account(conn, key="NEGATIVE")
    for day, amount in ((date(2026, 1, 5), "-30"), (date(2026, 2, 5), "3.33")):
        builders.insert(
            conn,
            "charge",
            "charge_id",
            bucket=negative.bucket,
            account_id=negative.account_id,
            key=f"charge of {day}",
            description="Goodwill",
            unit_amount=Decimal(amount),
            tax_class="standard",
            service_on=day,
        )
    return {
        "plain": plain,
        "credited": credited,
        "later": later,
        "negative": negative,
        "idle": builders.account(conn, shop.seller_id, key="IDLE"),
        "foreign": shop.account(conn, key="FOREIGN", country="FR"),
    }


@pytest.mark.parametrize("through", [OF_JANUARY, OF_FEBRUARY, OF_MARCH])
def test_its_amounts_are_those_that_the_run_issues(
    dsn: str, owner: Connection[Any], shop: Shop, tmp_path: Path, through: str
) -> None:
    """With one, two and three periods due at once."""
    company(owner, shop)
    file = tmp_path / "plan.csv"
    before = content(owner)

    forecast = rehearse(dsn, through, "--csv", str(file))

    assert content(owner) == before
    told = run(dsn, through)
    assert planned(file) == issued(owner, 1)
    for name in ("invoiced", "nothing_to_bill", "carried_forward", "failed", "parked"):
        assert forecast[name] == told[name], name
    assert [
        {name: each[name] for name in ("currency", "invoices", "net", "tax", "gross")}
        for each in forecast["totals"]
    ] == told["totals"]
    assert findings(owner) == {}


def test_month_after_month(
    dsn: str, owner: Connection[Any], shop: Shop, tmp_path: Path
) -> None:
    """What was carried forward, and credit that was used, count in the next."""
    company(owner, shop)

    for number, through in enumerate((OF_JANUARY, OF_FEBRUARY, OF_MARCH), start=1):
        file = tmp_path / f"{through}.csv"
        rehearse(dsn, through, "--csv", str(file))
        run(dsn, through)

        assert planned(file) == issued(owner, number)


def test_numbers_and_runs_have_no_gap_after_it(
    dsn: str, owner: Connection[Any], shop: Shop
) -> None:
    shop.account(owner)
    rehearse(dsn, OF_JANUARY)

    told = run(dsn, OF_JANUARY)

    assert told["run_id"] == 1
    assert values(owner, "SELECT number FROM pgbill.invoice_number") == [1]


def test_what_differs_from_the_period_before_is_told(
    dsn: str, owner: Connection[Any], shop: Shop
) -> None:
    """Fees of 10 a month: one more account, one less, one that doubles, one alike."""
    _same, gone, doubled = (shop.account(owner, key=key) for key in ("A", "B", "C"))
    run(dsn, OF_JANUARY)
    run_sql(
        owner,
        "UPDATE pgbill.subscription_price SET active_period ="
        " daterange('2026-01-01', '2026-02-01') WHERE account_id = %s",
        gone.account_id,
    )
    builders.subscription(owner, doubled, shop.fee, starts_on=date(2026, 2, 1))
    shop.account(owner, key="D", first_period_on=date(2026, 2, 1))

    told = rehearse(dsn, OF_FEBRUARY)

    assert (told["new"], told["missing"], told["moved"]) == (1, 1, 1)
    assert [
        tuple(each[name] for name in ("account", "difference", "gross", "change"))
        for each in told["changes"]
    ] == [
        ("B", "missing", None, "-11.90"),
        ("C", "moved", "23.80", "11.90"),
        ("D", "new", "11.90", "11.90"),
    ]
    (total,) = told["totals"]
    assert (total["previous_invoices"], total["previous_gross"]) == (3, "35.70")
    assert (total["invoices"], total["gross"], total["change"]) == (
        3,
        "47.60",
        "11.90",
    )


def test_what_the_run_issues_itself_is_no_before(
    dsn: str, owner: Connection[Any], shop: Shop
) -> None:
    """Two periods of two accounts are due; one of them had an invoice before."""
    shop.account(owner, key="OLD")
    run(dsn, OF_JANUARY)
    shop.account(owner, key="NEW", first_period_on=date(2026, 2, 1))

    told = rehearse(dsn, OF_MARCH)

    (total,) = told["totals"]
    assert (total["previous_invoices"], total["previous_gross"]) == (1, "11.90")
    assert total["change"] == str(Decimal(total["gross"]) - Decimal("11.90"))
    assert (told["missing"], told["moved"]) == (0, 0)
    assert {each["account"] for each in told["changes"]} == {"NEW"}


def test_what_is_held_is_not_missing(
    dsn: str, owner: Connection[Any], shop: Shop
) -> None:
    shop.account(owner)
    run(dsn, OF_JANUARY)

    told = rehearse(dsn, OF_FEBRUARY, review_above="EUR 5")

    (total,) = told["totals"]
    assert (told["held"], told["missing"]) == (1, 0)
    assert (total["invoices"], total["held"], total["held_gross"]) == (0, 1, "11.90")
    assert (total["previous_gross"], total["change"]) == ("11.90", "0.00")


def test_the_threshold_is_an_option(
    dsn: str, owner: Connection[Any], shop: Shop
) -> None:
    """From 10 to 11 is 10 %."""
    account = shop.account(owner)
    run(dsn, OF_JANUARY)
    builders.subscription(
        owner,
        account,
        builders.price(owner, shop.seller_id, amount="1"),
        starts_on=date(2026, 2, 1),
    )

    moved = [
        rehearse(dsn, OF_FEBRUARY, "--moved-by", percent)["moved"]
        for percent in ("9.9", "10", "20")
    ]

    assert moved == [1, 0, 0]


def test_errors_that_would_occur_are_told(
    dsn: str, owner: Connection[Any], shop: Shop
) -> None:
    shop.account(owner, key="F-1", country="FR")
    shop.account(owner, key="P-1", first_period_on=date(2025, 1, 1))
    shop.account(owner)

    result = call(dsn, "run", "--through", OF_JANUARY, "--dry-run")
    told = rehearse(dsn, OF_JANUARY)

    assert result.exit_code == 1
    assert "account F-1 failed: no tax rate" in result.stderr
    assert "nothing was issued" in result.stderr
    assert (told["failed"], told["parked"], told["invoiced"]) == (1, 1, 1)
    assert {each["account"]: each["outcome"] for each in told["errors"]} == {
        "F-1": "failed",
        "P-1": "parked",
    }
    assert values(owner, "SELECT count(*) FROM pgbill.alert") == [0]


def test_what_the_database_refuses_fails_alone(
    dsn: str, owner: Connection[Any], shop: Shop
) -> None:
    """In a batch with others, which come to their amounts all the same."""
    for _ in range(3):
        shop.account(owner)
    noise = value(
        owner, "SELECT string_agg(md5(n::text), '') FROM generate_series(1, 400) AS n"
    )
    shop.account(owner, recipients={"invoice": [f"{noise}@example.com"]})

    told = rehearse(dsn, OF_JANUARY)

    assert (told["invoiced"], told["failed"]) == (3, 1)
    (error,) = told["errors"]
    assert "index row" in error["reason"]


def test_drafts_that_would_be_held_are_counted(
    dsn: str, owner: Connection[Any], shop: Shop
) -> None:
    shop.account(owner, key="A-1")
    settings = {"review_first_invoice": "true"}

    told = rehearse(dsn, OF_JANUARY, **settings)
    run(dsn, OF_JANUARY, **settings)
    waits = rehearse(dsn, OF_JANUARY, **settings)

    assert (told["held"], told["invoiced"]) == (1, 0)
    assert (waits["held"], waits["in_review"]) == (0, 1)


def test_what_is_being_invoiced_is_left_out_and_counted(
    dsn: str, owner: Connection[Any], shop: Shop
) -> None:
    busy = shop.account(owner)
    shop.account(owner)
    Actor(owner, "busy").claim_one(busy)

    told = rehearse(dsn, OF_JANUARY)

    assert (told["invoiced"], told["in_progress"]) == (1, 1)
    assert lease_row(owner, busy)["holder"] == "busy"


def test_the_tax_service_is_asked_under_lease_and_not_again(
    dsn: str, owner: Connection[Any], shop: Shop, tmp_path: Path
) -> None:
    """For two periods at once; the run uses the answers."""
    for _ in range(5):
        shop.account(owner)
    file = tmp_path / "plan.csv"
    with TaxServer() as server:
        settings = {"tax_url": server.url}

        told = rehearse(dsn, OF_FEBRUARY, "--csv", str(file), **settings)
        asked = len(server.questions)
        run(dsn, OF_FEBRUARY, **settings)

        assert (told["invoiced"], asked) == (10, 10)
        assert len(server.questions) == asked
    assert planned(file) == issued(owner, 1)
    assert value(owner, "SELECT max(attempts) FROM pgbill.lease") == 0
    assert value(owner, "SELECT count(*) FROM pgbill.lease_event WHERE run_id = 0") > 0
    assert findings(owner) == {}


def test_an_account_without_a_tax_answer_is_an_error_of_its_own(
    dsn: str, owner: Connection[Any], shop: Shop
) -> None:
    shop.account(owner)
    shop.account(owner, country="FR")
    with TaxServer() as server:
        usual = server.answer

        def answer(question: dict[str, Any]) -> Any:  # noqa: ANN401
            if question["buyer"]["country"] == "FR":
                return 422, {"error": "no such place"}
            return usual(question)

        server.answer = answer

        told = rehearse(dsn, OF_JANUARY, tax_url=server.url)

    assert (told["invoiced"], told["failed"]) == (1, 1)
    assert "422" in told["errors"][0]["reason"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--csv", "x.csv"), "--csv goes with --dry-run."),
        (("--moved-by", "5"), "--moved-by goes with --dry-run."),
        (("--dry-run", "--moved-by", "much"), "'much' is not a percentage"),
        (("--dry-run", "--moved-by", "-1"), "'-1' is not a percentage"),
        (("--dry-run", "--moved-by", "NaN"), "'NaN' is not a percentage"),
        (("--dry-run", "--account", "A-9"), "there is no account A-9."),
        (("--dry-run", "--csv", "absent/x.csv"), "cannot write absent/x.csv: No such"),
    ],
)
def test_what_is_wrong_is_refused(
    dsn: str, arguments: tuple[str, ...], sentence: str
) -> None:
    result = call(dsn, "run", "--through", OF_JANUARY, *arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in " ".join(result.stderr.replace("│", " ").split())
