"""The embedded server is shared, outlives every command, and is never counted.

Whatever is killed, the next command finds what runs or starts what does not.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgbill import config, postmaster, programs
from pgbill import server as embedded_server
from pgbill.config import Settings
from pgbill.errors import ConfigError
from pgbill.server import Server

_OPTIONS = {"fsync": "off"}
_NOBODY = 65_534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become others")


@pytest.fixture
def folder(home: Path, request: pytest.FixtureRequest) -> Path:
    """Return a folder of the test's own that root's servers can enter."""
    return home / f"{abs(hash(request.node.nodeid)):x}"


@pytest.fixture
def own(folder: Path) -> Iterator[Server]:
    """Return a server of the test's own; it does not run yet."""
    server = Server(programs.embedded(), folder / "postgresql", options=_OPTIONS)
    yield server
    server.stop()


def _pid(server: Server) -> int:
    running = postmaster.running(server.data_dir)
    assert running is not None
    return running.pid


def _asks(dsn: str) -> tuple[object, ...] | None:
    with psycopg.connect(dsn) as conn:
        return conn.execute("SELECT current_database()").fetchone()


def test_it_starts_once_and_is_found_again(own: Server) -> None:
    dsn = own.start()
    pid = _pid(own)

    again = Server(own.bin_path, own.home).start()

    assert again == dsn
    assert _pid(own) == pid
    assert _asks(dsn) == ("pgbill",)


def test_it_can_only_be_reached_by_its_user(own: Server) -> None:
    dsn = own.start()

    with psycopg.connect(dsn) as conn:
        assert conn.execute("SHOW listen_addresses").fetchone() == ("",)
    for path in (own.home, own.data_dir, own.home / "socket"):
        assert path.stat().st_mode & 0o077 == 0


def test_stopping_says_whether_there_was_something_to_stop(own: Server) -> None:
    assert own.stop() is False
    own.start()

    assert own.stop() is True

    assert own.stop() is False
    assert own.status().running is False
    assert _asks(own.start()) == ("pgbill",)


def test_status_knows_it_without_a_connection(own: Server) -> None:
    before = own.status()
    own.start()

    after = own.status()

    assert (before.running, before.pid, before.dsn) == (False, None, None)
    assert (after.running, after.pid) == (True, _pid(own))
    assert after.version.startswith("18.")
    assert after.size_bytes > 10_000_000


