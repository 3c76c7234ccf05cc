"""Run pgbill's own commands as their user does, each a process of its own.

What is started here is ended here: by pid, and also when the caller is interrupted.
"""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgbill.config import PREFIX
from pgbill.errors import PgbillError

Say = Callable[[str], None]

_GRACE_SECONDS = 10

# What leads commands elsewhere is not inherited; these two say where the server is.
_KEPT = {"PGBILL_DATA_DIR", "PGBILL_CONFIG"}


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a command: this one, and of pgbill's settings these."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(PREFIX) or name in _KEPT
    }
    python_path = os.pathsep.join(each for each in sys.path if each)
    return {**inherited, **settings, "PYTHONPATH": python_path}


@dataclass(frozen=True, slots=True)
class Process:
    """A process that was started, with pipes to it and from it."""

    popen: "subprocess.Popen[bytes]"

    @property
    def has_ended(self) -> bool:
        """Whether it is no more."""
        return self.popen.poll() is not None

    def write(self, line: bytes) -> None:
        """Tell it something on its stdin."""
        assert self.popen.stdin is not None
        self.popen.stdin.write(line)
        self.popen.stdin.flush()

    def read_line(self) -> bytes:
        """Wait for a line that it prints.

        Raises:
            PgbillError: It has ended instead.
        """
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline()
        if not line:
            _, stderr = self.popen.communicate()
            raise PgbillError(f"a worker did not begin: {stderr.decode().strip()}")
        return line

    def end(self) -> None:
        """Ask it to end, make it, and close its pipes."""
        if not self.has_ended:
            self.popen.terminate()
            # One that is stopped does not hear it before.
            self.popen.send_signal(signal.SIGCONT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.popen.wait(_GRACE_SECONDS)
        if not self.has_ended:
            self.popen.kill()
            self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


@contextlib.contextmanager
def started(
    *arguments: str, env: Mapping[str, str], folder: Path | None = None
) -> Generator[Process]:
    """Start Python with these arguments; when the block ends, so does the process."""
    popen = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process = Process(popen)
    try:
        yield process
    finally:
        process.end()


@dataclass(frozen=True, slots=True)
class Steps:
    """The commands of a demo, one after the other."""

    environment: Mapping[str, str]
    folder: Path
    say: Say

    def with_settings(self, **settings: object) -> "Steps":
        """Return the same with other settings: `mode="test"` is PGBILL_MODE."""
        named = {f"{PREFIX}{name.upper()}": str(it) for name, it in settings.items()}
        return Steps({**self.environment, **named}, self.folder, self.say)

    def in_folder(self, folder: Path) -> "Steps":
        """Return the same in another folder."""
        return Steps(self.environment, folder, self.say)

    def do(self, *command: str) -> None:
        """Run a command that only has to succeed."""
        with self.start(*command) as running:
            running.finish()

    def ask(self, *command: str, may_find: bool = False) -> Any:  # noqa: ANN401
        """Run a command and return its JSON."""
        with self.start(*command, "--json") as running:
            return json.loads(running.finish(may_find=may_find))

    @contextlib.contextmanager
    def start(self, *command: str) -> "Generator[Running]":
        """Start a command, which ends with the block at the latest."""
        shown = [each for each in command if each != "--json"]
        self.say(f"$ pgbill {shlex.join(shown)}")
        program = "-m", "pgbill", *command
        with started(*program, env=self.environment, folder=self.folder) as process:
            yield Running(process, self.say, time.monotonic())


@dataclass(frozen=True, slots=True)
class Running:
    """A command under way."""

    process: Process
    say: Say
    started: float

    def finish(self, *, may_find: bool = False, told: str | None = None) -> str:
        """Wait for its end and return what it has printed.

        Args:
            may_find: Exit code 1 is an answer, too.
            told: What to say of it; none: the last that it has said itself.

        Raises:
            PgbillError: It failed; the message is its own.
        """
        stdout, stderr = self.process.popen.communicate()
        said = stderr.decode().strip().replace("pgbill: ", "")
        code = self.process.popen.returncode
        if code != 0 and not (may_find and code == 1):
            raise PgbillError(f"the step failed with exit code {code}: {said}")
        last = told or (said.splitlines()[-1] if said else "done.")
        self.say(f"    {last} ({time.monotonic() - self.started:.1f} s)")
        return stdout.decode()
