"""Run `pgbill` as its users do: real processes, whose environment is theirs alone.

A `Pgbill` is a shell that knows one database. A command that it starts is the leader of
a process group of its own, as in a terminal, so a test can press Ctrl-C on it, or pull
its plug, without harm to itself. `prelude` is Python that runs in the process before
pgbill does; workers are forked from it, so it can make one of them stop at a point that
no signal from outside would hit.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from psycopg import Connection

from pgbill import db
from tests import builders
from tests.builders import Account
from tests.shop import Shop, value, values

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 60

_MAIN = "from pgbill.cli import main\nmain()\n"


@dataclass(frozen=True, slots=True)
class Done:
    """A command that has ended."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:  # noqa: ANN401
        """What it has printed for programs."""
        assert self.stdout, self.stderr
        return json.loads(self.stdout)


@dataclass(frozen=True, slots=True)
class Running:
    """A command that is under way, and leads a process group.

    As a context manager it leaves no process behind.
    """

    process: subprocess.Popen[str]

    def __enter__(self) -> "Running":
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """End what is left of the group."""
        with contextlib.suppress(ProcessLookupError):
            self.send(signal.SIGKILL)
        self.process.communicate()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the whole group, as a terminal does."""
        os.killpg(self.process.pid, number)

    def wait(self, text: str = "", *, seconds: float = PATIENCE_SECONDS) -> Done:
        """Wait for its end; `text` is what it reads from stdin."""
        stdout, stderr = self.process.communicate(text, seconds)
        return Done(self.process.returncode, stdout, stderr)


@dataclass(frozen=True, slots=True)
class Pgbill:
    """A shell in `folder`, whose pgbill works on `dsn`."""

    dsn: str | None
    folder: Path
    settings: dict[str, str] = field(default_factory=dict[str, str])
    prelude: str = ""
    program: tuple[str, ...] = (sys.executable, "-m", "pgbill")

    def with_settings(self, **settings: object) -> "Pgbill":
        """Return the same with other settings: `mode="test"` is PGBILL_MODE."""
        named = {f"PGBILL_{name.upper()}": str(it) for name, it in settings.items()}
        return replace(self, settings={**self.settings, **named})

    def with_prelude(self, prelude: str) -> "Pgbill":
        """Return the same with Python that runs first."""
        return replace(self, prelude=prelude)

    def start(self, *arguments: str) -> Running:
        """Start a command; `PIPE`s take its output, so it must not be long."""
        with_prelude = sys.executable, "-c", self.prelude + "\n" + _MAIN
        program = with_prelude if self.prelude else self.program
        process = subprocess.Popen(
            [*program, *arguments],
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            start_new_session=True,
        )
        return Running(process)

    def __call__(
        self, *arguments: str, text: str = "", seconds: float = PATIENCE_SECONDS
    ) -> Done:
        """Run a command that reads `text` from stdin, and wait for its end."""
        with self.start(*arguments) as started:
            return started.wait(text, seconds=seconds)

    def _environment(self) -> dict[str, str]:
        dsn = {} if self.dsn is None else {"PGBILL_DSN": self.dsn}
        return {
            "PATH": os.environ.get("PATH", ""),
            "LANG": "C.UTF-8",
            # Nothing of the user's is read, and nothing is written beside the test.
            "HOME": str(self.folder),
            "PGBILL_DATA_DIR": str(self.folder / "data"),
            "PYTHONPATH": str(ROOT),
            **dsn,
            **self.settings,
        }


def do(pgbill: Pgbill, *arguments: str) -> Done:
    """Run a command that must succeed."""
    done = pgbill(*arguments)
    assert done.exit_code == 0, done.stderr + done.stdout
    return done


def assert_clean(pgbill: Pgbill) -> None:
    """Ask the oracle: no audit finds anything."""
    audited = pgbill("audit")
    assert audited.exit_code == 0, audited.stdout + audited.stderr


def many_accounts(conn: Connection[Any], count: int) -> list[Account]:
    """Insert a shop and so many accounts that pay its fee."""
    with conn.transaction():
        shop = Shop.open(conn)
        accounts = [builders.account(conn, shop.seller_id) for _ in range(count)]
        for account in accounts:
            builders.subscription(conn, account, shop.fee)
    return accounts


def invoiced_count(conn: Connection[Any]) -> int:
    """Count the invoices."""
    return int(value(conn, "SELECT count(*) FROM pgbill.invoice"))


def invoices_by_account(conn: Connection[Any]) -> list[int]:
    """Count the invoices of each account that has one."""
    return values(
        conn, "SELECT count(*) FROM pgbill.invoice GROUP BY bucket, account_id"
    )


def held_count(conn: Connection[Any]) -> int:
    """Count the leases that somebody holds, or has not let go of."""
    return int(
        value(conn, "SELECT count(*) FROM pgbill.lease WHERE worker_id IS NOT NULL")
    )


def wait_until(is_so: Callable[[], bool], complaint: str) -> None:
    """Return when it is so."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, complaint
        time.sleep(0.01)


@contextlib.contextmanager
def held_up(
    run: Running, conn: Connection[Any], dsn: str, *, workers: int
) -> Generator[None]:
    """Hold a run up in the middle: it has issued, holds leases, and is committing.

    Somebody locks the series of numbers, which each commit draws from at its end, as
    soon as the first invoices are there. Entered once all workers wait for it.
    """

    def has_begun() -> bool:
        assert run.process.poll() is None, run.wait().stderr
        return invoiced_count(conn) > 0

    wait_until(has_begun, "nothing was invoiced")
    with (
        contextlib.closing(db.connect(dsn, application="obstacle")) as obstacle,
        obstacle.transaction(),
    ):
        obstacle.execute("SELECT FROM pgbill.number_series FOR NO KEY UPDATE")
        wait_until(lambda: _waiting_count(conn) >= workers, "no worker waits")
        yield


def _waiting_count(conn: Connection[Any]) -> int:
    return int(
        value(
            conn,
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE application_name = 'pgbill worker' AND wait_event_type = 'Lock'"
            " AND datname = current_database()",
        )
    )
