"""Ask a tax service for trials: what takes seconds in life takes hundredths here."""

import time
from pathlib import Path
from typing import Any

from pgbill.tax import TaxService
from pgbill.taxserver import Answer, Answered, Gate, Latency, TaxServer
from pgbill.taxtrial import Reply

_MODULE = """
import json

class Flat:
    name = "flat"
    def __init__(self, service):
        self.service = service
    async def assess(self, question):
        lines = [
            {"line_no": each["line_no"], "category": "S", "rate": 5}
            for each in json.loads(question.text)["lines"]
        ]
        return json.dumps({"lines": lines})
    async def close(self):
        pass

def broken(service):
    raise RuntimeError("no licence")
"""
_ENTRY_POINTS = """
[pgbill.tax_providers]
flat = flat_tax:Flat
broken = flat_tax:broken
absent = no_such_module:Flat
"""


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


def install_providers(site: Path) -> Path:
    """Install a distribution as pip does: a module, and metadata beside it."""
    metadata = site / "flat_tax-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / "flat_tax.py").write_text(_MODULE)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: flat-tax\n")
    (metadata / "entry_points.txt").write_text(_ENTRY_POINTS)
    return site
