"""Whatever dies, and whenever: the same command ends it well.

Real processes are killed just before and just after each commit of a run and of a
relay, their connections are cut, their threads block, their server is restarted. Then
the same command is given again, and the books are read: no audit finds anything, each
account has one invoice for each due period, its numbers have no gap, and each invoice
has one message, which arrives once, or is uncertain and shown to a person.

The points at which they die exist here only: a prelude wraps a function of pgbill. What
is killed by signals from outside is in `test_run_killed.py` and `test_relay.py`; so are
two boundaries that the tables below leave out, a worker before its bill and a run
before it is sealed. Where the database is left as by another death, one of them is in
the tables: a run that dies before it drops a lost lease is one that dies after a claim.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import psycopg
import pytest
from psycopg import Connection, sql

from pgbill import db, outbox, programs, schema
from pgbill.server import Server
from pgbill.sink import Sink
from pgbill.taxserver import TaxServer
from tests import post
from tests.acceptance.commands import (
    Done,
    Pgbill,
    assert_clean,
    do,
    held_count,
    held_up,
    invoiced_count,
    many_accounts,
    wait_until,
)
from tests.shop import numbers, value, values

ACCOUNTS = 12
PERIODS = 2
INVOICES = ACCOUNTS * PERIODS
BATCH = 3
BLOCKED = BATCH * PERIODS
"""Invoices that a worker holds up: its accounts' later periods wait for the first."""
MESSAGES = 3
# Commits wait until their log is written: a restart is to lose none.
_OPTIONS = {"fsync": "off", "full_page_writes": "off"}
RUN = ("run", "--through", "2026-01-31", "--json")
RELAY = ("relay", "--once", "--json", "--connections", "1")

Victim = Literal["worker", "run", "relay"]
When = Literal["before", "after"]

# Something happens at a function, in the first process that gets there. A call that has
# nothing to do, or finds nothing, commits nothing, and does not count.
_ONCE = """
import os, pathlib, signal, time
from pgbill import {module}
def wrap(function):
    def happen():
        try:
            pathlib.Path("{mark}").touch(exist_ok=False)
        except FileExistsError:
            return
        {mishap}
    def wrapped(*arguments, **options):
        if arguments[1:2] == ([],):
            return function(*arguments, **options)
        if "{when}" == "before":
            happen()
        result = function(*arguments, **options)
        if "{when}" == "after" and result != []:
            happen()
        return result
    return wrapped
{module}.{function} = wrap({module}.{function})
"""


def once(when: When, path: str, mishap: str, *, mark: str) -> str:
    """Return a prelude; the file `mark` tells that it has happened."""
    module, _, function = path.partition(".")
    return _ONCE.format(
        module=module, function=function, when=when, mishap=mishap, mark=mark
    )


_IS_TOLD_TO_STOP = once(
    "after", "lease.claim", "os.kill(os.getpid(), signal.SIGTERM)", mark="told"
)
_FALLS_ASLEEP = once(
    "before", "issuing.bill", "os.kill(os.getpid(), signal.SIGSTOP)", mark="asleep"
)
_BLOCKS = once(
    "before",
    "issuing.bill",
    "while not pathlib.Path('go').exists(): time.sleep(0.05)",
    mark="blocks",
)


@dataclass(frozen=True, slots=True)
class Fault:
    """A process is killed before or after it commits, or all of its run is."""

    function: str
    when: When
    victim: Victim

    def __str__(self) -> str:
        """Return what happens, in short."""
        return f"{self.victim} {self.when} {self.function}"

    @property
    def prelude(self) -> str:
        """The Python that makes it happen."""
        # Process 0 is the whole group.
        pid = "0" if self.victim == "run" else "os.getpid()"
        kill = f"os.kill({pid}, signal.SIGKILL)"
        return once(self.when, self.function, kill, mark=str(self))


def _faults(*rows: tuple[str, str, str]) -> list[Any]:
    """Read a table: what commits, who dies before it, and who dies after it.

    All rows of a worker are one story: the run outlives each of its deaths.
    """
    found: list[Fault] = []
    for function, before, after in rows:
        found += [Fault(function, "before", victim) for victim in _victims(before)]
        found += [Fault(function, "after", victim) for victim in _victims(after)]
    of_workers = tuple(each for each in found if each.victim == "worker")
    stories = [of_workers, *((each,) for each in found if each.victim == "run")]
    return [
        pytest.param(story, id=", ".join(map(str, story))) for story in stories if story
    ]