def _command(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pgbill", *arguments],
        env={**os.environ, "PGBILL_DATA_DIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_commands_at_once_share_it(own: Server, folder: Path) -> None:
    commands = [_command(folder, "check") for _ in range(3)]

    errors = [command.communicate()[1] for command in commands]

    using = f"Using the embedded PostgreSQL in {own.home}.\n"
    assert errors == [using] * 3
    assert [command.returncode for command in commands] == [78] * 3
    assert _asks(own.start()) == ("pgbill",)


@pytest.mark.parametrize("seconds", [0.3, 0.6, 0.9, 1.2])
def test_a_killed_command_leaves_it_usable(
    own: Server, folder: Path, seconds: float
) -> None:
    """Killed while it makes the cluster, starts the server or uses it."""
    command = _command(folder, "check")
    time.sleep(seconds)
    os.killpg(command.pid, signal.SIGKILL)
    command.communicate()

    assert _asks(own.start()) == ("pgbill",)


def test_ctrl_c_does_not_reach_it(own: Server, folder: Path) -> None:
    """The terminal sends SIGINT to the whole foreground group."""
    command = _command(folder, "migrate")
    while postmaster.running(own.data_dir) is None:
        time.sleep(0.01)
    os.killpg(command.pid, signal.SIGINT)
    command.communicate()

    assert _asks(own.start()) == ("pgbill",)


def test_a_killed_server_is_started_again(own: Server) -> None:
    with psycopg.connect(own.start(), autocommit=True) as conn:
        conn.execute("CREATE TABLE kept ()")
    _kill(own)
    assert (own.data_dir / "postmaster.pid").exists()

    with psycopg.connect(own.start()) as conn:
        assert conn.execute("SELECT FROM kept").rowcount == 0


def test_a_zombie_is_no_server(own: Server) -> None:
    """In a container, nobody may reap the children of a dead command."""
    with psycopg.connect(own.start(), autocommit=True) as conn:
        conn.execute("CREATE TABLE kept ()")
    _kill(own)
    zombie = subprocess.Popen([sys.executable, "-c", ""])
    while "Z" not in Path(f"/proc/{zombie.pid}/stat").read_text():
        time.sleep(0.01)
    _rewrite_pid(own, zombie.pid)

    assert _asks(own.start()) == ("pgbill",)

    zombie.wait()


def test_the_number_of_a_dead_server_may_be_another_process_now(own: Server) -> None:
    """After a restart of the machine, PostgreSQL itself would refuse to start."""
    own.start()
    _kill(own)
    _rewrite_pid(own, os.getpid())

    assert own.status().running is False
    assert _asks(own.start()) == ("pgbill",)


def test_orphans_of_a_dead_server_keep_the_next_one_out(own: Server) -> None:
    """Two servers on one cluster would destroy it."""
    with contextlib.closing(psycopg.connect(own.start(), autocommit=True)) as conn:
        backend = conn.info.backend_pid
        os.kill(backend, signal.SIGSTOP)
        _kill(own)

        with pytest.raises(ConfigError, match=r"shared memory block .* still in use"):
            own.start()

        os.kill(backend, signal.SIGKILL)
        time.sleep(0.5)
    assert _asks(own.start()) == ("pgbill",)


def _rewrite_pid(server: Server, pid: int) -> None:
    for file in (
        server.data_dir / "postmaster.pid",
        server.home / "socket" / ".s.PGSQL.5432.lock",
    ):
        lines = file.read_text().splitlines()
        file.write_text("\n".join([str(pid), *lines[1:]]))


def _kill(server: Server) -> None:
    pid = _pid(server)
    os.kill(pid, signal.SIGKILL)
    while postmaster.running(server.data_dir) is not None:
        time.sleep(0.01)
    # Its children notice a moment later, and hold the shared memory until then.
    time.sleep(0.5)


def test_a_half_made_cluster_is_made_anew(own: Server) -> None:
    programs.make_home(own.home, programs.identity(own.home))
    (own.home / "data.new").mkdir()
    (own.home / "data.new" / "PG_VERSION").write_text("18\n")

    assert _asks(own.start()) == ("pgbill",)
    assert not (own.home / "data.new").exists()


def test_a_long_path_gets_a_short_socket(folder: Path) -> None:
    """The kernel takes 107 bytes, and says nothing that helps."""
    home = folder.joinpath(*["a long name, with a 'quote' and ü"] * 4)
    server = Server(programs.embedded(), home, options=_OPTIONS)

    dsn = server.start()

    socket_dir = server.status().socket_dir
    assert _asks(dsn) == ("pgbill",)
    assert socket_dir is not None
    assert socket_dir.stat().st_mode & 0o077 == 0
    assert server.stop() is True
    socket_dir.rmdir()


def test_another_major_version_is_refused(own: Server) -> None:
    own.start()
    own.stop()
    (own.data_dir / "PG_VERSION").write_text("17\n")

    with pytest.raises(ConfigError, match="made by PostgreSQL 17, but version 18"):
        own.start()


def test_a_server_that_does_not_start_says_why(own: Server) -> None:
    own.start()
    own.stop()
    with (own.data_dir / "postgresql.conf").open("a") as conf:
        conf.write("shared_buffers = 'lots'\n")

    with pytest.raises(ConfigError, match=r"does not start: .*server\.log"):
        own.start()


def test_settings_in_postgresql_conf_are_the_users(own: Server) -> None:
    own.start()
    own.stop()
    with (own.data_dir / "postgresql.conf").open("a") as conf:
        conf.write("max_connections = 42\n")

    with psycopg.connect(own.start()) as conn:
        assert conn.execute("SHOW max_connections").fetchone() == ("42",)


def test_a_dsn_needs_no_embedded_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGBILL_DSN", "host=db.example.com")

    assert embedded_server.dsn(config.load()) == "host=db.example.com"


def test_without_dsn_and_embedded_server_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", _find_nothing)

    with pytest.raises(ConfigError, match="Set PGBILL_DSN, or run: pip install"):
        embedded_server.dsn(Settings())


def _find_nothing(name: str) -> None:
    del name


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    server = Server(programs.embedded(), tmp_path / "file" / "postgresql")

    with pytest.raises(ConfigError, match=r"cannot create .*Set PGBILL_DATA_DIR"):
        server.start()


@as_root
def test_roots_server_belongs_to_a_system_user(own: Server) -> None:
    own.start()

    owner = own.data_dir.stat().st_uid
    assert owner != 0
    assert Path(f"/proc/{_pid(own)}").stat().st_uid == owner


@as_root
def test_a_folder_that_the_system_user_cannot_enter_is_refused(folder: Path) -> None:
    """Nobody else's folder is opened for it."""
    folder.mkdir(mode=0o700)
    server = Server(programs.embedded(), folder / "postgresql")

    with pytest.raises(ConfigError, match=r"cannot reach .*Set PGBILL_DATA_DIR"):
        server.start()

    assert folder.stat().st_mode & 0o777 == 0o700


@as_root
def test_programs_that_the_system_user_cannot_read_are_copied(
    own: Server, tmp_path: Path
) -> None:
    """Such as those in an environment below root's home."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    package = own.bin_path.parents[1]
    for name in (package.name, f"{package.name}.libs"):
        (closed / name).symlink_to(package.with_name(name))
    own.bin_path = closed / package.name / "pginstall" / "bin"

    dsn = own.start()

    assert _asks(dsn) == ("pgbill",)
    assert closed.stat().st_mode & 0o777 == 0o700


@as_root
def test_a_folder_of_somebody_else_is_refused(folder: Path) -> None:
    folder.mkdir()
    identity = programs.identity(folder / "postgresql")
    (folder / "socket").mkdir(mode=0o700)
    os.chown(folder / "socket", _NOBODY, _NOBODY)

    with pytest.raises(ConfigError, match="does not belong to"):
        programs.make_private(folder / "socket", identity)


@as_root
def test_an_ordinary_user_runs_it_as_himself(folder: Path, own: Server) -> None:
    """In a child of ours, since others may not be able to read this Python."""
    own.start()
    bin_path = programs.choose(own.bin_path, own.home, programs.identity(own.home))
    folder = folder / "users"
    folder.mkdir()
    os.chown(folder, _NOBODY, _NOBODY)
    own.stop()

    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            os.setgid(_NOBODY)
            os.setuid(_NOBODY)
            server = Server(bin_path.bin_path, folder / "postgresql", options=_OPTIONS)
            dsn = server.start()
            owner = server.data_dir.stat().st_uid
            asked = _asks(dsn)
            stopped = server.stop()
            status = 0 if (owner, asked, stopped) == (_NOBODY, ("pgbill",), True) else 2
        os._exit(status)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
