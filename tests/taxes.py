"""Ask a tax service for trials: what takes seconds in life takes hundredths here."""

import time
from typing import Any

from pgbill.tax import TaxService
from pgbill.taxserver import Answer, Answered, Gate, Latency, TaxServer
from pgbill.taxtrial import Reply


def asks(
    server: TaxServer,
    *,
    in_flight: int = 64,
    timeout: float = 20,
    **how: Any,  # noqa: ANN401
) -> TaxService:
    """Return how a worker asks the server."""
    usual: dict[str, Any] = {"retry_seconds": 0.02, "retry_at_most_seconds": 0.5}
    return TaxService(server.url, None, timeout, in_flight, **{**usual, **how})


def takes(seconds: float) -> Latency:
    """Return a latency that is always the same."""

    def latency(_question: dict[str, Any]) -> float:
        return seconds

    return latency


def always(status: int, **headers: str) -> Answer:
    """Return an answer that is always the same and none."""

    def answer(_question: dict[str, Any]) -> Reply:
        return Reply(
            status, {}, {name.replace("_", "-"): it for name, it in headers.items()}
        )

    return answer


def at_first(count: int, answer: Answer, server: TaxServer) -> Answer:
    """Return an answer that each question gets so many times before the usual one."""
    seen: dict[str, int] = {}

    def answers(question: dict[str, Any]) -> Answered:
        key = str(question["key"])
        seen[key] = seen.get(key, 0) + 1
        return answer(question) if seen[key] <= count else server.usual_answer(question)

    return answers


def dead_after(count: int, *, seconds: float, server: TaxServer) -> Gate:
    """Return a gate that is shut for a while after so many questions."""
    shut_at: list[float] = []

    def gate(_question: dict[str, Any]) -> Reply | None:
        if len(server.questions) > count and not shut_at:
            shut_at.append(time.monotonic())
        is_shut = shut_at and time.monotonic() < shut_at[0] + seconds
        return Reply(503, {"reason": "back soon"}) if is_shut else None

    return gate
