"""Whatever ends a run in the middle: nothing is lost, and the same command finishes it.

Drained by a signal, cut off from its database, its plug pulled: afterwards each account
has one invoice, and no audit finds anything.
"""

import signal
import time
from pathlib import Path
from typing import Any, LiteralString

import pytest
from psycopg import Connection, sql

from tests.acceptance.commands import (
    Done,
    Pgbill,
    Running,
    assert_clean,
    held_count,
    held_up,
    invoiced_count,
    invoices_by_account,
    many_accounts,
    wait_until,
)
from tests.servers import DatabaseServer
from tests.shop import value

ACCOUNTS = 150
BATCH = 10
RUN = ("run", "--through", "2025-12-31", "--json")

# One worker of the run, the first that gets there, does something between the claim and
# the bill: it holds leases, and no statement of it is under way.
_IN_BETWEEN = """
import os, pathlib, signal, time
from pgbill import issuing
bill = issuing.bill
def bill_or_not(*arguments, **options):
    try:
        pathlib.Path("first").touch(exist_ok=False)
    except FileExistsError:
        pass
    else:
        {mishap}
    return bill(*arguments, **options)
issuing.bill = bill_or_not
"""
_IS_KILLED = _IN_BETWEEN.format(mishap="os.kill(os.getpid(), signal.SIGKILL)")
_FALLS_ASLEEP = _IN_BETWEEN.format(mishap="os.kill(os.getpid(), signal.SIGSTOP)")

# The run is told to stop when this worker has claimed, and has not begun to bill.
_IS_STOPPED_WITH_LEASES = """
import os, pathlib, signal, time
from pgbill import lease
claim = lease.claim
def claim_and_stop(*arguments, **options):
    claimed = claim(*arguments, **options)
    if claimed:
        # Once: a second signal would end the workers without a drain.
        try:
            pathlib.Path("stopped").touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            os.kill(os.getppid(), signal.SIGTERM)
        time.sleep(0.5)
    return claimed
lease.claim = claim_and_stop
"""

