"""Run workers as processes, and hear from them.

Processes, because one that is stopped or killed must not take the others with it, and
because renewals must not wait for another's work. They are forked before anything else
starts threads or connections, so they begin at once and share the parent's memory. Each
reports over a pipe of its own, whose end tells its death.
"""

import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any, cast

from pgbill import taxing
from pgbill.errors import PgbillError, TemporaryError
from pgbill.job import GivenUp, Job, Tally

_CONTEXT = multiprocessing.get_context("fork")


@dataclass(slots=True)
class Member:
    """A worker process, its job and its pipe."""

    job: Job
    process: BaseProcess
    pipe: "Connection[Any, Any]"
    given_up: GivenUp | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """A worker process that is no more."""

    job: Job
    exit_code: int
    given_up: GivenUp | None
    """Why, if it has said so."""

    @property
    def is_killed(self) -> bool:
        """Whether it ended by a signal or a crash, not by finishing or giving up."""
        return self.given_up is None and self.exit_code != 0


class Crew:
    """Worker processes of one run."""

    def __init__(self) -> None:
        """Begin without members."""
        self._members: list[Member] = []

    def __len__(self) -> int:
        """Count the processes that have not ended."""
        return len(self._members)

    def start(self, job: Job) -> None:
        """Start a worker."""
        ours, theirs = _CONTEXT.Pipe(duplex=False)
        inherited = [ours, *(member.pipe for member in self._members)]
        process = _CONTEXT.Process(
            target=_work,
            args=(job, theirs, inherited),
            name=f"pgbill worker {job.first_bucket}",
        )
        process.start()
        theirs.close()
        self._members.append(Member(job, process, cast("Connection[Any, Any]", ours)))

    def stop(self) -> None:
        """Tell all to finish what they commit, give the rest back, and end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End all at once; their leases expire."""
        self._signal(signal.SIGKILL)

    def hear(self, timeout_seconds: float) -> Iterator[Tally | Ended]:
        """Yield what has come in, waiting up to the timeout for the first of it."""
        ready = wait([member.pipe for member in self._members], timeout_seconds)
        for member in [each for each in self._members if each.pipe in ready]:
            if (news := self._read(member)) is not None:
                yield news

    def _read(self, member: Member) -> Tally | Ended | None:
        try:
            told: Tally | GivenUp = member.pipe.recv()
        except (EOFError, OSError):
            member.process.join()
            member.pipe.close()
            self._members.remove(member)
            code = member.process.exitcode
            return Ended(member.job, 1 if code is None else code, member.given_up)
        if isinstance(told, Tally):
            return told
        # Its last word: its end comes next.
        member.given_up = told
        return None

    def _signal(self, number: int) -> None:
        for member in self._members:
            if member.process.pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(member.process.pid, number)


def _work(
    job: Job,
    pipe: "Connection[Any, Any]",
    inherited: "list[Connection[Any, Any]]",
) -> None:
    """Be a worker process; the last that it says is why it gives up, if it does."""
    # The parent's ends: while a worker keeps them, no pipe breaks when the parent dies.
    for each in inherited:
        each.close()
    # Ctrl-C reaches the whole group; the parent alone decides, and sends SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        try:
            _work_shift(job, pipe)
        except PgbillError as error:
            pipe.send(GivenUp(error.exit_code, error.message, error.hint))
            sys.exit(error.exit_code)
    except BrokenPipeError:
        # The parent was killed. Leases expire, and the next run continues.
        sys.exit(TemporaryError.exit_code)


def _work_shift(job: Job, pipe: "Connection[Any, Any]") -> None:
    shift = taxing.shift(job, pipe.send)

    def stop(_number: int, _frame: FrameType | None) -> None:
        shift.stop()

    signal.signal(signal.SIGTERM, stop)
    shift.run()
