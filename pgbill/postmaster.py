"""Tell whether a cluster is served, and by which process.

PostgreSQL writes `postmaster.pid` and removes it when it stops, but not when it is
killed; after a restart of the machine the number in it may be another process's. So the
process is looked at as well: a server's working directory is its cluster.
"""

import os
from dataclasses import dataclass
from pathlib import Path


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


def forget_stale(data_dir: Path) -> None:
    """Remove the file of a server that died; only after `running` has returned none.

    PostgreSQL would take any process of the same user with that number for a server.
    Where nothing tells that process apart, the decision is left to PostgreSQL.
    """
    if _processes_are_visible():
        (data_dir / "postmaster.pid").unlink(missing_ok=True)


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