def _victims(names: str) -> list[Victim]:
    known: tuple[Victim, ...] = ("worker", "run", "relay")
    return [victim for victim in known if victim in names.split()]


OF_A_RUN = _faults(
    # what commits        before it     after it
    ("lease.claim", "worker run", "worker run"),
    ("issuing.bill", "run", "worker run"),
    ("billing._conclude", "", "run"),
)
OF_A_WORKER_THAT_STOPS = _faults(
    ("lease.release", "worker", "run"),
)
OF_A_WORKER_THAT_LOST = _faults(
    ("lease.abandon", "worker", "run"),
)
WITH_A_TAX_SERVICE = _faults(
    ("issuing.keep_answers", "worker", "worker run"),
    ("issuing.issue", "", "worker"),
)
OF_A_RELAY = [
    # what commits, and when it dies                 arrive, are uncertain
    (Fault("outbox.begin_attempt", "before", "relay"), (MESSAGES, 0)),
    (Fault("outbox.begin_attempt", "after", "relay"), (MESSAGES - 1, 1)),
    (Fault("outbox.record_outcome", "before", "relay"), (MESSAGES, 1)),
    (Fault("outbox.record_outcome", "after", "relay"), (MESSAGES, 0)),
]


@dataclass(frozen=True, slots=True)
class House:
    """A database with accounts that are due, and a pgbill for it."""

    pgbill: Pgbill
    conn: Connection[Any]
    seller_id: int

    @classmethod
    def build(cls, dsn: str, folder: Path, conn: Connection[Any]) -> "House":
        """Build it, with two workers and short leases."""
        accounts = many_accounts(conn, ACCOUNTS)
        pgbill = Pgbill(dsn, folder).with_settings(
            workers=2,
            batch_size=BATCH,
            lease_ttl_seconds=1,
            renew_every_seconds=0.25,
            # They expire; nobody is to be parked for it.
            max_attempts=100,
        )
        return cls(pgbill, conn, accounts[0].seller_id)

    @property
    def dsn(self) -> str:
        """The database."""
        assert self.pgbill.dsn is not None
        return self.pgbill.dsn

    def run(self, prelude: str) -> Done:
        """Run with a prelude, to whatever end."""
        return self.pgbill.with_prelude(prelude)(*RUN)

    def has(self, mark: str) -> bool:
        """Tell whether a process of the story got to a point of it."""
        return (self.pgbill.folder / mark).exists()

    def mark(self, mark: str) -> None:
        """Let a process of the story go on."""
        (self.pgbill.folder / mark).touch()

    def finish(self) -> None:
        """Give the same command again, and read the books."""
        done = do(self.pgbill, *RUN)
        assert done.json["is_finished"]
        assert_right(self)


@pytest.fixture
def house(dsn: str, tmp_path: Path, admin: Connection[Any]) -> House:
    return House.build(dsn, tmp_path, admin)


def assert_right(house: House) -> None:
    """Ask the oracle."""
    conn = house.conn
    assert held_count(conn) == 0
    by_period = "SELECT count(*) FROM pgbill.invoice GROUP BY account_id, period_end"
    assert values(conn, by_period) == [1] * INVOICES
    assert numbers(conn, house.seller_id) == list(range(1, INVOICES + 1))
    by_invoice = "SELECT count(*) FROM pgbill.outbox_message GROUP BY invoice_id"
    assert values(conn, by_invoice) == [1] * INVOICES
    assert value(conn, "SELECT count(*) FROM pgbill.billing_run") == 1
    assert value(conn, "SELECT ending FROM pgbill.billing_run") == "finished"
    assert_clean(house.pgbill)


def assert_died(house: House, story: tuple[Fault, ...], done: Done) -> None:
    """Check that the faults came to pass: a run outlives its workers, not itself."""
    assert [each for each in story if not house.has(str(each))] == [], done.stderr
    expected = 0 if story[0].victim == "worker" else -signal.SIGKILL
    assert done.exit_code == expected, done.stderr


def preludes(story: tuple[Fault, ...]) -> str:
    """Return the Python that makes all of it happen."""
    return "".join(each.prelude for each in story)


