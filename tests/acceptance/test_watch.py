"""`pgbill status --watch` shows a run while it works, on a terminal and without one.

Progress, rate, time left, leases by worker, slow accounts: a line each time where
nobody sits at a terminal, a page that changes where somebody does.
"""

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from pgbill.lease import Scope
from tests.acceptance.commands import (
    ROOT,
    Pgbill,
    do,
    held_up,
    many_accounts,
    wait_until,
)
from tests.actors import Actor
from tests.shop import FIRST_DAY, run_sql

RUN = ("run", "--through", "2025-12-31", "--json")
WATCH = ("status", "--watch", "--every", "0.2")


@pytest.fixture
def pgbill(dsn: str, tmp_path: Path) -> Pgbill:
    return Pgbill(dsn, tmp_path).with_settings(workers=2, batch_size=10)


def _begin(conn: Connection[Any]) -> None:
    """Leave a run in its midst: one account done, one held for long, two to do."""
    accounts = many_accounts(conn, 4)
    run_sql(
        conn,
        "SELECT pgbill.open_run('2025-12-31', NULL, 'live', NULL, '{}', 'me', '1')",
    )
    worker = Actor(conn, "host:1", Scope(1, FIRST_DAY))
    assert worker.outcomes(worker.claim_one(accounts[0])) == ["invoiced"]
    worker.claim_one(accounts[1])
    # A trigger would refuse it.
    run_sql(conn, "SET session_replication_role = replica")
    run_sql(
        conn,
        "UPDATE pgbill.lease SET claimed_at = clock_timestamp() - interval '95 s'"
        " WHERE worker_id IS NOT NULL",
    )
    run_sql(conn, "SET session_replication_role = origin")


def test_a_look_tells_how_far_a_run_is(pgbill: Pgbill, admin: Connection[Any]) -> None:
    _begin(admin)

    found = do(pgbill, "status", "--json").json
    page = do(pgbill, "status").stdout

    (progress,) = found["progress"]
    assert (progress["closed_count"], progress["due_count"]) == (1, 3)
    assert progress["per_second"] > 0
    assert progress["seconds_left"] > 0
    (worker,) = found["workers"]
    assert (worker["holder"], worker["held_count"]) == ("host:1", 1)
    assert worker["longest_seconds"] > 90
    (slow,) = found["slow"]
    assert (slow["holder"], slow["is_expired"]) == ("host:1", False)
    assert "run 1: 1 done, 3 due (25 %)" in page
    assert "1 min 3" in page


def test_a_run_that_waits_for_leases_has_no_estimate(
    pgbill: Pgbill, admin: Connection[Any]
) -> None:
    """It was fast a while ago, which says nothing of when they expire."""
    _begin(admin)
    run_sql(admin, "SET session_replication_role = replica")
    run_sql(
        admin,
        "UPDATE pgbill.billing_period SET closed_at = closed_at - interval '20 s'",
    )
    run_sql(admin, "SET session_replication_role = origin")

    (progress,) = do(pgbill, "status", "--json").json["progress"]

    assert (progress["held_count"], progress["seconds_left"]) == (1, None)
    assert "waits for 1 lease" in do(pgbill, "status").stdout


def test_without_a_terminal_it_is_a_line_each_time(
    pgbill: Pgbill, admin: Connection[Any]
) -> None:
    """The run that it watches ends meanwhile."""
    many_accounts(admin, 150)
    assert pgbill.dsn is not None
    with pgbill.start(*WATCH) as watching, pgbill.start(*RUN) as run:
        with held_up(run, admin, pgbill.dsn, workers=2):
            time.sleep(1)
        assert run.wait().exit_code == 0
        time.sleep(0.6)
        watching.send(signal.SIGINT)
        done = watching.wait()

    assert done.exit_code == 130
    lines = done.stdout.splitlines()
    assert any("run 1: " in each and "/s, " in each for each in lines)
    assert any("by 2 workers" in each for each in lines)
    assert "no run is open" in lines[-1]


def test_for_programs_it_is_an_object_on_a_line(
    pgbill: Pgbill, admin: Connection[Any]
) -> None:
    _begin(admin)
    with pgbill.start(*WATCH, "--json") as watching:
        time.sleep(2)
        watching.send(signal.SIGINT)
        done = watching.wait()

    told = [json.loads(each) for each in done.stdout.splitlines()]
    assert len(told) > 1
    assert told[0]["progress"][0]["run_id"] == 1


def test_a_database_that_goes_away_is_waited_for(
    pgbill: Pgbill, admin: Connection[Any]
) -> None:
    _begin(admin)
    with pgbill.start(*WATCH) as watching:
        cut = (
            "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity"
            " WHERE application_name = 'pgbill status' AND state = 'idle'"
            " AND datname = current_database() AND query NOT LIKE 'SET %'"
        )
        wait_until(lambda: _count(admin, cut) > 0, "nobody looks")
        time.sleep(3)
        watching.send(signal.SIGINT)
        done = watching.wait()

    lines = done.stdout.splitlines()
    assert any("the database is away: " in each for each in lines), done
    assert "run 1: 1 done" in lines[-1]


def _count(conn: Connection[Any], query: str) -> int:
    row = conn.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])


def test_on_a_terminal_it_is_a_page_that_changes(
    pgbill: Pgbill, admin: Connection[Any]
) -> None:
    _begin(admin)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "pgbill", *WATCH],
        cwd=pgbill.folder,
        env={
            "PATH": os.environ.get("PATH", ""),
            "TERM": "xterm",
            "LANG": "C.UTF-8",
            "COLUMNS": "150",
            "LINES": "50",
            "HOME": str(pgbill.folder),
            "PYTHONPATH": str(ROOT),
            "PGBILL_DSN": str(pgbill.dsn),
        },
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):
        deadline = time.monotonic() + 30
        while shown.count(b"Ctrl-C ends") < 3 and time.monotonic() < deadline:
            shown += os.read(ours, 65_536)
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(OSError):
        while os.read(ours, 65_536):
            pass
    code = process.wait(30)
    os.close(ours)

    page = shown.decode()
    assert "run 1: 1 done, 3 due (25 %)" in page
    assert "slow account" in page
    assert "host:1" in page
    assert code == 130
