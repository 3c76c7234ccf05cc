"""Get an answer for one account: call, wait, call again, within limits.

What may pass is tried again, after a wait that is drawn at random so that many accounts
do not come back at the same moment, or as long as the service says. An account has a
number of attempts; but while the breaker is open, or if the service lets nobody in, it
is not the account's fault, and nothing is counted. All waiting is done in the event
loop: it holds no thread and no transaction, and ends at once when the call is
cancelled.
"""

import asyncio
import random
from dataclasses import dataclass, field

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type
from tenacity.wait import wait_random_exponential

from pgbill import taxanswer
from pgbill.breaker import Breaker, Pass
from pgbill.tax import (
    Question,
    TaxBrokenError,
    TaxDeniedError,
    TaxError,
    TaxLimitedError,
    TaxProvider,
    TaxService,
    TaxUnavailableError,
)


class Line:
    """The way to a service that all calls of a worker share; belongs to an event loop.

    A call has a slot while it is made or waits for the breaker. One that rests between
    two attempts has none: others go on meanwhile.
    """

    def __init__(self, provider: TaxProvider, service: TaxService) -> None:
        """Name whom to ask, and how."""
        self.provider = provider
        self.service = service
        self.breaker = Breaker(rest_seconds=2 * service.retry_seconds)
        self.slots = asyncio.Semaphore(service.in_flight)
        self.resting_count = 0

    async def answer(self, question: Question) -> str:
        """Return the checked answer.

        Raises:
            TaxError: There is none, finally.
        """
        call = _Call(self, question)
        # Made for each call: it keeps the state of one.
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(TaxUnavailableError),
            stop=call.is_used_up,
            wait=call.wait,
            sleep=self._rest,
            reraise=True,
        )
        return await retrying(call.attempt)

    async def _rest(self, seconds: float) -> None:
        self.resting_count += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self.resting_count -= 1


@dataclass(slots=True)
class _Call:
    line: Line
    question: Question
    counted: int = field(default=0)
    """Attempts that failed while the service was well."""

    def is_used_up(self, _state: RetryCallState) -> bool:
        return self.counted >= self.line.service.attempts

    def wait(self, state: RetryCallState) -> float:
        """Return how long to rest: as long as the service says, and a bit at random."""
        service = self.line.service
        drawn = wait_random_exponential(
            multiplier=service.retry_seconds, max=service.retry_at_most_seconds
        )(state)
        error = state.outcome.exception() if state.outcome else None
        asked_for = getattr(error, "retry_after", None) or 0.0
        return max(drawn, min(asked_for, service.retry_at_most_seconds))

    async def attempt(self) -> str:
        async with self.line.slots:
            admitted = await self._admitted()
            try:
                return await self._ask(admitted)
            finally:
                self.line.breaker.withdrawn(admitted)

    async def _admitted(self) -> Pass:
        """Wait until the breaker lets us through."""
        breaker = self.line.breaker
        while (admitted := breaker.admit()) is None:
            # Not all at the same moment.
            await asyncio.sleep(breaker.wait_seconds * random.uniform(1, 1.25))  # noqa: S311
        return admitted

    async def _ask(self, admitted: Pass) -> str:
        """Call once, and tell the breaker."""
        breaker = self.line.breaker
        try:
            told = await self._call()
        except TaxLimitedError as error:
            breaker.limited(admitted, self._limit(error), error.message)
            raise
        except TaxDeniedError as error:
            # No fault of the account, so no attempt: it is for the breaker to end.
            breaker.denied(admitted, error.message)
            raise
        except TaxUnavailableError as error:
            breaker.failed(admitted, error.message)
            self.counted += not breaker.is_open
            raise
        except TaxBrokenError as error:
            breaker.failed(admitted, error.message)
            raise
        except TaxError:
            breaker.succeeded(admitted)
            raise
        breaker.succeeded(admitted)
        return told

    async def _call(self) -> str:
        service = self.line.service
        try:
            async with asyncio.timeout(service.timeout_seconds):
                told = await self.line.provider.assess(self.question)
        except TimeoutError as error:
            raise TaxUnavailableError(
                f"the tax service did not answer within {service.timeout_seconds:g} s"
            ) from error
        except TaxError:
            raise
        except Exception as error:
            raise TaxBrokenError(
                f"the tax service cannot be asked: {error!r}"
            ) from error
        return taxanswer.check(self.question.text, told)

    def _limit(self, error: TaxLimitedError) -> float:
        service = self.line.service
        asked_for = (
            service.retry_seconds if error.retry_after is None else error.retry_after
        )
        return min(asked_for, service.retry_at_most_seconds)
