"""Measure the memory of workers and of imports: it must not grow with the company.

Each command is a real process, which tells at its end how much was resident at most: in
one of its workers, which are its children, and in itself. What a million accounts need
of a worker, or a million lines of an import, is compared with what a thousand need.

    python -m bench.memory [--accounts 1000,1000000] [--lines 1000,1000000]

The server is that of PGBILL_BENCH_DSN (a login that may create databases), else an
embedded one of its own.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import conninfo, sql

from bench import servers
from pgbill import schema

THROUGH = "2026-08-31"
"""Through this day each account has one invoice due."""
_ACCOUNTS = Path(__file__).with_name("accounts.sql")
_IMPORTING_ACCOUNTS = 1_000

WATCHED = """
import atexit, os, pathlib, resource, sys

def tell_peaks():
    unit = 1 if sys.platform == "darwin" else 1024
    workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit
    # Of ourselves it would tell the peak of whoever has started us.
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        own = int(status.read_text().split("VmHWM:")[1].split()[0]) * 1024
    else:
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    pathlib.Path(os.environ["PGBILL_TEST_PEAK"]).write_text(f"{workers} {own}")

atexit.register(tell_peaks)
"""
"""What a process runs before pgbill, to tell its peaks in bytes at its end."""


@dataclass(frozen=True, slots=True)
class Peak:
    """The most memory that was resident, in megabytes, and how long it all took."""

    worker_mb: float
    own_mb: float
    seconds: float


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.memory", description=__doc__)
    parser.add_argument("--accounts", type=_numbers, default="1000,1000000")
    parser.add_argument("--lines", type=_numbers, default="1000,1000000")
    options = parser.parse_args()
    print(f"{'':32}{'worker MB':>10}{'parent MB':>10}{'seconds':>10}", flush=True)
    with servers.running() as admin_dsn, tempfile.TemporaryDirectory() as folder:
        for count in options.accounts:
            dsn = _database(admin_dsn, count)
            peak = measure(dsn, "run", "--through", THROUGH, folder=Path(folder))
            _print(f"run, {count:,} accounts", peak)
        dsn = _database(admin_dsn, _IMPORTING_ACCOUNTS)
        for count in options.lines:
            file = Path(folder) / f"usage-{count}.csv"
            write_usage(file, count)
            peak = measure(dsn, "import", "usage", str(file), folder=Path(folder))
            _print(f"import usage, {count:,} lines", peak)
        _drop(admin_dsn)


def fill(conn: psycopg.Connection, accounts: int) -> None:
    """Make so many accounts, each with an invoice due."""
    text = _ACCOUNTS.read_text(encoding="utf-8").replace(":accounts", str(accounts))
    conn.execute(text)  # pyright: ignore[reportCallIssue, reportArgumentType]


def write_usage(file: Path, lines: int) -> None:
    """Write a file of usage of the first accounts."""
    with file.open("w", encoding="utf-8") as stream:
        stream.write("key,account,meter,quantity,occurred_at\n")
        for number in range(lines):
            account = number % _IMPORTING_ACCOUNTS + 1
            day = number % 28 + 1
            stream.write(
                f"{lines}-{number},A-{account},calls,1.5,2026-09-{day:02}T12:00:00Z\n"
            )


def measure(dsn: str, *command: str, folder: Path) -> Peak:
    """Run a command of pgbill, and return its peak."""
    told = folder / "peak"
    started = time.monotonic()
    subprocess.run(
        [
            sys.executable,
            "-c",
            f"{WATCHED}\nfrom pgbill.cli import main\nmain()",
            *command,
        ],
        env={**os.environ, "PGBILL_DSN": dsn, "PGBILL_TEST_PEAK": str(told)},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return read_peak(told, time.monotonic() - started)


def read_peak(file: Path, seconds: float) -> Peak:
    """Read what a process has told."""
    worker, own = map(int, file.read_text(encoding="utf-8").split())
    return Peak(worker / 1e6, own / 1e6, seconds)


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def _print(what: str, peak: Peak) -> None:
    print(
        f"{what:32}{peak.worker_mb:>10.0f}{peak.own_mb:>10.0f}{peak.seconds:>10.0f}",
        flush=True,
    )


def _database(admin_dsn: str, accounts: int) -> str:
    """Make the database anew, with so many accounts."""
    _drop(admin_dsn)
    with psycopg.connect(admin_dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(_name()))
    dsn = conninfo.make_conninfo(admin_dsn, dbname=_name().as_string().strip('"'))
    schema.migrate(dsn)
    with psycopg.connect(dsn) as conn:
        fill(conn, accounts)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("VACUUM (ANALYZE)")
    return dsn


def _drop(admin_dsn: str) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(_name()))


def _name() -> sql.Identifier:
    return sql.Identifier(f"pgbill_bench_{os.getpid()}_memory")


if __name__ == "__main__":
    main()
