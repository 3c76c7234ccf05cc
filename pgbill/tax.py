"""Ask a tax service, for many accounts at once, and believe only what it can mean.

A tax service may take minutes. Calls are made outside any transaction, each in a thread
of its own, while leases are renewed beside them, so that a slow answer holds up nobody
else. What comes back is checked before it is believed: every line answered, categories
and rates that exist, the currency that was asked for.

The contract is a POST of JSON, described in `docs/tax-service.md`. The header
Idempotency-Key is the same for all attempts at one account and period.
"""

import json
import queue
import threading
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Literal, Protocol

import httpx
from pydantic import BaseModel, Field, ValidationError

from pgbill.errors import PgbillError

_CONNECT_SECONDS = 10.0
_OK = 200


class TaxError(PgbillError):
    """The tax service gave no answer that can be used."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked for an account: JSON that the database has written."""

    text: str
    idempotency_key: str


class TaxProvider(Protocol):
    """Whoever knows the tax of an invoice's lines."""

    name: str

    def assess(self, question: Question) -> str:
        """Return the answer as JSON; it may take minutes.

        Raises:
            TaxError: There is none, for a reason that is said.
        """
        ...

    def close(self) -> None:
        """Hang up, also on calls in flight."""
        ...


class HttpTax:
    """A tax service that is asked over HTTP. Safe to use from many threads."""

    def __init__(
        self, url: str, *, token: str | None, timeout_seconds: float, in_flight: int
    ) -> None:
        """Name the service; nothing is connected yet."""
        self.name = url
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=httpx.Timeout(timeout_seconds, connect=_CONNECT_SECONDS),
            limits=httpx.Limits(
                max_connections=in_flight, max_keepalive_connections=in_flight
            ),
        )

    def assess(self, question: Question) -> str:
        """Ask once.

        Raises:
            TaxError: The service is away, too slow, or says no in its own words.
        """
        try:
            reply = self._client.post(
                self.name,
                content=question.text,
                headers={
                    "Content-Type": "application/json",
                    "Idempotency-Key": question.idempotency_key,
                },
            )
        except httpx.TimeoutException as error:
            raise TaxError("the tax service did not answer in time") from error
        except httpx.HTTPError as error:
            raise TaxError(f"the tax service cannot be reached: {error}") from error
        if reply.status_code != _OK:
            words = " ".join(reply.text.split())[:200]
            raise TaxError(f"the tax service says {reply.status_code}: {words}")
        return reply.text

    def close(self) -> None:
        """Hang up, also on calls in flight."""
        self._client.close()


class _Line(BaseModel):
    line_no: int
    category: Literal["S", "Z", "E", "AE", "K", "G", "O", "L", "M", "B"]
    rate: Annotated[Decimal, Field(ge=0, le=100)]
    legal_text: str | None = None


class _Answer(BaseModel):
    """What a service answers; further fields are its own affair."""

    currency: str | None = None
    lines: list[_Line]


def check(question: str, answer: str) -> str:
    """Return the answer, reduced to what we use of it.

    Raises:
        TaxError: It does not answer what was asked; the message says where.
    """
    try:
        told = _Answer.model_validate_json(answer)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(each) for each in first["loc"])
        raise TaxError(
            f"the tax service's answer is wrong: {where}: {first['msg']}".replace(
                ": :", ":"
            )
        ) from error
    asked = json.loads(question)
    if told.currency not in (None, asked["currency"]):
        raise TaxError(
            f"the tax service answers in {told.currency}, asked was {asked['currency']}"
        )
    expected = [each["line_no"] for each in asked["lines"]]
    if sorted(each.line_no for each in told.lines) != expected:
        raise TaxError("the tax service did not answer each line once")
    return told.model_dump_json(include={"lines"})


@dataclass(frozen=True, slots=True)
class Reply:
    """The end of a call: the checked answer, or the reason why there is none."""

    ticket: object
    answer: str | None
    problem: str | None


class Desk:
    """Calls in flight, each in a thread of its own, and the replies that have come.

    The threads are daemons: a worker that ends does not wait for a service that hangs.
    """

    def __init__(self, provider: TaxProvider, *, in_flight: int) -> None:
        """Name whom to ask, and how many may be asked at once."""
        self.provider = provider
        self._limit = in_flight
        self._open: dict[object, object] = {}
        self._replies: queue.SimpleQueue[tuple[object, Reply]] = queue.SimpleQueue()

    def __len__(self) -> int:
        """Count the calls whose replies are still wanted."""
        return len(self._open)

    @property
    def free_count(self) -> int:
        """How many more may be asked now."""
        return max(0, self._limit - len(self._open))

    def ask(self, ticket: object, question: Question) -> None:
        """Begin a call; its reply will carry the ticket."""
        call = object()
        self._open[ticket] = call
        threading.Thread(
            target=self._call, args=(call, ticket, question), name="tax", daemon=True
        ).start()

    def drop(self, ticket: object) -> None:
        """Do not wait for this reply any more; when it comes it is thrown away."""
        self._open.pop(ticket, None)

    def close(self) -> None:
        """Wait for nobody any more."""
        self._open.clear()
        self.provider.close()

    def take(self, *, timeout_seconds: float) -> list[Reply]:
        """Return what has come, waiting up to the timeout for the first of it."""
        replies: list[Reply] = []
        wait = timeout_seconds
        while self._open:
            try:
                call, reply = (
                    self._replies.get(timeout=wait)
                    if wait
                    else (self._replies.get_nowait())
                )
            except queue.Empty:
                break
            # A dropped call's reply, or that of an earlier call for the same ticket.
            if self._open.get(reply.ticket) is call:
                del self._open[reply.ticket]
                replies.append(reply)
                wait = 0.0
        return replies

    def _call(self, call: object, ticket: object, question: Question) -> None:
        try:
            answer = check(question.text, self.provider.assess(question))
        except TaxError as error:
            self._replies.put((call, Reply(ticket, None, str(error))))
        except Exception as error:  # noqa: BLE001 (a provider of somebody else's)
            problem = f"the tax service's answer cannot be used: {error!r}"
            self._replies.put((call, Reply(ticket, None, problem)))
        else:
            self._replies.put((call, Reply(ticket, answer, None)))
