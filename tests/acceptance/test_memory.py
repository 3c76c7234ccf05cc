"""Memory does not grow with the company: `make bench-memory` does it with a million."""

import signal
from pathlib import Path

import psycopg

from bench import memory
from bench.memory import Peak
from pgbill import schema
from tests.acceptance.commands import Pgbill, invoiced_count, wait_until

LIMIT_MB = 150
ABOUT_EQUAL_MB = 10


def test_sixty_thousand_accounts_need_no_more_than_a_thousand(
    dsn: str, empty_dsn: str, tmp_path: Path
) -> None:
    """Of the many, some thousands are enough to see that nothing is piled up."""
    schema.migrate(empty_dsn)
    _fill(dsn, 1_000)
    _fill(empty_dsn, 60_000)
    run = ("run", "--through", memory.THROUGH, "--workers", "2")

    few = _peak_of(dsn, tmp_path, *run)
    many = _peak_of(empty_dsn, tmp_path, *run, until_invoiced=10_000)

    assert many.worker_mb < LIMIT_MB
    assert many.own_mb < LIMIT_MB
    assert abs(many.worker_mb - few.worker_mb) < ABOUT_EQUAL_MB
    assert abs(many.own_mb - few.own_mb) < ABOUT_EQUAL_MB


def test_a_long_file_needs_no_more_than_a_short_one(dsn: str, tmp_path: Path) -> None:
    files = [tmp_path / "short.csv", tmp_path / "long.csv"]
    for file, lines in zip(files, (1_000, 100_000), strict=True):
        memory.write_usage(file, lines)
    _fill(dsn, 1_000)

    few, many = (_peak_of(dsn, tmp_path, "import", "usage", str(it)) for it in files)

    assert many.own_mb < LIMIT_MB
    assert abs(many.own_mb - few.own_mb) < ABOUT_EQUAL_MB


def _fill(dsn: str, accounts: int) -> None:
    with psycopg.connect(dsn) as conn:
        memory.fill(conn, accounts)


def _peak_of(
    dsn: str, folder: Path, *command: str, until_invoiced: int | None = None
) -> Peak:
    """Run a command, and stop it after so many invoices if a number is given."""
    told = folder / "peak"
    pgbill = Pgbill(dsn, folder, prelude=memory.WATCHED).with_settings(test_peak=told)
    with pgbill.start(*command) as running:
        if until_invoiced:
            with psycopg.connect(dsn, autocommit=True) as conn:
                wait_until(lambda: invoiced_count(conn) >= until_invoiced, "it hangs")
            running.send(signal.SIGTERM)
        done = running.wait()
    assert done.exit_code == (75 if until_invoiced else 0), done.stderr
    return memory.read_peak(told, seconds=0)
