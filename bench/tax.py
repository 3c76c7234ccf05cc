"""Measure a run that asks a tax service: its rate, its memory, and how soon it stops.

The service is the one for trials, a process of its own. Three figures are what counts:
invoices a second with 64 calls in flight that take 300 ms each, of which 213 would be
possible; the memory of a worker while ten thousand accounts wait, compared with a
thousand; and the seconds from SIGTERM to the end of a run with a thousand calls in
flight that would take minutes.

    python -m bench.tax [--accounts 6000] [--latency 0.3] [--in-flight 64]

The server is that of PGBILL_BENCH_DSN (a login that may create databases), else an
embedded one of its own with fsync on.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
from psycopg import conninfo, sql

from bench import memory, servers
from pgbill import schema

_THROUGH = memory.THROUGH
_MANY = 10_000
_FEW = 1_000
_STOPPED_IN_FLIGHT = 1_000
_PATIENCE_SECONDS = 120


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.tax", description=__doc__)
    parser.add_argument("--accounts", type=int, default=6_000)
    parser.add_argument("--latency", type=float, default=0.3)
    parser.add_argument("--in-flight", type=int, default=64)
    options = parser.parse_args()
    with servers.running() as admin_dsn, tempfile.TemporaryDirectory() as folder:
        bench = Bench(admin_dsn, Path(folder))
        rate = bench.measure_rate(options.accounts, options.latency, options.in_flight)
        possible = options.in_flight / options.latency
        print(
            f"{options.in_flight} in flight at {options.latency:g} s, one worker:"
            f" {rate:.0f} invoices/s, of {possible:.0f} that are possible",
            flush=True,
        )
        for count in (_FEW, _MANY):
            peak = bench.measure_memory(count, options.in_flight)
            print(
                f"{count:,} accounts waiting: worker {peak:.0f} MB at most", flush=True
            )
        for workers in (1, 8):
            seconds = bench.measure_stop(workers)
            print(
                f"{_STOPPED_IN_FLIGHT:,} calls in flight of {workers} workers:"
                f" stopped in {seconds:.1f} s",
                flush=True,
            )
        bench.clean()


class Bench:
    """A database made anew for each measure, and a tax service beside it."""

    def __init__(self, admin_dsn: str, folder: Path) -> None:
        """Name the server, and where peaks of memory are told."""
        self._admin_dsn = admin_dsn
        self._folder = folder
        self._name = f"pgbill_bench_{os.getpid()}_tax"
        self._dsn = conninfo.make_conninfo(admin_dsn, dbname=self._name)

    def measure_rate(self, accounts: int, latency: float, in_flight: int) -> float:
        """Return invoices per second of one worker, from start to end of the run."""
        self._fill(accounts)
        with _service("--latency", str(latency)) as url:
            started = time.monotonic()
            subprocess.run(
                _command("--workers", "1"),
                env=self._environment(url, in_flight),
                stdout=subprocess.DEVNULL,
                check=True,
            )
            return accounts / (time.monotonic() - started)

    def measure_memory(self, accounts: int, in_flight: int) -> float:
        """Return a worker's peak in MB: most accounts wait, some hundreds are done."""
        self._fill(accounts)
        told = self._folder / "peak"
        with _service("--latency", "0.3") as url:
            environment = self._environment(url, in_flight)
            with self._running(
                {**environment, "PGBILL_TEST_PEAK": str(told)}, "--workers", "1"
            ) as running:
                self._wait_until("SELECT count(*) FROM pgbill.invoice", _FEW // 2)
                running.send_signal(signal.SIGTERM)
                running.wait(_PATIENCE_SECONDS)
        return memory.read_peak(told, seconds=0).worker_mb

    def measure_stop(self, workers: int) -> float:
        """Return the seconds that a run needs to stop, with all calls in flight."""
        self._fill(_STOPPED_IN_FLIGHT)
        with _service("--latency", "600") as url:
            environment = self._environment(url, _STOPPED_IN_FLIGHT // workers)
            with self._running(environment, "--workers", str(workers)) as running:
                held = "SELECT count(*) FROM pgbill.lease WHERE worker_id IS NOT NULL"
                self._wait_until(held, _STOPPED_IN_FLIGHT)
                # All are claimed: now give the last of them time to be asked for.
                time.sleep(2)
                started = time.monotonic()
                running.send_signal(signal.SIGTERM)
                running.wait(_PATIENCE_SECONDS)
                seconds = time.monotonic() - started
        assert self._count(held) == 0, "a lease was not given back"
        return seconds

    def clean(self) -> None:
        """Drop the database."""
        name = sql.Identifier(self._name)
        with psycopg.connect(self._admin_dsn, autocommit=True) as conn:
            conn.execute(
                sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name)
            )

    def _fill(self, accounts: int) -> None:
        self.clean()
        name = sql.Identifier(self._name)
        with psycopg.connect(self._admin_dsn, autocommit=True) as conn:
            conn.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(name))
        schema.migrate(self._dsn)
        with psycopg.connect(self._dsn) as conn:
            memory.fill(conn, accounts)
        with psycopg.connect(self._dsn, autocommit=True) as conn:
            conn.execute("VACUUM (ANALYZE)")

    def _environment(self, url: str, in_flight: int) -> dict[str, str]:
        return {
            **os.environ,
            "PGBILL_DSN": self._dsn,
            "PGBILL_TAX_URL": url,
            "PGBILL_TAX_IN_FLIGHT": str(in_flight),
            "PGBILL_TAX_TIMEOUT_SECONDS": "900",
            "PGBILL_TAX_READ_SECONDS": "900",
        }

    @contextlib.contextmanager
    def _running(
        self, environment: dict[str, str], *options: str
    ) -> Iterator["subprocess.Popen[bytes]"]:
        running = subprocess.Popen(
            _command(*options, prelude=memory.WATCHED)
            if "PGBILL_TEST_PEAK" in environment
            else _command(*options),
            env=environment,
            stdout=subprocess.DEVNULL,
        )
        try:
            yield running
        finally:
            if running.poll() is None:
                running.kill()
                running.wait()

    def _wait_until(self, counting: str, wanted: int) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self._count(counting) < wanted:
            assert time.monotonic() < deadline, "it does not get there"
            time.sleep(0.1)

    def _count(self, counting: str) -> int:
        with psycopg.connect(self._dsn) as conn:
            row = conn.execute(counting).fetchone()  # pyright: ignore[reportCallIssue, reportArgumentType]
        assert row is not None
        return int(row[0])


def _command(*options: str, prelude: str = "") -> list[str]:
    program = f"{prelude}\nfrom pgbill.cli import main\nmain()"
    run = ("run", "--through", _THROUGH, "--json", *options)
    return [sys.executable, "-c", program, *run]


@contextlib.contextmanager
def _service(*options: str) -> Iterator[str]:
    """Start a tax service of its own, and return its address."""
    service = subprocess.Popen(
        [sys.executable, "-m", "pgbill.taxserver", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert service.stdout is not None
        yield service.stdout.readline().decode().strip()
    finally:
        service.terminate()
        service.communicate()


if __name__ == "__main__":
    main()
