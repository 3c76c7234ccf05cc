"""Say how a tax service for trials behaves: well, slowly, or as on a bad day.

Everything is drawn from one seeded source, so a trial can be repeated. `gate` is what
it says at once, before it thinks about a question: that it is down, that there are too
many of them. `latency` is how long it thinks, `answer` what it says then.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from email.utils import formatdate
from typing import Any, NamedTuple

from pgbill.taxanswer import unit_of

_UNTAXED = "Reverse charge"


class Reply(NamedTuple):
    """What is said to a question. Status 0: nothing, the connection is cut."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = {}  # noqa: RUF012 (a NamedTuple's default)


CUT = Reply(0, {})


@dataclass(frozen=True, slots=True)
class Conduct:
    """How a service behaves. Shares are of questions, from 0 to 1."""

    rate: str = "19"
    latency_seconds: float = 0.0
    """The median."""
    latency_spread: float = 0.0
    """Sigma of the logarithm: 0.5 makes one answer in a hundred take three times it."""
    slow_share: float = 0.0
    slow_seconds: float = 60.0
    error_share: float = 0.0
    error_status: int = 503
    cut_share: float = 0.0
    """Of questions at which it hangs up without an answer."""
    refusal_share: float = 0.0
    """Of questions that it refuses for good, with status 422."""
    contradiction_share: float = 0.0
    limit: float = 0.0
    """Questions a second; more get a 429. 0: as many as come."""
    retry_after_seconds: int = 1
    has_dates: bool = False
    """Whether Retry-After is a date."""
    down_after_seconds: float = 0.0
    down_seconds: float = 0.0
    """For how long it answers nothing but errors, from so long after its start on."""


class Trial:
    """A service with a conduct; its methods are what a `TaxServer` asks."""

    def __init__(
        self,
        conduct: Conduct,
        *,
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin now."""
        self._conduct = conduct
        self._random = random.Random(seed)  # noqa: S311 (a trial, to be repeated)
        self._clock = clock
        self._started = self._refilled = clock()
        self._tokens = max(1.0, conduct.limit)

    def gate(self, question: dict[str, Any]) -> Reply | None:
        """Return what is said at once, none if the question is thought about."""
        del question
        conduct = self._conduct
        since = self._clock() - self._started - conduct.down_after_seconds
        if 0 <= since < conduct.down_seconds:
            return self._error("down for a while")
        if conduct.limit and not self._has_token():
            told = {"reason": f"no more than {conduct.limit:g} questions a second"}
            return Reply(429, told, self._retry_after())
        return None

    def latency(self, question: dict[str, Any]) -> float:
        """Return how long this question takes."""
        del question
        conduct = self._conduct
        if self._happens(conduct.slow_share):
            return conduct.slow_seconds
        spread = self._random.lognormvariate(0, conduct.latency_spread)
        return conduct.latency_seconds * spread

    def answer(self, question: dict[str, Any]) -> Reply:
        """Return what is said to it."""
        conduct = self._conduct
        if self._happens(conduct.cut_share):
            return CUT
        if self._happens(conduct.error_share):
            return self._error("out of order")
        if self._happens(conduct.refusal_share):
            return Reply(422, {"reason": "the VAT id of the buyer is unknown"})
        reply = usual(question, rate=conduct.rate)
        if self._happens(conduct.contradiction_share):
            self._contradict(reply.body)
        return reply

    def _happens(self, share: float) -> bool:
        return self._random.random() < share

    def _error(self, reason: str) -> Reply:
        return Reply(self._conduct.error_status, {"reason": reason})

    def _has_token(self) -> bool:
        """Take a token of the bucket, which holds what a second allows."""
        now = self._clock()
        limit = self._conduct.limit
        earned = (now - self._refilled) * limit
        self._tokens = min(max(1.0, limit), self._tokens + earned)
        self._refilled = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _retry_after(self) -> dict[str, str]:
        seconds = self._conduct.retry_after_seconds
        at = formatdate(time.time() + seconds, usegmt=True)
        return {"Retry-After": at if self._conduct.has_dates else str(seconds)}

    def _contradict(self, answer: dict[str, Any]) -> None:
        """Spoil an answer in one of the ways that services have."""
        first = answer["lines"][0]
        way = self._random.randrange(4)
        if way == 0:
            answer["lines"].remove(first)
        elif way == 1:
            first["rate"] = "700"
        elif way == 2:  # noqa: PLR2004 (ways have no names)
            # ISO 4217 keeps this code for tests.
            answer["currency"] = "XTS"
        else:
            first["tax_amount"] = "123456.78"


def usual(question: dict[str, Any], *, rate: str) -> Reply:
    """Tax domestic and foreign buyers alike, and leave businesses abroad the charge."""
    buyer, seller = question["buyer"], question["seller"]
    is_foreign = buyer["country"] != seller["country"]
    is_reverse = is_foreign and buyer["tax_status"] == "business"
    lines = [
        {
            "line_no": each["line_no"],
            "category": "AE" if is_reverse else "S",
            "rate": "0" if is_reverse else rate,
            "legal_text": _UNTAXED if is_reverse else None,
            **_amount(each, Decimal(0 if is_reverse else rate), question["currency"]),
        }
        for each in question["lines"]
    ]
    return Reply(200, {"currency": question["currency"], "lines": lines})


def _amount(line: dict[str, Any], rate: Decimal, currency: str) -> dict[str, str]:
    """Say the tax of a line, if it is told what the line is worth."""
    if line.get("net_amount") is None:
        return {}
    base = 100 + rate if line.get("tax_included") else Decimal(100)
    tax = Decimal(line["net_amount"]) * rate / base
    return {"tax_amount": str(tax.quantize(unit_of(currency), ROUND_HALF_UP))}
