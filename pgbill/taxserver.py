"""A small tax service for trials and tests, which behaves as badly as you want.

It listens on 127.0.0.1, on a port of its own, and speaks the contract of
`docs/tax-service.md`. What it says, and after how long, is told by functions of the
question, so that some accounts are slow and others are not. All of it is one event loop
in a thread: thousands of questions can wait for their answers.

By hand: `python -m pgbill.taxserver --latency 0.3 --error-share 0.1` prints the address
to set as PGBILL_TAX_URL, and ends with Ctrl-C. `docs/tax-service.md` has the options.
"""

import argparse
import asyncio
import contextlib
import json
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Coroutine
from dataclasses import fields
from http import HTTPStatus
from types import FrameType
from typing import Any, Self, cast

from pgbill import taxtrial
from pgbill.taxtrial import Conduct, Reply, Trial

Latency = Callable[[dict[str, Any]], float]
Answered = Reply | tuple[int, dict[str, Any]]
Answer = Callable[[dict[str, Any]], Answered]
Gate = Callable[[dict[str, Any]], Reply | None]

_READY_SECONDS = 10
_BACKLOG = 2_048
_GONE = (
    ConnectionError,
    ValueError,
    asyncio.IncompleteReadError,
    asyncio.CancelledError,
)


def at_once(question: dict[str, Any]) -> float:
    """Answer without delay."""
    del question
    return 0.0


def open_gate(question: dict[str, Any]) -> Reply | None:
    """Think about every question."""
    del question


class TaxServer:
    """A running tax service, from `with` to its end."""

    def __init__(
        self,
        latency: Latency = at_once,
        *,
        rate: str = "19",
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        port: int = 0,
    ) -> None:
        """Say how long it takes, in seconds, and what rate it answers, in percent."""
        self.latency = latency
        self.rate = rate
        self.gate: Gate = open_gate
        """What it says at once; may be replaced at any time."""
        self.answer: Answer = self.usual_answer
        """What it answers after that; may be replaced at any time."""
        self.questions: list[tuple[str, dict[str, Any]]] = []
        """What was asked, with its idempotency key, in the order of arrival."""
        self.most_at_once = 0
        """How many questions it has had on its hands at one moment."""
        self._at_once = 0
        self._token = token
        self._tls = tls
        self._socket = socket.create_server(("127.0.0.1", port), backlog=_BACKLOG)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def url(self) -> str:
        """Where to ask."""
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://127.0.0.1:{self._socket.getsockname()[1]}/tax"

    def behave(self, trial: Trial) -> None:
        """Conduct itself as a trial says, from now on."""
        self.gate, self.latency, self.answer = trial.gate, trial.latency, trial.answer

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(self, *exception: object) -> None:
        """End; calls that are waited for are cut off."""
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_READY_SECONDS)
        self._loop.close()

    def usual_answer(self, question: dict[str, Any]) -> Reply:
        """Return status and body: domestic, foreign, or reverse charge."""
        return taxtrial.usual(question, rate=self.rate)

    def _do(self, doing: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(doing, self._loop).result(_READY_SECONDS)

    async def _listen(self) -> None:
        # Told what comes and goes: `Server.close` knows no connections before 3.13.
        self._server = await asyncio.start_server(
            self._serve, sock=self._socket, ssl=self._tls, backlog=_BACKLOG
        )

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for each in others:
            each.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer one question after the other, until the caller hangs up."""
        # Callers that are gone were killed, or did not wait: nothing is said of them.
        with contextlib.suppress(*_GONE):
            while True:
                headers = _headers(await reader.readuntil(b"\r\n\r\n"))
                size = int(headers.get("content-length", "0"))
                reply = await self._reply(headers, await reader.readexactly(size))
                if reply.status == 0:
                    break
                writer.write(_message(reply))
                await writer.drain()
        writer.close()

    async def _reply(self, headers: dict[str, str], body: bytes) -> Reply:
        wanted = f"Bearer {self._token}"
        if self._token is not None and headers.get("authorization") != wanted:
            return Reply(401, {"reason": "who are you?"})
        question = json.loads(body)
        key = headers.get("idempotency-key", "")
        self.questions.append((key, question))
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            told = {**question, "key": key}
            if (reply := self.gate(told)) is not None:
                return reply
            await asyncio.sleep(self.latency(told))
            answer = self.answer(told)
            return answer if isinstance(answer, Reply) else Reply(*answer)
        finally:
            self._at_once -= 1


def _headers(head: bytes) -> dict[str, str]:
    """Read the lines after the first."""
    lines = head.decode("latin-1").split("\r\n")[1:]
    pairs = [line.partition(":") for line in lines if line]
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _message(reply: Reply) -> bytes:
    body = json.dumps(reply.body).encode()
    try:
        phrase = HTTPStatus(reply.status).phrase
    except ValueError:
        phrase = "Unknown"
    headers = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **reply.headers,
    }
    lines = [f"HTTP/1.1 {reply.status} {phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def _arguments() -> argparse.ArgumentParser:
    """Make an option of each part of a conduct: `--slow-share 0.01`."""
    parser = argparse.ArgumentParser(
        prog="python -m pgbill.taxserver",
        description="A tax service for trials. Shares are from 0 to 1.",
        allow_abbrev=False,
    )
    parser.add_argument("--port", type=int, default=0, help="0: any that is free")
    parser.add_argument("--token", help="the bearer token that it wants to see")
    parser.add_argument("--seed", type=int, default=0, help="the same: the same trial")
    for each in fields(Conduct):
        name = "--" + each.name.removesuffix("_seconds").replace("_", "-")
        if each.type is bool:
            parser.add_argument(name, dest=each.name, action="store_true")
            continue
        kind = cast("Callable[[str], Any]", each.type)
        parser.add_argument(
            name, dest=each.name, type=kind, default=each.default, metavar="N"
        )
    return parser


def main() -> None:
    """Serve until SIGTERM or Ctrl-C; the first line of stdout is the address."""
    options = vars(_arguments().parse_args())
    port, token, seed = (options.pop(name) for name in ("port", "token", "seed"))
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    with TaxServer(token=token, port=port) as server:
        server.behave(Trial(Conduct(**options), seed=seed))
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        ended.wait()
    sys.stderr.write(
        f"{len(server.questions)} questions, {server.most_at_once} at once at most\n"
    )


if __name__ == "__main__":
    main()