@pytest.mark.parametrize("story", OF_A_RUN)
def test_killed_beside_a_commit(house: House, story: tuple[Fault, ...]) -> None:
    done = house.run(preludes(story))

    assert_died(house, story, done)
    house.finish()


@pytest.mark.parametrize("story", OF_A_WORKER_THAT_STOPS)
def test_killed_beside_giving_back(house: House, story: tuple[Fault, ...]) -> None:
    """One worker is told to stop when it has claimed."""
    done = house.run(_IS_TOLD_TO_STOP + preludes(story))

    assert_died(house, story, done)
    house.finish()


@pytest.mark.parametrize("story", OF_A_WORKER_THAT_LOST)
def test_killed_beside_dropping_what_is_lost(
    house: House, story: tuple[Fault, ...]
) -> None:
    """One worker sleeps until another has billed its accounts."""
    sleepy = house.pgbill.with_prelude(_FALLS_ASLEEP + preludes(story))
    with sleepy.start(*RUN) as running:
        wait_until(lambda: _invoiced(house) == INVOICES, "nobody has taken over")
        running.send(signal.SIGCONT)
        done = running.wait()

    assert_died(house, story, done)
    house.finish()


@pytest.mark.parametrize("story", WITH_A_TAX_SERVICE)
def test_killed_between_an_answer_and_its_invoice(
    house: House, story: tuple[Fault, ...]
) -> None:
    with TaxServer() as service:
        asking = replace(house, pgbill=house.pgbill.with_settings(tax_url=service.url))

        done = asking.run(preludes(story))

        assert_died(house, story, done)
        asking.finish()


def _invoiced(house: House) -> int:
    return invoiced_count(house.conn)


def test_a_worker_that_blocks_keeps_its_leases(house: House) -> None:
    """Its main thread stands still for several of their lives, and renewal goes on.

    In the middle every connection that renews is cut.
    """
    ttl = 1.5
    patient = replace(house, pgbill=house.pgbill.with_settings(lease_ttl_seconds=ttl))
    with patient.pgbill.with_prelude(_BLOCKS).start(*RUN) as running:
        wait_until(lambda: _invoiced(house) == INVOICES - BLOCKED, "the other is done")
        time.sleep(1.5 * ttl)
        assert _cut(house.conn, "renew") > 0
        time.sleep(1.5 * ttl)
        assert _invoiced(house) == INVOICES - BLOCKED
        house.mark("go")
        done = running.wait()

    assert done.exit_code == 0, done.stderr
    assert done.json["leases_lost"] == 0
    events = "SELECT count(*) FROM pgbill.lease_event WHERE kind = 'expired'"
    assert value(house.conn, events) == 0
    patient.finish()


def test_a_worker_is_cut_off_before_it_bills(house: House) -> None:
    """It connects again, and what it has claimed is billed after all."""
    with house.pgbill.with_prelude(_BLOCKS).start(*RUN) as running:
        wait_until(lambda: _invoiced(house) == INVOICES - BLOCKED, "the other is done")
        assert _cut(house.conn, "claim") > 0
        house.mark("go")
        done = running.wait()

    assert done.exit_code == 0, done.stderr
    assert done.json["invoiced"] == INVOICES
    house.finish()


def test_workers_are_cut_off_while_they_bill(house: House) -> None:
    """Both of them are, and what renews beside them."""
    with house.pgbill.start(*RUN) as running:
        with held_up(running, house.conn, house.dsn, workers=2):
            wait_until(lambda: _cut(house.conn, "renew") > 0, "nobody renews")
            assert _cut(house.conn, "bill") > 0
        done = running.wait()

    assert done.exit_code == 0, done.stderr
    assert done.json["invoiced"] == INVOICES
    house.finish()


def test_the_run_is_cut_off_from_its_statistics(house: House) -> None:
    """The run refreshes them once its workers have begun; they do not need it."""
    with (
        house.pgbill.start(*RUN) as running,
        contextlib.closing(db.connect(house.dsn, application="obstacle")) as obstacle,
    ):
        with obstacle.transaction():
            # Writers go on beside it, ANALYZE does not.
            obstacle.execute("LOCK TABLE pgbill.invoice IN SHARE UPDATE EXCLUSIVE MODE")
            wait_until(lambda: _cut_analyze(house.conn) > 0, "nobody analyzes")
        done = running.wait()

    assert done.exit_code == 0, done.stderr
    assert done.json["invoiced"] == INVOICES
    house.finish()


