"""Tell whether a cluster is served, and by which process.

PostgreSQL writes `postmaster.pid` and removes it when it stops, but not when it is
killed; after a restart of the machine the number in it may be another process's. So the
process is looked at as well: a server's working directory is its cluster.
"""

import os
from dataclasses import dataclass
from pathlib import Path

# Linux numbers processes up to one less.
_NO_PID = 2**22


@dataclass(frozen=True, slots=True)
class Postmaster:
    """What a running server has written into `postmaster.pid`."""

    pid: int
    socket_dir: Path
    ready: bool


def running(data_dir: Path) -> Postmaster | None:
    """Return who serves this cluster, or none if that process is gone."""
    try:
        lines = (data_dir / "postmaster.pid").read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return None
    found = _parse(lines)
    return found if found and _serves(found.pid, data_dir) else None


def forget_dead(data_dir: Path, socket_dir: Path) -> None:
    """Let a server start whose predecessor was killed; after `running` told none.

    PostgreSQL would take any process of the same user with the old number for that
    predecessor, even a zombie. The number is replaced, and the rest of the file stays:
    by it PostgreSQL finds out whether orphans of the dead server still use its memory.
    Where other processes are not visible, the decision is left to PostgreSQL.
    """
    if not _processes_are_visible():
        return
    file = data_dir / "postmaster.pid"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    if lines:
        file.write_text("\n".join([str(_NO_PID), *lines[1:], ""]), encoding="utf-8")
    else:
        file.unlink(missing_ok=True)
    for lock in socket_dir.glob(".s.PGSQL.*.lock"):
        lock.unlink()


def _parse(lines: list[str]) -> Postmaster | None:
    """Read the lines: pid, cluster, start, port, socket folder, address, key, state."""
    if not lines or not lines[0].isdigit():
        return None
    # The later lines follow while the server starts.
    complete = len(lines) > 7  # noqa: PLR2004
    return Postmaster(
        pid=int(lines[0]),
        socket_dir=Path(lines[4] if complete else ""),
        ready=complete and lines[7].strip() == "ready",
    )


def _serves(pid: int, data_dir: Path) -> bool:
    try:
        os.kill(pid, 0)
        if not _processes_are_visible():
            return True
        return Path(f"/proc/{pid}/cwd").readlink() == data_dir.resolve()
    except OSError:
        return False


def _processes_are_visible() -> bool:
    return Path("/proc/self/cwd").exists()
