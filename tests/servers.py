"""Find PostgreSQL servers to test with, and start them.

The first choice is what PGBILL_TEST_DSN names, then a container where a Docker engine
answers, then the embedded server. Beside one of the latter two, every other major
version whose programs are found on this machine is tested as well. Servers of ours lie
in one folder of the session, which the processes of pytest-xdist share: whoever comes
first starts one, and the session's end stops it.
"""

import contextlib
import importlib
import os
import shutil
import subprocess
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import psycopg
from psycopg import conninfo

from pgbill import programs
from pgbill.server import Server

# Nothing that a test writes is to outlive the machine.
_FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
}
_CONTAINER_MAJOR = 18
_OLDEST_MAJOR = 15


@dataclass(frozen=True)
class DatabaseServer:
    """A running server, with the right to create databases."""

    admin_dsn: str

    def dsn(self, database: str) -> str:
        """Return how to connect to one of its databases."""
        return conninfo.make_conninfo(self.admin_dsn, dbname=database)

    def connect(self) -> psycopg.Connection:
        """Connect to the administrator's database."""
        return psycopg.connect(self.admin_dsn, autocommit=True)

    @cached_property
    def major(self) -> int:
        """The major version."""
        with self.connect() as conn:
            return conn.info.server_version // 10_000


class Candidate(Protocol):
    """A server that could be started."""

    @property
    def name(self) -> str:
        """What the test's id shows."""
        ...

    def run(self, home: Path) -> Generator[DatabaseServer]:
        """Start it, hand it out, and give it back."""
        ...


@dataclass(frozen=True)
class Given:
    """A server that somebody else runs."""

    dsn: str
    name: str = "given"

    def run(self, home: Path) -> Generator[DatabaseServer]:
        """Hand it out."""
        del home
        yield DatabaseServer(self.dsn)


@dataclass(frozen=True)
class Container:
    """A server in a container, one for each test process."""

    name: str = f"pg{_CONTAINER_MAJOR}"

    def run(self, home: Path) -> Generator[DatabaseServer]:
        """Start it, hand it out, and remove it."""
        from testcontainers.community.postgres import PostgresContainer

        del home
        with PostgresContainer(
            f"postgres:{_CONTAINER_MAJOR}", driver=None
        ) as container:
            yield DatabaseServer(container.get_connection_url())


@dataclass(frozen=True)
class Local:
    """A server of ours, made of programs on this machine; `stop_all` stops it."""

    bin_path: Path

    @property
    def name(self) -> str:
        """The major version."""
        return f"pg{_major(self.bin_path)}"

    def run(self, home: Path) -> Generator[DatabaseServer]:
        """Start it, unless another test process has, and hand it out."""
        server = self.server(home)
        server.start()
        admin_dsn = server.dsn("postgres")
        assert admin_dsn is not None
        yield DatabaseServer(admin_dsn)

    def server(self, home: Path) -> Server:
        """Name the server of this session."""
        return Server(self.bin_path, home / self.name, options=_FAST)


def candidates() -> list[Candidate]:
    """Return the servers to test with, the most important first."""
    if dsn := os.environ.get("PGBILL_TEST_DSN"):
        return [Given(dsn)]
    first: Candidate = Container() if _docker_answers() else Local(programs.embedded())
    others = {f"pg{_major(path)}": Local(path) for path in _own_programs()}
    others.pop(first.name, None)
    return [first, *others.values()]


def stop_all(home: Path) -> None:
    """Stop every server of ours that a test process has started."""
    for candidate in candidates():
        if isinstance(candidate, Local):
            candidate.server(home).stop()


def _docker_answers() -> bool:
    """Ask only where there is something to ask: the library takes long to import."""
    if not os.environ.get("DOCKER_HOST") and not Path("/var/run/docker.sock").exists():
        return False
    # It has no types.
    docker: Any = importlib.import_module("docker")
    try:
        with contextlib.closing(docker.from_env(timeout=5)) as client:
            return bool(client.ping())
    except docker.errors.DockerException:
        return False


def _own_programs() -> Iterator[Path]:
    """Find the programs of servers that are installed here, the newest first."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if pg_config := shutil.which("pg_config"):
        told = subprocess.run(
            [pg_config, "--bindir"], check=False, capture_output=True, text=True
        )
        found.append(Path(told.stdout.strip()))
    for path in found:
        if (path / "initdb").exists() and _major(path) >= _OLDEST_MAJOR:
            yield path


def _major(bin_path: Path) -> int:
    return int(programs.version(bin_path).split(".")[0])
