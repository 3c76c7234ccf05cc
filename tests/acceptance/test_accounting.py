"""What finance does in a month, by the commands that they type."""

import csv
import io
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from tests.acceptance.commands import Pgbill, assert_clean, do, many_accounts
from tests.actors import connect
from tests.builders import Account
from tests.shop import value

_DATEV = {
    "ledger_receivable_account": "1400",
    "ledger_revenue_account": "8400",
    "datev_consultant": "29098",
    "datev_client": "55003",
    "datev_tax_keys": "S19=3",
}


@pytest.fixture
def office(dsn: str, tmp_path: Path) -> tuple[Pgbill, list[Account]]:
    """Return a shell, and three accounts that were billed 11.90 each on 31 January."""
    with connect(dsn) as conn:
        accounts = many_accounts(conn, 3)
    pgbill = Pgbill(dsn, tmp_path)
    do(pgbill, "run", "--through", "2026-01-01", "--issue-on", "2026-01-31")
    return pgbill, accounts


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_month_is_paid_exported_and_closed(
    office: tuple[Pgbill, list[Account]], dsn: str
) -> None:
    pgbill, _ = office
    listed = do(pgbill, "invoice", "list", "--json").json
    (second,) = [it["account"] for it in listed if it["number"] == "NL-000002"]
    bank = (
        "key,reference,amount,paid_on\n"
        "b-1,NL-000001,11.90,2026-02-03\n"
        f"b-2,{second},5,2026-02-03\n"
        "b-3,who knows,1,2026-02-03\n"
    )
    (pgbill.folder / "bank.csv").write_text(bank, encoding="utf-8")

    refused = pgbill("import", "payments", "bank.csv")
    taken = do(pgbill, "import", "payments", "bank.csv", "--allow-unmatched", "--json")
    again = do(pgbill, "import", "payments", "bank.csv", "--allow-unmatched", "--json")
    open_items = do(pgbill, "export", "receivables", "--as-of", "2026-02-28").stdout
    accruals = do(pgbill, "report", "unbilled", "--as-of", "2026-01-31", "--json")
    warned = do(pgbill, "close", "2026-01", "--dry-run")
    journal = do(pgbill, "export", "journal", "--through", "2026-01-31")
    nothing = do(pgbill, "export", "journal", "--through", "2026-01-31")
    closed = do(pgbill, "close", "2026-01")

    assert refused.exit_code == 2
    assert "bank.csv:4: reference: who knows is no account" in refused.stderr
    assert taken.json == {
        "read": 3,
        "new": 2,
        "changed": 0,
        "unchanged": 0,
        "unmatched": 1,
    }
    assert (again.json["new"], again.json["unchanged"]) == (0, 2)
    left = [(each["account"], each["open_amount"]) for each in _rows(open_items)]
    assert sorted(amount for _, amount in left) == ["11.90", "6.90"]
    assert accruals.json["problems"] == []
    assert "3 documents up to its end are in no export yet" in warned.stderr
    assert len(_rows(journal.stdout)) == 9
    assert (nothing.stdout, "is left to export" in nothing.stderr) == ("", True)
    assert "2026-01 is closed, with 3 documents." in closed.stderr
    assert "no export" not in closed.stderr
    assert do(pgbill, "export", "journal", "--export", "1").stdout == journal.stdout
    late = pgbill("run", "--through", "2026-01-31", "--issue-on", "2026-01-31")
    assert (late.exit_code, late.stdout) == (2, "")
    assert late.stderr.startswith("pgbill: --issue-on 2026-01-31 lies in a closed")
    assert len(late.stderr.splitlines()) == 1
    with connect(dsn) as conn:
        assert _run_count(conn) == 1
    assert_clean(pgbill)


def _run_count(conn: Connection[Any]) -> int:
    return int(value(conn, "SELECT count(*) FROM pgbill.billing_run"))


def test_the_ledger_gets_its_format(office: tuple[Pgbill, list[Account]]) -> None:
    pgbill, _ = office
    through = ("export", "journal", "--through", "2026-01-31", "--format")

    without = pgbill(*through, "datev")
    shell = "sh", "-c", 'exec "$@" > out.csv', "sh", *pgbill.program
    into_file = replace(pgbill.with_settings(**_DATEV), program=shell)
    do(into_file, *through, "datev")
    datev = (pgbill.folder / "out.csv").read_bytes()
    saft = do(pgbill, "export", "journal", "--export", "1", "--format", "saft")

    assert (without.exit_code, without.stdout) == (78, "")
    assert "DATEV needs the numbers of the consultant" in without.stderr
    assert datev.startswith(b'"EXTF";700;21;"Buchungsstapel";13;')
    assert datev.count(b"\r\n") == 5
    assert saft.stdout.count("<InvoiceNo>") == 3
    do(into_file, "export", "journal", "--export", "1")
    assert (pgbill.folder / "out.csv").read_bytes() == datev
    (listed,) = do(pgbill, "export", "list", "--json").json
    assert (listed["document_count"], listed["formats"]) == (3, "datev, saft")
    assert_clean(pgbill)


def test_the_numbers_are_proved(office: tuple[Pgbill, list[Account]], dsn: str) -> None:
    pgbill, _ = office
    good = do(pgbill, "audit", "numbers", "--json")

    with connect(dsn) as conn:
        conn.execute("ALTER TABLE pgbill.invoice_number DISABLE TRIGGER USER")
        conn.execute("DELETE FROM pgbill.invoice_number WHERE number = 2")
        conn.execute("ALTER TABLE pgbill.invoice_number ENABLE TRIGGER USER")
    bad = pgbill("audit", "numbers")

    (series, *_) = good.json
    assert (series["lowest"], series["highest"], series["document_count"]) == (1, 3, 3)
    assert series["last_on"] == str(date(2026, 1, 31))
    assert bad.exit_code == 1
    assert "1 missing" in bad.stdout
    assert "1 finding in 4 series." in bad.stderr
