"""Measure `pgbill run` against its limit: the same rows, written by plain bulk SQL.

Both happen on one server, in clones of one database, alternately, for several rounds;
the medians and their ratio are what counts, since machines differ and are noisy. The
run is timed from outside, end to end, as cron sees it: start of the program, workers,
rating, fences, numbers, summary. The limit writes exactly the rows that the run has
left behind in every table, with keys, indexes and foreign keys in place but no trigger
of ours, half of the buckets on each of two connections.

    python -m bench [--accounts 50000] [--rounds 3] [--workers 2,8]

The server is that of PGBILL_BENCH_DSN (a login that may create databases), else an
embedded one of its own with fsync on.
"""

import argparse
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
from psycopg import conninfo, sql

from bench import servers
from pgbill import schema

_COMPANY = Path(__file__).with_name("company.sql")

# What a run writes, in an order that foreign keys allow.
_WRITTEN = (
    "billing_period",
    "invoice",
    "invoice_line",
    "invoice_tax",
    "outbox_message",
    "lease_event",
    "invoice_number",
)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--accounts", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", default="2,8")
    options = parser.parse_args()
    workers = [int(each) for each in options.workers.split(",")]
    with servers.running() as admin_dsn:
        bench = Bench(admin_dsn, options.accounts)
        bench.prepare()
        rates: dict[str, list[float]] = {}
        for number in range(options.rounds):
            for each in workers:
                rates.setdefault(f"pgbill run, {each} workers", []).append(
                    bench.measure_run(each)
                )
            rates.setdefault("bulk SQL, 2 connections", []).append(
                bench.measure_limit()
            )
            _say(f"round {number + 1} of {options.rounds} is done")
        bench.clean()
    _print(rates)


