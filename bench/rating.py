"""Measure what rating costs: all models mixed, against so much for each unit.

Accounts of both kinds have the same hundred usage records on eight meters. Both are
rated in batches of fifty by the function that a run uses, alternately, for several
rounds in one run; the ratio of the medians is what counts.

    python -m bench.rating [--accounts 10000] [--rounds 5]
"""

import argparse
import os
import statistics
import time
from pathlib import Path

import psycopg
from psycopg import conninfo, sql

from bench import servers
from pgbill import schema

_COMPANY = Path(__file__).with_name("models.sql")
_KINDS = ("plain", "mixed")
_BATCH = 50

_RATE = """
SELECT count((batch.rated).draft)
FROM (
    SELECT pgbill.rate(array_agg(chosen.bucket), array_agg(chosen.account_id), NULL, 3)
        AS rated
    FROM (
        SELECT
            account.bucket,
            account.account_id,
            row_number() OVER (ORDER BY account.bucket, account.account_id) / %(batch)s
                AS batch_no
        FROM pgbill.account
        WHERE account.key LIKE %(kind)s
    ) AS chosen
    GROUP BY chosen.batch_no
) AS batch
WHERE (batch.rated).outcome IS NULL
"""


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.rating", description=__doc__)
    parser.add_argument("--accounts", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with servers.running() as admin_dsn:
        name = f"pgbill_bench_{os.getpid()}_rating"
        with psycopg.connect(admin_dsn, autocommit=True) as admin:
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
            try:
                dsn = conninfo.make_conninfo(admin_dsn, dbname=name)
                _prepare(dsn, options.accounts)
                _print(_measure(dsn, options.accounts, options.rounds))
            finally:
                admin.execute(
                    sql.SQL("DROP DATABASE {} WITH (FORCE)").format(
                        sql.Identifier(name)
                    )
                )


def _prepare(dsn: str, accounts: int) -> None:
    schema.migrate(dsn)
    company = _COMPANY.read_text(encoding="utf-8")
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(company.replace(":accounts", str(accounts)))  # pyright: ignore[reportCallIssue, reportArgumentType]
        # As after the closing of the first, empty period.
        conn.execute("ALTER TABLE pgbill.lease DISABLE TRIGGER USER")
        conn.execute("ALTER TABLE pgbill.billing_period DISABLE TRIGGER USER")
        conn.execute(
            "INSERT INTO pgbill.billing_period (bucket, account_id, period_end,"
            " period_start, period_end_at, zone, outcome, usage_seq, fencing_token)"
            " SELECT bucket, account_id, due_on, due_on, due_at, 'Europe/Berlin',"
            " 'nothing_to_bill', 0,"
            " fencing_token FROM pgbill.lease"
        )
        conn.execute(
            "UPDATE pgbill.lease SET due_on = '2026-10-01',"
            " due_at = '2026-09-30 22:00Z'"
        )
        conn.execute("VACUUM (ANALYZE)")


def _measure(dsn: str, accounts: int, rounds: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("SET jit = off")
        for _ in range(rounds):
            for kind in _KINDS:
                started = time.monotonic()
                row = conn.execute(
                    _RATE, {"batch": _BATCH, "kind": f"{kind}-%"}
                ).fetchone()
                seconds[kind].append(time.monotonic() - started)
                assert row == (accounts,), f"not all {kind} accounts were rated: {row}"
    return seconds


def _print(seconds: dict[str, list[float]]) -> None:
    plain = statistics.median(seconds["plain"])
    print(f"{'':10}{'seconds':>10}{'ratio':>8}   rounds")
    for kind, values in seconds.items():
        median = statistics.median(values)
        rounds = " ".join(f"{value:.2f}" for value in values)
        print(f"{kind:10}{median:>10.2f}{median / plain:>8.2f}   {rounds}")


if __name__ == "__main__":
    main()
