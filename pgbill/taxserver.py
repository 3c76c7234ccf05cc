"""A small tax service for trials and tests: invented rates, and the latency you want.

It listens on 127.0.0.1, on a port of its own. How long an answer takes is told by a
function of the question, so that some accounts are slow and others are not. It speaks
the contract of `docs/tax-service.md`.
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Latency = Callable[[dict[str, Any]], float]
Answer = Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]


def at_once(question: dict[str, Any]) -> float:
    """Answer without delay."""
    del question
    return 0.0


class TaxServer:
    """A running tax service, from `with` to its end."""

    def __init__(self, latency: Latency = at_once, *, rate: str = "19") -> None:
        """Say how long it takes, in seconds, and what rate it answers, in percent."""
        self.latency = latency
        self.rate = rate
        self.answer: Answer = self.usual_answer
        """What it answers; may be replaced at any time."""
        self.questions: list[tuple[str, dict[str, Any]]] = []
        """What was asked, with its idempotency key, in the order of arrival."""
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.service = self
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Where to ask."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/tax"

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """End; calls that are waited for are cut off."""
        self._server.shutdown()
        self._server.server_close()

    def usual_answer(self, question: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return status and body: domestic, foreign, or reverse charge."""
        buyer, seller = question["buyer"], question["seller"]
        domestic = buyer["country"] == seller["country"]
        reverse = not domestic and buyer["tax_status"] == "business"
        lines = [
            {
                "line_no": each["line_no"],
                "category": "AE" if reverse else "S",
                "rate": "0" if reverse else self.rate,
                "legal_text": "Reverse charge" if reverse else None,
            }
            for each in question["lines"]
        ]
        return 200, {"currency": question["currency"], "lines": lines}


class _Server(ThreadingHTTPServer):
    """Threads that do not keep the program alive."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 512
    service: TaxServer

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of callers that are gone: they were killed, or did not wait."""
        if not isinstance(sys.exception(), ConnectionError | json.JSONDecodeError):
            super().handle_error(request, client_address)  # pyright: ignore[reportArgumentType]


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        assert isinstance(self.server, _Server)
        service = self.server.service
        size = int(self.headers.get("Content-Length", "0"))
        question = json.loads(self.rfile.read(size))
        key = str(self.headers.get("Idempotency-Key", ""))
        service.questions.append((key, question))
        time.sleep(service.latency({**question, "key": key}))
        status, answer = service.answer(question)
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""
