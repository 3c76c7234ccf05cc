"""Measure what numbering costs: runs with numbers, against runs that draw none.

Both happen in clones of one database, alternately, for several rounds in one run. In
the second clone `draw_numbers` does nothing, so its invoices have no numbers and nobody
waits for the row of the series; all else is the same. The ratio of the medians is what
counts: numbering must not serialise the workers.

    python -m bench.numbers [--accounts 20000] [--rounds 5] [--workers 8]
"""

import argparse
import statistics
import sys

import psycopg

from bench import servers
from bench.__main__ import Bench
from pgbill import installation, roles

_LIMIT = 0.85
_NOTHING = """
CREATE OR REPLACE FUNCTION pgbill.draw_numbers(
    p_buckets integer[], p_account_ids bigint[], p_invoice_ids bigint[]
)
RETURNS void
LANGUAGE plpgsql
SET search_path = ''
AS 'BEGIN END;'
"""


def main() -> None:
    """Measure, print a table, and fail below the limit."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.numbers", description=__doc__
    )
    parser.add_argument("--accounts", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=8)
    options = parser.parse_args()
    rates: dict[str, list[float]] = {"with numbers": [], "without": []}
    with servers.running() as admin_dsn:
        bench = Bench(admin_dsn, options.accounts)
        bench.prepare()
        for _ in range(options.rounds):
            rates["with numbers"].append(bench.measure_run(options.workers))
            rates["without"].append(
                bench.measure_run(options.workers, change=_draw_nothing)
            )
        bench.clean()
    if _print(rates) < _LIMIT:
        sys.exit(1)


def _draw_nothing(dsn: str) -> None:
    """Draw no numbers, and let pgbill take the schema for its own all the same."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(f"SET ROLE {roles.OWNER}")  # pyright: ignore[reportCallIssue, reportArgumentType]
        conn.execute(_NOTHING)
        installation.record(conn, installation.shipped())


def _print(rates: dict[str, list[float]]) -> float:
    without = statistics.median(rates["without"])
    ratio = 0.0
    print(f"{'':14}{'invoices/s':>12}{'ratio':>8}   rounds")
    for name, values in rates.items():
        median = statistics.median(values)
        ratio = ratio or median / without
        rounds = " ".join(f"{value:,.0f}" for value in values)
        print(f"{name:14}{median:>12,.0f}{median / without:>8.2f}   {rounds}")
    return ratio


if __name__ == "__main__":
    main()
