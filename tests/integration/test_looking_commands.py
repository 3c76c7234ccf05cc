"""The commands that only look: audit, explain, status, invoice, alert.

They read as pgbill_reader, print JSON for programs, and tell by their exit code whether
there is something to look at.
"""

import contextlib
import json
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from pgbill import db, document, invoice, rendering, roles
from pgbill.cli import app
from tests import actors, builders, world
from tests.documents import plain
from tests.shop import FEBRUARY, FIRST_DAY, Shop, run_sql, values

pytestmark = pytest.mark.one_server


@pytest.fixture
def busy_dsn(dsn: str) -> str:
    """Return a database with the world in it, committed."""
    with contextlib.closing(
        db.connect(dsn, role=roles.OWNER, application="test", autocommit=False)
    ) as conn:
        world.build(conn)
        conn.commit()
    return dsn


def run(dsn: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, env={"PGBILL_DSN": dsn})


def run_json(dsn: str, *arguments: str) -> Any:  # noqa: ANN401
    result = run(dsn, *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def execute(dsn: str, statement: str, *tables: str) -> None:
    with contextlib.closing(
        db.connect(dsn, role=roles.OWNER, application="test", autocommit=False)
    ) as conn:
        with world.lawless(conn, *tables):
            run_sql(conn, statement)
        conn.commit()


def test_an_audit_without_findings_exits_0(busy_dsn: str) -> None:
    result = run(busy_dsn, "audit")

    assert result.exit_code == 0
    assert "p1_period_invoiced_twice: no finding\n" in result.stdout
    assert "pgbill: 0 findings in " in result.stderr


def test_an_audit_with_findings_exits_1_and_shows_them(busy_dsn: str) -> None:
    execute(
        busy_dsn,
        "DELETE FROM pgbill.invoice_line WHERE kind = 'late_usage'",
        "invoice_line",
    )

    result = run(busy_dsn, "audit", "p6_usage_not_billed", "--limit", "1")

    assert result.exit_code == 1
    assert "p6_usage_not_billed: 1 finding\n" in result.stdout
    assert "it is lost money" in result.stdout
    assert "busy" in result.stdout


def test_findings_are_counted_beyond_the_limit(busy_dsn: str) -> None:
    execute(busy_dsn, "DELETE FROM pgbill.invoice_tax", "invoice_tax")

    result = run(busy_dsn, "audit", "lines_differ_from_total", "--limit", "2", "--json")

    assert result.exit_code == 1
    (audit,) = json.loads(result.stdout)
    assert audit["finding_count"] > 2
    assert len(audit["findings"]) == 2
    assert next(iter(audit["findings"][0])) == "account"
    assert isinstance(audit["findings"][0]["net_amount"], str)


def test_an_unknown_audit_names_the_known_ones(busy_dsn: str) -> None:
    result = run(busy_dsn, "audit", "p9_weather")

    assert result.exit_code == 2
    assert "there is no audit p9_weather. Known are: charge_billed" in result.stderr


def test_explain_reads_like_a_story(busy_dsn: str) -> None:
    result = run(busy_dsn, "explain", "busy")

    assert result.exit_code == 0
    first, *told, last = result.stdout.splitlines()
    assert first == "busy, Example busy GmbH (Europe/Berlin)"
    assert "worker:1 claimed the period that ends on 2026-01-01, for run 1" in told[0]
    assert last == "Now: nobody works on it; its next period ends on 2026-04-01."


def test_explain_gives_facts_to_programs(busy_dsn: str) -> None:
    told = run_json(busy_dsn, "explain", "busy", "2026-02")

    assert told["account"] == "busy"
    (closed,) = [entry for entry in told["entries"] if entry["kind"] == "closed"]
    assert closed["facts"]["outcome"] == "invoiced"
    assert closed["facts"]["currency"] == "EUR"


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", "nobody"),
        ("explain", "busy", "2031-01"),
        ("invoice", "show", "NL-999999"),
        ("invoice", "list", "--account", "nobody"),
        ("preview", "nobody"),
        ("alert", "ack", "999999"),
        ("alert", "ack"),
        ("alert", "ack", "1", "--all"),
    ],
)
def test_what_does_not_exist_is_one_sentence(
    busy_dsn: str, arguments: tuple[str, ...]
) -> None:
    result = run(busy_dsn, *arguments)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1


def test_status_counts(busy_dsn: str) -> None:
    status = run_json(busy_dsn, "status")

    assert status["leases"]["account_count"] == 4
    assert status["leases"]["due_count"] == 4
    assert status["outbox"] == {
        "held": 0,
        "pending": 6,
        "claimed": 0,
        "deferred": 1,
        "uncertain": 1,
        "accepted": 3,
        "failed": 1,
    }
    assert [each["attempt_no"] for each in status["uncertain"]] == [1]
    assert [each["kind"] for each in status["alerts"]] == ["lease_expired"]
    assert "Due: 4, held: 0" in run(busy_dsn, "status").stdout


def test_invoices_are_listed_newest_first(busy_dsn: str) -> None:
    listed = run_json(busy_dsn, "invoice", "list", "--account", "reissued")

    assert [(each["kind"], each["state"]) for each in listed] == [
        ("credit_note", "issued"),
        ("invoice", "issued"),
        ("invoice", "issued"),
        ("invoice", "cancelled"),
        ("invoice", "issued"),
    ]
    assert len(run_json(busy_dsn, "invoice", "list", "--run", "1")) == 6
    assert len(run_json(busy_dsn, "invoice", "list", "--limit", "2")) == 2


