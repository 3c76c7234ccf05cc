"""Keep many calls to a tax service in flight, and hand out the replies that have come.

All calls of a worker share one event loop in a thread of its own: a thousand of them
cost no more than a few kilobytes each, and are dropped at once. The worker, which talks
to the database meanwhile, hands questions in and takes replies out; neither waits.
"""

import asyncio
import contextlib
import queue
import resource
import threading
import time
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass

from pgbill.tax import (
    Question,
    TaxError,
    TaxProvider,
    TaxService,
    TaxUnavailableError,
    printable,
)
from pgbill.taxcall import Line

_HELD_FOR_EACH_SLOT = 4
"""Accounts that rest between attempts are held besides, up to so many in all."""
_OTHER_FILES = 200
_CLOSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Reply:
    """The end of a call: the checked answer, or the reason why there is none."""

    ticket: object
    answer: str | None
    problem: str | None
    may_pass: bool = False
    """The same question may get an answer later."""


class Desk:
    """Calls in flight, and the replies that have come. For one thread besides its own.

    The thread is a daemon: a worker that ends does not wait for a service that hangs.
    """

    def __init__(self, provider: TaxProvider, service: TaxService) -> None:
        """Name whom to ask, and how many at once. The event loop begins to run."""
        self.provider = provider
        self._service = service
        self._line = Line(provider, service)
        self.ahead = 0
        """How many are taken besides those in flight: they begin as soon as others end,
        without waiting for the worker."""
        self._open: dict[object, Future[str]] = {}
        self._ended: queue.SimpleQueue[tuple[object, Future[str]]] = queue.SimpleQueue()
        self._busy_since = 0.0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="tax", daemon=True
        )
        _allow_files(service.in_flight + _OTHER_FILES)
        self._thread.start()

    def __len__(self) -> int:
        """Count the calls whose replies are still wanted."""
        return len(self._open)

    @property
    def free_count(self) -> int:
        """How many more may be asked now; while the breaker is open, one to try it."""
        if self.is_shut:
            return 0 if self._open else 1
        on_the_line = len(self._open) - self._line.resting_count
        held = _HELD_FOR_EACH_SLOT * self._service.in_flight
        wanted = self._service.in_flight + min(self.ahead, self._service.in_flight)
        return max(0, min(wanted - on_the_line, held - len(self)))

    @property
    def is_shut(self) -> bool:
        """Whether the whole service fails, and is left alone for now."""
        return self._line.breaker.is_open

    @property
    def reason(self) -> str:
        """What the service has said, or not said, when it failed last."""
        return self._line.breaker.reason or "it does not answer"

    @property
    def is_given_up(self) -> bool:
        """Whether we have tried to get through for longer than we are patient."""
        trouble_seconds = self._line.breaker.trouble_seconds
        busy_seconds = time.monotonic() - self._busy_since if self._open else 0.0
        return min(trouble_seconds, busy_seconds) > self._service.patience_seconds

    def ask(self, ticket: object, question: Question) -> None:
        """Begin a call; its reply will carry the ticket."""
        if not self._open:
            self._busy_since = time.monotonic()
        call = asyncio.run_coroutine_threadsafe(self._line.answer(question), self._loop)
        self._open[ticket] = call
        call.add_done_callback(lambda ended: self._ended.put((ticket, ended)))

    def drop(self, ticket: object) -> None:
        """Hang up; no reply will come."""
        call = self._open.pop(ticket, None)
        if call is not None:
            call.cancel()

    def take(self, *, timeout_seconds: float) -> list[Reply]:
        """Return what has come, waiting up to the timeout for the first of it."""
        replies: list[Reply] = []
        wait = timeout_seconds
        while self._open:
            try:
                ticket, call = self._ended.get(wait > 0, wait or None)
            except queue.Empty:
                break
            # A dropped call's reply, or that of an earlier call for the same ticket.
            if self._open.get(ticket) is call:
                del self._open[ticket]
                replies.append(_reply(ticket, call))
                wait = 0.0
        return replies

    def close(self) -> None:
        """Hang up on all, and wait for nobody any more."""
        self._open.clear()
        with contextlib.suppress(TimeoutError):
            ending = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
            ending.result(_CLOSE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    async def _end(self) -> None:
        """Cancel what is in flight, then let the provider hang up."""
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for each in others:
            each.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self.provider.close()


def _reply(ticket: object, call: "Future[str]") -> Reply:
    try:
        return Reply(ticket, call.result(0), None)
    except TaxError as error:
        may_pass = isinstance(error, TaxUnavailableError)
        return Reply(ticket, None, printable(str(error)), may_pass=may_pass)
    except CancelledError:
        return Reply(ticket, None, "the call to the tax service was cut off")
    except Exception as error:  # noqa: BLE001 (an account must not end its worker)
        return Reply(
            ticket, None, f"the tax service's answer cannot be used: {error!r}"
        )


def _allow_files(count: int) -> None:
    """Let this process have a connection for each call, if its limit may be raised."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        allowed = count if hard == resource.RLIM_INFINITY else min(count, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))