class Bench:
    """A template database, and clones of it to measure in."""

    def __init__(self, admin_dsn: str, accounts: int) -> None:
        """Name the server and the size."""
        self._admin_dsn = admin_dsn
        self._accounts = accounts
        self._template = f"pgbill_bench_{os.getpid()}_template"
        self._clone = f"pgbill_bench_{os.getpid()}_clone"

    def prepare(self) -> None:
        """Make the company; its first, empty period is closed already."""
        self._create(self._template, "template0")
        schema.migrate(self._dsn(self._template))
        company = _COMPANY.read_text(encoding="utf-8")
        with psycopg.connect(self._dsn(self._template)) as conn:
            conn.execute(company.replace(":accounts", str(self._accounts)))  # pyright: ignore[reportCallIssue, reportArgumentType]
        self._analyze(self._template)
        self._run(self._template, through="2026-08-31", workers=2)
        self._analyze(self._template)

    def measure_run(
        self, workers: int, *, change: Callable[[str], None] | None = None
    ) -> float:
        """Return invoices per second of a run, from a fresh clone.

        Args:
            workers: How many processes.
            change: What to do to the clone before, by its DSN.
        """
        self._create(self._clone, self._template)
        if change is not None:
            change(self._dsn(self._clone))
        self._checkpoint()
        seconds = self._run(self._clone, through="2026-09-30", workers=workers)
        return self._accounts / seconds

    def measure_limit(self) -> float:
        """Return invoices per second of bulk SQL that writes what the run has left."""
        with psycopg.connect(self._dsn(self._clone)) as conn:
            self._set_aside(conn)
        self._analyze(self._clone)
        self._checkpoint()
        threads = [
            threading.Thread(target=self._write_half, args=(half,)) for half in (0, 1)
        ]
        started = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - started
        with psycopg.connect(self._dsn(self._clone)) as conn:
            row = conn.execute("SELECT count(*) FROM pgbill.invoice_number").fetchone()
        assert row == (self._accounts,), "the limit did not write what the run wrote"
        return self._accounts / seconds

    def clean(self) -> None:
        """Drop the databases."""
        for name in (self._clone, self._template):
            self._drop(name)

    def _set_aside(self, conn: psycopg.Connection) -> None:
        """Copy what the run has written, and take it out of its tables again."""
        conn.execute("CREATE SCHEMA aside")
        conn.execute(
            "CREATE UNLOGGED TABLE aside.lease AS SELECT lease.* FROM pgbill.lease"
        )
        for table in _WRITTEN:
            conn.execute(
                sql.SQL(
                    "CREATE UNLOGGED TABLE aside.{0} AS SELECT t.* FROM pgbill.{0} AS t"
                ).format(sql.Identifier(table))
            )
        emptied = _emptied(conn)
        for table in (*emptied, "lease"):
            conn.execute(
                sql.SQL("ALTER TABLE pgbill.{} DISABLE TRIGGER USER").format(
                    sql.Identifier(table)
                )
            )
        conn.execute(
            "CREATE UNLOGGED TABLE aside.before AS SELECT p.*"
            " FROM pgbill.billing_period AS p WHERE p.period_end = '2026-09-01'"
        )
        names = sql.SQL(", ").join(sql.Identifier("pgbill", each) for each in emptied)
        conn.execute(sql.SQL("TRUNCATE {}").format(names))
        conn.execute(
            "INSERT INTO pgbill.billing_period SELECT p.* FROM aside.before AS p"
        )
        conn.execute("DELETE FROM aside.billing_period WHERE period_end = '2026-09-01'")
        # The events of the first period are not of this run.
        conn.execute("DELETE FROM aside.lease_event WHERE due_on = '2026-09-01'")

    def _write_half(self, half: int) -> None:
        with psycopg.connect(self._dsn(self._clone)) as conn:
            conn.execute("SET jit = off")
            for table in _WRITTEN:
                columns = sql.SQL(", ").join(
                    sql.Identifier(name) for name in _columns(conn, table)
                )
                conn.execute(
                    sql.SQL(
                        "INSERT INTO pgbill.{0} ({1}) SELECT {1} FROM aside.{0}"
                        " WHERE bucket % 2 = {2}"
                    ).format(sql.Identifier(table), columns, sql.Literal(half))
                )
            conn.execute(
                "UPDATE pgbill.lease SET due_on = done.due_on, due_at = done.due_at,"
                " fencing_token = done.fencing_token, outcome = done.outcome,"
                " run_id = done.run_id, renewed_at = done.renewed_at"
                " FROM aside.lease AS done WHERE done.bucket = lease.bucket"
                " AND done.account_id = lease.account_id AND lease.bucket %% 2 = %s",
                [half],
            )

    def _run(self, database: str, *, through: str, workers: int) -> float:
        """Run pgbill as cron would, and return the seconds it took."""
        started = time.monotonic()
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pgbill",
                "run",
                "--through",
                through,
                "--workers",
                str(workers),
                "--json",
            ],
            env={**os.environ, "PGBILL_DSN": self._dsn(database)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        return time.monotonic() - started

    def _create(self, name: str, template: str) -> None:
        self._drop(name)
        with psycopg.connect(self._admin_dsn, autocommit=True) as conn:
            conn.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                    sql.Identifier(name), sql.Identifier(template)
                )
            )

    def _drop(self, name: str) -> None:
        with psycopg.connect(self._admin_dsn, autocommit=True) as conn:
            conn.execute(
                sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(
                    sql.Identifier(name)
                )
            )

    def _analyze(self, name: str) -> None:
        with psycopg.connect(self._dsn(name), autocommit=True) as conn:
            conn.execute("VACUUM (ANALYZE)")

    def _checkpoint(self) -> None:
        with psycopg.connect(self._admin_dsn, autocommit=True) as conn:
            conn.execute("CHECKPOINT")

    def _dsn(self, database: str) -> str:
        return conninfo.make_conninfo(self._admin_dsn, dbname=database)


def _columns(conn: psycopg.Connection, table: str) -> list[str]:
    """Return the columns of a table that can be written."""
    rows = conn.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
        " AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
        [f"pgbill.{table}"],
    ).fetchall()
    return [str(name) for (name,) in rows]


def _emptied(conn: psycopg.Connection) -> list[str]:
    """Return what a run writes, and the tables that refer to it."""
    rows = conn.execute(
        "WITH RECURSIVE emptied (oid) AS ("
        " SELECT ('pgbill.' || name)::regclass::oid FROM unnest(%s::text[]) AS name"
        " UNION SELECT conrelid FROM emptied"
        " JOIN pg_constraint ON confrelid = emptied.oid AND contype = 'f')"
        " SELECT relname FROM emptied JOIN pg_class USING (oid) ORDER BY relname",
        [list(_WRITTEN)],
    ).fetchall()
    return [str(name) for (name,) in rows]


def _print(rates: dict[str, list[float]]) -> None:
    limit = statistics.median(rates["bulk SQL, 2 connections"])
    print(f"{'':28}{'invoices/s':>12}{'of the limit':>14}   rounds")
    for name, values in rates.items():
        median = statistics.median(values)
        rounds = " ".join(f"{value:,.0f}" for value in values)
        print(f"{name:28}{median:>12,.0f}{median / limit:>14.2f}   {rounds}")


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