def _cut_analyze(conn: Connection[Any]) -> int:
    return int(
        value(
            conn,
            "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, 5000))"
            " FROM pg_stat_activity WHERE application_name = 'pgbill run'"
            " AND datname = current_database() AND wait_event_type = 'Lock'",
        )
    )


def _cut(conn: Connection[Any], function: str) -> int:
    """End the workers' connections that called a function last; count them."""
    return int(
        value(
            conn,
            "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, 5000))"
            " FROM pg_stat_activity WHERE application_name = 'pgbill worker'"
            " AND datname = current_database() AND query LIKE %s",
            f"%pgbill.{function}(%",
        )
    )


@pytest.mark.parametrize(
    ("fault", "expected"),
    [pytest.param(*row, id=str(row[0])) for row in OF_A_RELAY],
)
def test_killed_beside_a_commit_of_a_relay(
    admin: Connection[Any],
    dsn: str,
    tmp_path: Path,
    fault: Fault,
    expected: tuple[int, int],
) -> None:
    """What may have been sent is not sent again; a person is shown it."""
    arrived, uncertain = expected
    post.issue(admin, MESSAGES)
    with Sink(tmp_path / "mails") as sink:
        pgbill = Pgbill(dsn, tmp_path).with_settings(
            smtp_host=sink.host, smtp_port=sink.port, relay_ttl_seconds=1
        )
        died = pgbill.with_prelude(fault.prelude)(*RELAY)
        wait_until(lambda: _claimed(admin) == 0, "its claims do not run out")
        do(pgbill, *RELAY)
        recipients = [each.recipient for each in sink.received]

    assert died.exit_code == -signal.SIGKILL, died.stderr
    assert len(recipients) == len(set(recipients)) == arrived
    shown = do(pgbill, "outbox", "list", "--state", "uncertain", "--json").json
    assert len(shown) == uncertain
    states = [each.state for each in outbox.states(admin, limit=100)]
    assert states.count("accepted") == MESSAGES - uncertain
    assert_clean(pgbill)


def _claimed(conn: Connection[Any]) -> int:
    return len(outbox.states(conn, state="claimed", limit=100))


@dataclass(frozen=True, slots=True)
class OwnServer:
    """A server that nobody else uses."""

    server: Server

    def dsn(self, name: str) -> str:
        """Return a migrated database on it."""
        dsn = self.server.dsn(name)
        assert dsn is not None
        with psycopg.connect(self.server.dsn() or "", autocommit=True) as conn:
            conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        schema.migrate(dsn)
        return dsn

    def restart(self, mode: str) -> None:
        """Restart it, and do not wait for clients to finish."""
        identity = programs.identity(self.server.home)
        runner = programs.choose(self.server.bin_path, self.server.home, identity)
        done = runner.run(
            *("pg_ctl", "restart", "-m", mode, "-w", "-s"),
            *("-D", str(self.server.data_dir), "-l", str(self.server.log_path)),
        )
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def own_server(home: Path) -> Iterator[OwnServer]:
    server = Server(
        programs.embedded(), home / f"restarted-{os.getpid()}", options=_OPTIONS
    )
    server.start()
    yield OwnServer(server)
    server.stop()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_the_server_is_restarted(
    own_server: OwnServer, tmp_path: Path, mode: str
) -> None:
    """One worker holds leases meanwhile, the other is in the middle of its work."""
    dsn = own_server.dsn(f"pgbill_{mode}")
    with contextlib.closing(db.connect(dsn, application="test")) as conn:
        house = House.build(dsn, tmp_path, conn)
        running = house.pgbill.with_prelude(_BLOCKS).start(*RUN)
        with running:
            wait_until(lambda: _invoiced(house) > 0, "nothing was invoiced")
            own_server.restart(mode)
            house.mark("go")
            done = running.wait()

    with contextlib.closing(db.connect(dsn, application="test")) as conn:
        assert done.exit_code == 0, done.stderr
        assert done.json["invoiced"] == INVOICES
        replace(house, conn=conn).finish()
