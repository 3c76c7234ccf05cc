"""`pgbill demo` goes the whole way, says what it does, and can be seen again."""

import email
import re
from collections import Counter
from collections.abc import Iterator
from email import policy
from pathlib import Path

import pytest
from psycopg import sql

from pgbill import demo
from tests.acceptance.commands import Pgbill
from tests.servers import DatabaseServer

# Seen again with fewer customers, to save a minute.
_SMALL = """
from pgbill import company
make = company.make

def make_small(folder):
    make(folder)
    for name in ("accounts", "subscriptions", "usage"):
        file = folder / f"{name}.csv"
        header, *lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        few = [line for line in lines if "C0000" in line]
        file.write_text(header + "".join(few), encoding="utf-8")

company.make = make_small
"""


@pytest.fixture
def pgbill(server: DatabaseServer, tmp_path: Path) -> Iterator[Pgbill]:
    """Return a pgbill on a server where the demo may make its database."""
    yield Pgbill(server.admin_dsn, tmp_path)
    drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
    with server.connect() as admin:
        admin.execute(drop.format(sql.Identifier(demo.DATABASE)))


def test_the_demo(pgbill: Pgbill, tmp_path: Path) -> None:
    """From the files to the mails; the incident is another test's."""
    command = ("demo", "--no-incident", "--folder", "folder")

    done = pgbill(*command, seconds=600)
    again = pgbill.with_prelude(_SMALL)(*command, "--json")

    assert done.exit_code == 0, done.stderr
    for step in ("migrate", "catalog apply", "import usage", "run", "relay", "audit"):
        assert f"$ pgbill {step}" in done.stderr
    told = _rows(done.stdout)
    assert told["accounts"] == "2,000"
    assert told["usage records"] == "100,000"
    assert int(told["invoices"].split()[0].replace(",", "")) > 2_000
    assert re.search(r"in EUR: [\d,]+\.\d\d gross", done.stdout)
    assert told["mails"].endswith(f" in {tmp_path}/folder/mails")
    assert told["audit findings"] == "0"
    assert int(told["seconds"]) > 0

    assert again.exit_code == 0, again.stderr
    report = again.json
    assert report["findings"] == 0
    assert 0 < report["billed"]["accounts"] < 20
    # A mail for each invoice and recipient, and none of the first time is left.
    mails = _mails(tmp_path / "folder" / "mails")
    assert sum(mails.values()) == report["mails"]
    assert len({number for number, _ in mails}) == report["billed"]["invoices"]
    assert set(mails.values()) == {1}


def _rows(text: str) -> dict[str, str]:
    rows = [line.split("  ", 1) for line in text.splitlines() if "  " in line]
    return {name.strip(): value.strip() for name, value in rows}


def _mails(folder: Path) -> Counter[tuple[str, str]]:
    """Count the mails by invoice and recipient."""
    read = [
        email.message_from_bytes(file.read_bytes(), policy=policy.SMTP)
        for file in folder.glob("*.eml")
    ]
    return Counter((str(it["X-Pgbill-Invoice"]), str(it["To"])) for it in read)