_IS_KILLED_AT_THE_END = """
import os, signal
from pgbill import billing
billing._conclude = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def pgbill(dsn: str, tmp_path: Path, admin: Connection[Any]) -> Pgbill:
    """Return a pgbill with two workers and short leases, and accounts for it."""
    many_accounts(admin, ACCOUNTS)
    return Pgbill(dsn, tmp_path).with_settings(
        workers=2,
        batch_size=BATCH,
        lease_ttl_seconds=3,
        renew_every_seconds=0.5,
        lease_margin_seconds=0.5,
    )


def _finish(pgbill: Pgbill, conn: Connection[Any]) -> Done:
    """Give the same command again, which finishes the run."""
    done = pgbill.with_prelude("")(*RUN)
    _assert_finished(pgbill, conn, done)
    return done


def _assert_finished(pgbill: Pgbill, conn: Connection[Any], done: Done) -> None:
    assert done.exit_code == 0, done.stderr + done.stdout
    assert done.json["is_finished"]
    assert done.json["run_id"] == 1
    assert done.json["invoiced"] == ACCOUNTS
    assert invoices_by_account(conn) == [1] * ACCOUNTS
    assert value(conn, "SELECT count(*) FROM pgbill.outbox_message") == ACCOUNTS
    assert held_count(conn) == 0
    assert_clean(pgbill)


def _dsn(pgbill: Pgbill) -> str:
    assert pgbill.dsn is not None
    return pgbill.dsn


def _hold_up_and_send(
    pgbill: Pgbill, conn: Connection[Any], running: Running, *signals: signal.Signals
) -> None:
    with held_up(running, conn, _dsn(pgbill), workers=2):
        for each in signals:
            running.send(each)


def _disconnect(conn: Connection[Any]) -> None:
    """End what the server still does for workers."""
    conn.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE application_name = 'pgbill worker' AND datname = current_database()"
    )


def _alert_count(conn: Connection[Any]) -> int:
    return int(
        value(conn, "SELECT count(*) FROM pgbill.alert WHERE kind = 'lease_expired'")
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=str)
def test_a_signal_drains_the_run(
    pgbill: Pgbill, admin: Connection[Any], number: signal.Signals
) -> None:
    """What is being committed is finished; nobody keeps a lease."""
    with pgbill.start(*RUN[:-1]) as running:
        _hold_up_and_send(pgbill, admin, running, number)
        done = running.wait()

    assert done.exit_code == 75
    invoiced = invoiced_count(admin)
    assert 2 * BATCH < invoiced < ACCOUNTS
    left = ACCOUNTS - invoiced
    assert f" s; {left} accounts are still due: the same command" in done.stderr
    assert held_count(admin) == 0
    assert value(admin, "SELECT max(attempts) FROM pgbill.lease") == 0
    assert _finish(pgbill, admin).json["leases_lost"] == 0


def test_what_is_claimed_and_not_begun_is_given_back(
    pgbill: Pgbill, admin: Connection[Any]
) -> None:
    done = pgbill.with_prelude(_IS_STOPPED_WITH_LEASES)(*RUN)

    assert (done.exit_code, done.json["still_due"]) == (75, ACCOUNTS)
    assert (held_count(admin), invoiced_count(admin)) == (0, 0)
    given_back = "SELECT count(*) FROM pgbill.lease_event WHERE outcome = 'given_back'"
    assert value(admin, given_back) > 0
    assert value(admin, "SELECT max(attempts) FROM pgbill.lease") == 0
    assert _finish(pgbill, admin).json["leases_lost"] == 0


def test_a_second_signal_ends_the_workers_at_once(
    pgbill: Pgbill, admin: Connection[Any]
) -> None:
    with (
        pgbill.start(*RUN) as running,
        held_up(running, admin, _dsn(pgbill), workers=2),
    ):
        running.send(signal.SIGINT)
        # Two that come at the same moment are one.
        time.sleep(0.3)
        running.send(signal.SIGINT)
        done = running.wait()
        _disconnect(admin)

    assert done.exit_code == 75
    _finish(pgbill, admin)


def test_kill_9_of_all(pgbill: Pgbill, admin: Connection[Any]) -> None:
    """The machine is gone: its leases expire, and are taken over one by one."""
    with (
        pgbill.start(*RUN) as running,
        held_up(running, admin, _dsn(pgbill), workers=2),
    ):
        running.send(signal.SIGKILL)
        running.wait()
        _disconnect(admin)
    held = held_count(admin)
    assert held == 2 * BATCH

    done = _finish(pgbill, admin)

    assert done.json["leases_lost"] == held
    assert _alert_count(admin) == held


def test_kill_9_of_the_parent(pgbill: Pgbill, admin: Connection[Any]) -> None:
    """Its workers notice it when they report, and end."""
    with pgbill.start(*RUN) as running:
        with held_up(running, admin, _dsn(pgbill), workers=2):
            running.process.kill()
        query = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name = 'pgbill worker'"
        )
        wait_until(lambda: value(admin, query) == 0, "the workers go on")
    assert invoiced_count(admin) < ACCOUNTS

    _finish(pgbill, admin)


def test_kill_9_after_the_last_invoice(pgbill: Pgbill, admin: Connection[Any]) -> None:
    """Nothing is due any more; the run gets its end and its summary all the same."""
    done = pgbill.with_prelude(_IS_KILLED_AT_THE_END)(*RUN)

    assert done.exit_code == -signal.SIGKILL
    assert invoiced_count(admin) == ACCOUNTS
    _finish(pgbill, admin)
    assert value(admin, "SELECT ending FROM pgbill.billing_run") == "finished"


def test_kill_9_of_a_worker(pgbill: Pgbill, admin: Connection[Any]) -> None:
    """The run lives on: another starts in its place, and its leases are waited for."""
    done = pgbill.with_prelude(_IS_KILLED)(*RUN)

    _assert_finished(pgbill, admin, done)
    assert done.json["leases_lost"] == BATCH
    assert _alert_count(admin) == BATCH


def test_a_worker_that_sleeps_past_its_expiry(
    pgbill: Pgbill, admin: Connection[Any]
) -> None:
    """Another has billed its accounts when it wakes up; it drops them."""
    with pgbill.with_prelude(_FALLS_ASLEEP).start(*RUN) as running:
        wait_until(lambda: invoiced_count(admin) == ACCOUNTS, "nobody took over")
        assert _alert_count(admin) == BATCH
        running.send(signal.SIGCONT)
        done = running.wait()

    _assert_finished(pgbill, admin, done)
    assert done.json["leases_lost"] == BATCH
    abandoned = "SELECT count(*) FROM pgbill.lease_event WHERE kind = 'abandoned'"
    assert value(admin, abandoned) == BATCH


def test_the_database_goes_away_for_a_moment(
    pgbill: Pgbill, admin: Connection[Any], server: DatabaseServer
) -> None:
    """All connections are cut, and new ones refused for a while: the run goes on."""
    with pgbill.start(*RUN) as running:
        with held_up(running, admin, _dsn(pgbill), workers=2):
            _allow_connections(server, admin.info.dbname, allow="false")
            _disconnect(admin)
        time.sleep(0.5)
        _allow_connections(server, admin.info.dbname, allow="true")
        done = running.wait()

    assert done.exit_code in {0, 75}, done.stderr
    if done.exit_code == 0:
        _assert_finished(pgbill, admin, done)
    else:
        _finish(pgbill, admin)


def _allow_connections(
    server: DatabaseServer, database: str, *, allow: LiteralString
) -> None:
    query = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
    with server.connect() as conn:
        conn.execute(query.format(sql.Identifier(database), sql.SQL(allow)))
