"""Servers and databases for tests.

PostgreSQL is never mocked. Each server gets a template database, migrated once. `conn`
is a connection to a migrated database that nobody else writes to, rolled back
afterwards: the rule. `warm` is the same, but a connection that many tests share. `dsn`
is a database of the test's own, a clone of the template, for tests that commit or need
several connections. Integration tests run on every server that is found, acceptance
tests and those that are marked `one_server` on the first.
"""

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest
from psycopg import Connection, sql

from pgbill import db, roles, schema
from tests import servers, shop
from tests.servers import Candidate, DatabaseServer

# The folder of the session, which the processes of pytest-xdist share.
_HOME = "PGBILL_TEST_HOME"


def pytest_configure(config: pytest.Config) -> None:
    """Make the folder of the session, open to the user that root's servers run as."""
    config.addinivalue_line(
        "markers", "one_server: about what no version of PostgreSQL changes"
    )
    # What is started in the background ignores Ctrl-C, and so would all that it starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Settings of whoever runs the tests are not part of them.
    for name in [name for name in os.environ if name.startswith("PGBILL_")]:
        if not name.startswith("PGBILL_TEST_"):
            del os.environ[name]
    if not hasattr(config, "workerinput"):
        # A time limit ends tests by SIGTERM; servers are to be stopped then as well.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        home = Path(tempfile.mkdtemp(prefix="pgbill-test-"))
        home.chmod(0o755)
        os.environ[_HOME] = str(home)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop what was started, once, after all test processes have ended."""
    if not hasattr(config, "workerinput") and _HOME in os.environ:
        home = Path(os.environ.pop(_HOME))
        servers.stop_all(home)
        shutil.rmtree(home, ignore_errors=True)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that needs a server on each, or on the first, see above."""
    if "server" in metafunc.fixturenames:
        found = servers.candidates()
        if (
            "acceptance" in metafunc.definition.path.parts
            or metafunc.definition.get_closest_marker("one_server")
        ):
            found = found[:1]
        ids = [candidate.name for candidate in found]
        metafunc.parametrize("server", found, ids=ids, indirect=True, scope="session")


@pytest.fixture(scope="session")
def home() -> Path:
    """Return the folder of the session."""
    return Path(os.environ[_HOME])


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest, home: Path) -> Iterator[DatabaseServer]:
    """Return a running server."""
    candidate = cast("Candidate", request.param)
    yield from candidate.run(home)


@pytest.fixture(scope="session")
def template(server: DatabaseServer) -> Iterator[str]:
    """Return the name of a migrated database that nobody stays connected to."""
    name = _name("template")
    with server.connect() as admin:
        _create(admin, name)
        schema.migrate(server.dsn(name))
        yield name
        _drop(admin, name)


@pytest.fixture
def dsn(server: DatabaseServer, template: str) -> Iterator[str]:
    """Return a migrated database of the test's own."""
    name = _name("clone")
    with server.connect() as admin:
        _create(admin, name, template=template)
        yield server.dsn(name)
        _drop(admin, name)


@pytest.fixture
def admin(dsn: str) -> Iterator[Connection[Any]]:
    """Return the login's own connection to `dsn`; each statement commits."""
    with contextlib.closing(db.connect(dsn, application="test")) as conn:
        yield conn


@pytest.fixture
def empty_dsn(server: DatabaseServer) -> Iterator[str]:
    """Return a database of the test's own in which nothing is."""
    name = _name("empty")
    with server.connect() as admin:
        _create(admin, name)
        yield server.dsn(name)
        _drop(admin, name)


@pytest.fixture(scope="session")
def shared_dsn(server: DatabaseServer, template: str) -> Iterator[str]:
    """Return a migrated database in which nobody commits."""
    name = _name("shared")
    with server.connect() as admin:
        _create(admin, name, template=template)
        yield server.dsn(name)
        _drop(admin, name)


@pytest.fixture
def conn(shared_dsn: str) -> Iterator[Connection[Any]]:
    """Return a connection as the owner of the schema; what it does is rolled back."""
    with contextlib.closing(
        db.connect(shared_dsn, role=roles.OWNER, application="test", autocommit=False)
    ) as conn:
        yield conn
        conn.rollback()


@pytest.fixture(scope="session")
def kept_conn(server: DatabaseServer, template: str) -> Iterator[Connection[Any]]:
    """Return a connection to a database of its own; `warm` takes turns on it."""
    name = _name("kept")
    with server.connect() as admin:
        _create(admin, name, template=template)
        with contextlib.closing(
            db.connect(server.dsn(name), role=roles.OWNER, application="test")
        ) as conn:
            # A partition that is made, or rolled back, makes all plans anew.
            conn.execute(
                "SELECT pgbill.create_usage_partitions("
                "'{2025-12-01, 2026-01-01, 2026-02-01, 2026-03-01, 2026-04-01}')"
            )
            conn.autocommit = False
            yield conn
        _drop(admin, name)


@pytest.fixture
def warm(kept_conn: Connection[Any]) -> Iterator[Connection[Any]]:
    """Return a connection as `conn` does, whose plans have been made already."""
    yield kept_conn
    kept_conn.rollback()


@pytest.fixture
def audited(warm: Connection[Any]) -> Iterator[Connection[Any]]:
    """Return `warm`, and ask every audit view after the test."""
    yield warm
    assert shop.findings(warm) == {}


def _name(what: str) -> str:
    return f"pgbill_test_{uuid4().hex[:12]}_{what}"


def _create(admin: Connection[Any], name: str, *, template: str = "template0") -> None:
    query = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
    admin.execute(query.format(sql.Identifier(name), sql.Identifier(template)))


def _drop(admin: Connection[Any], name: str) -> None:
    query = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
    admin.execute(query.format(sql.Identifier(name)))
