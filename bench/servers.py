"""Find the server to measure on."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pgbill import programs
from pgbill.server import Server


@contextlib.contextmanager
def running() -> Iterator[str]:
    """Return the administrator's DSN of PGBILL_BENCH_DSN, else of a server for now."""
    given = os.environ.get("PGBILL_BENCH_DSN")
    if given:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="pgbill-bench-") as folder:
        Path(folder).chmod(0o755)
        server = Server(
            programs.embedded(),
            Path(folder) / "server",
            options={"shared_buffers": "1GB", "max_wal_size": "8GB"},
        )
        server.start()
        try:
            yield str(server.dsn("postgres"))
        finally:
            server.stop()