def test_an_invoice_is_shown_whole(busy_dsn: str) -> None:
    shown = run_json(busy_dsn, "invoice", "show", "NL-000001")
    result = run(busy_dsn, "invoice", "show", "NL-000001")

    assert shown["header"]["gross_amount"] == "59.38"
    assert [line["net_amount"] for line in shown["lines"]] == ["49.90"]
    assert [tax["tax_amount"] for tax in shown["taxes"]] == ["9.48"]
    assert [each["state"] for each in shown["deliveries"]] == ["accepted", "accepted"]
    assert result.exit_code == 0
    assert "Example busy GmbH (busy)" in result.stdout
    assert " part " not in result.stdout


def test_a_line_says_what_it_is_reckoned_from(dsn: str) -> None:
    """As the mail does: for how many units, and what it is the sum of."""
    with contextlib.closing(
        db.connect(dsn, role=roles.OWNER, application="test")
    ) as conn:
        shop = Shop.open(conn)
        account = builders.account(conn, shop.seller_id)
        tiered = builders.price(
            conn,
            shop.seller_id,
            model="graduated",
            tiers=[("2", "1"), (None, "0.000000000000000001", "5")],
        )
        builders.subscription(conn, account, (tiered, "3"))
        builders.charge(
            conn,
            account,
            unit_amount=Decimal("0.80"),
            quantity=Decimal("2500.00"),
            per_quantity=Decimal(1000),
            service_on=date(2025, 12, 10),
        )
    command = (account.key, "--json")
    foretold = CliRunner().invoke(
        app,
        ["preview", *command],
        env={"PGBILL_DSN": dsn, "PGBILL_MAX_DUE_PERIODS": "100"},
    )
    with contextlib.closing(
        db.connect(dsn, role=roles.OWNER, application="test")
    ) as conn:
        assert actors.bill_all(conn, account, through_on=FIRST_DAY) == ["invoiced"]

    shown = run_json(dsn, "invoice", "show", "NL-000001")
    text = run(dsn, "invoice", "show", "NL-000001").stdout

    fee, charge = shown["lines"]
    assert plain(fee["sum"]) == "2 * 1.00 + 5.00 + 1 * 0.000000000000000001"
    assert [each["amount"] for each in fee["terms"]] == ["1", "5", f"0.{'1':0>18}"]
    assert (charge["unit_amount"], charge["per_quantity"]) == ("0.80", "1000")
    assert (charge["quantity"], charge["sum"], charge["terms"]) == ("2500", None, [])
    assert shown["header"]["prepaid_amount"] == "0.00"
    assert f"line 1: {fee['sum']}" in text.splitlines()
    assert "per" in text.split()
    assert "E-" not in text
    kept = {"line_no", "kind", "sum", "terms", "per_quantity", "unit_amount"}
    assert [
        {name: each[name] for name in kept}
        for each in json.loads(foretold.stdout)["lines"]
    ] == [{name: each[name] for name in kept} for each in shown["lines"]]


def test_a_prorated_line_shows_its_part(dsn: str) -> None:
    """To a person, to a program, and in the mail: 96.77 is not 3 times 100."""
    with contextlib.closing(
        db.connect(dsn, role=roles.OWNER, application="test")
    ) as conn:
        shop = Shop.open(conn)
        account = shop.account(conn)
        hosting = builders.price(conn, shop.seller_id, amount="100", timing="arrears")
        builders.subscription(
            conn, account, (hosting, "3"), starts_on=date(2026, 1, 22)
        )
        assert actors.bill_all(conn, account, through_on=FEBRUARY) == ["invoiced"] * 2
        (number,) = values(
            conn,
            "SELECT number_text FROM pgbill.invoice_overview WHERE period_end = %s",
            FEBRUARY,
        )
        header = invoice.get(conn, number).header
        issued = document.load(
            conn,
            bucket=header.bucket,
            account_id=header.account_id,
            invoice_id=header.invoice_id,
        )

    shown = run_json(dsn, "invoice", "show", number)
    heading, *lines = (
        run(dsn, "invoice", "show", number).stdout.split("\n\n")[1].splitlines()
    )

    assert {
        (each["net_amount"], each["part"], each["whole"]) for each in shown["lines"]
    } == {("96.77", "10", "31"), ("10.00", None, None)}
    assert "part" in heading.split()
    assert ["10/31" in each.split() for each in lines] == [
        "96.77" in each.split() for each in lines
    ]
    assert issued is not None
    text = rendering.render(issued)[0].replace("\N{NO-BREAK SPACE}", " ")
    assert "10/31 days = 96.77 EUR" in text


def test_an_alert_is_acknowledged_once(busy_dsn: str) -> None:
    (alert,) = run_json(busy_dsn, "alert", "list")
    number = alert["alert_id"]

    acked = run_json(busy_dsn, "alert", "ack", str(number))
    again = run_json(busy_dsn, "alert", "ack", str(number))

    assert acked == {"acknowledged": [number]}
    assert again == {"acknowledged": []}
    assert run_json(busy_dsn, "alert", "list") == []
    assert run_json(busy_dsn, "alert", "list", "--all")[0]["acked_by"]


def test_all_alerts_are_acknowledged_at_once(busy_dsn: str) -> None:
    run_json(busy_dsn, "alert", "ack", "--all")

    with contextlib.closing(db.connect(busy_dsn, application="test")) as conn:
        assert (
            values(conn, "SELECT alert_id FROM pgbill.alert WHERE acked_at IS NULL")
            == []
        )
