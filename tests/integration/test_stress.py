"""Eight workers, short leases, sleepers, importers and meddlers, all at once.

Leases live 300 ms. A quarter of the workers falls asleep past that, between the claim
and the statement that bills, again and again. Meanwhile two importers bring usage, much
of it late, and somebody writes by hand with tokens that are not the newest. In the end
each period has one invoice, each record is billed once, and the audits find nothing.
"""

import json
import random
import subprocess
import sys
import threading
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Connection

from pgbill import db, roles
from pgbill.errors import RefusalError
from tests import by_hand, imports
from tests.actors import Threads, connect, wait_for
from tests.builders import Account
from tests.shifts import job, run_shift
from tests.shop import (
    FEBRUARY,
    FIRST_DAY,
    MARCH,
    Shop,
    findings,
    numbers,
    run_sql,
    value,
)

_ACCOUNTS = 300
_JANUARY, _FEBRUARY = date(2026, 1, 31), date(2026, 2, 28)
_FIRST_HOUR = datetime(2026, 1, 2, tzinfo=UTC)


def _import_usage(
    dsn: str,
    accounts: list[Account],
    meter_key: str,
    importer: str,
    stopped: threading.Event,
) -> int:
    """Import small files of January and February; return how many records."""
    dice = random.Random(importer)  # noqa: S311
    count = 0
    with connect(dsn, roles.OWNER) as conn:
        while not stopped.wait(0.05):
            records = [
                imports.record(
                    dice.choice(accounts),
                    meter_key,
                    f"{importer}-{count + number}",
                    _FIRST_HOUR + timedelta(hours=dice.randrange(57 * 24)),
                    "1",
                )
                for number in range(25)
            ]
            count += imports.usage(conn, *records)
    return count


def _meddle(dsn: str, accounts: list[Account], stopped: threading.Event) -> list[str]:
    """Write by hand with tokens that were the newest; return what was not refused."""
    dice = random.Random(0)  # noqa: S311
    written: list[str] = []
    with connect(dsn, roles.OWNER) as conn:
        while not stopped.wait(0.01):
            account = dice.choice(accounts)
            token = value(
                conn,
                "SELECT fencing_token - %s FROM pgbill.lease WHERE account_id = %s",
                dice.randrange(1, 50),
                account.account_id,
            )
            for table in ("billing_period", "invoice"):
                try:
                    with db.refusals():
                        _write(conn, table, account, token)
                except (RefusalError, psycopg.IntegrityError):
                    continue
                written.append(f"{table} of account {account.account_id}")
    return written


def _write(conn: Connection[Any], table: str, account: Account, token: int) -> None:
    if table == "invoice":
        by_hand.invoice(conn, account, token)
    else:
        by_hand.period(conn, account, token, FEBRUARY, MARCH)


def _run_sleepers(dsn: str) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.sleepers", dsn, _JANUARY.isoformat()],
        check=True,
        capture_output=True,
        cwd=Path(__file__).parents[2],
        text=True,
        timeout=120,
    )
    told: dict[str, int] = json.loads(done.stdout)
    return told


def test_each_period_has_one_invoice_and_each_record_is_billed_once(dsn: str) -> None:
    stopped = threading.Event()
    with connect(dsn, roles.OWNER) as owner, Threads() as threads:
        with owner.transaction():
            shop = Shop.open(owner)
            accounts = [shop.account(owner) for _ in range(_ACCOUNTS)]
        run_sql(owner, "ANALYZE")
        meter_key = value(owner, "SELECT key FROM pgbill.meter")
        importers = [
            threads.start(_import_usage, dsn, accounts, meter_key, name, stopped)
            for name in ("one", "two")
        ]
        meddler = threads.start(_meddle, dsn, accounts, stopped)

        try:
            told = _run_sleepers(dsn)
        finally:
            stopped.set()
        imported = sum(wait_for(each) for each in importers)
        run_shift(job(dsn, run_id=2, through_on=_FEBRUARY))

        assert told["naps"] > 0
        assert told["lost"] > 0
        assert wait_for(meddler) == []
        periods = FIRST_DAY, FEBRUARY, MARCH
        assert _invoices(owner) == dict.fromkeys(periods, _ACCOUNTS)
        assert numbers(owner, shop.seller_id) == list(range(1, 3 * _ACCOUNTS + 1))
        assert value(owner, "SELECT count(*) FROM pgbill.outbox_message") == 900
        assert imported > 0
        assert _usage(owner) == {("billed", "usage"), ("billed", "late_usage")}
        billed = "SELECT sum(usage_count) FROM pgbill.invoice_line"
        assert value(owner, billed) == imported
        assert findings(owner) == {}


def _invoices(conn: Connection[Any]) -> dict[date, int]:
    rows = conn.execute(
        "SELECT period_end, count(DISTINCT account_id) FROM pgbill.invoice"
        " GROUP BY period_end HAVING count(*) = count(DISTINCT account_id)"
    )
    return dict(rows.fetchall())


def _usage(conn: Connection[Any]) -> set[tuple[str, str]]:
    """Return how usage stands, and the kinds of lines that bill it."""
    rows = conn.execute(
        "SELECT DISTINCT state, kind FROM pgbill.usage_state"
        " LEFT JOIN pgbill.usage_line USING (bucket, account_id, invoice_id, line_no)"
    )
    return set(rows.fetchall())
